"""Alerts: a word to a chat or another machine about what people should know, delivered by a job of its own.

Whoever notices something calls `signals.raise_alarm` (or is heard through the signals of jobs and breakers). `watching`
listens, `sending` lets one alert per kind through and enqueues it, `patterns` finds failures that belong together;
`delivery` posts, `addresses` says where it may not go, `bodies` and `signing` make what is posted.
Without JOBS["ALERT_WEBHOOK_URL"] nothing of this costs anything.
"""
