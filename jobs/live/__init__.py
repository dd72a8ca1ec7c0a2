"""Live pages: Server-Sent Events that carry fresh state from the database.

A *topic* is a function that reads the state of something as a flat mapping. While a page is open, one thread per web
process (the hub) reads each topic when something may have changed, at most twice a second however many pages look at
it, and sends every page the values that differ.

A view that offers topics checks the permission and returns a stream:

    def events(request, slug):
        video = visible_or_404(request, slug)
        return live.stream(request, [live.Topic(f"video:{video.pk}", partial(read_video, video.pk))])

    def read_video(pk) -> live.State:
        return {"video.percent": 41.5, "video.status": "processing", "video.qualities": render_to_string(…)}

Topics of the same name are the same topic, so the name says everything that `read` depends on (also the admin site's
name, when it renders links). `read` runs in the hub's thread: no request, no user. Its keys are what elements refer to:

    <main data-live-source="{% url … %}">
      <progress max="100" value="{{ percent }}" data-live="video.percent"></progress>
      <span class="sp-badge" data-status="{{ status }}" data-live="video.status">{{ status }}</span>
      <ul data-live="video.qualities">{% include "qualities.html" %}</ul>

Texts stay texts; a SafeString (what `render_to_string` and `format_html` return) is HTML and replaces what is inside
the element. `jobs/static/jobs/live.js` tells the rest. Topics of jobs and workflows are in `jobs/live/job_topics.py`,
that of workers is in `jobs/live/worker_topics.py`; the stream for programs is `jobs:events`
(/api/events/?job=…&worker=…), to which apps add topics with `live.offer`; in the admin it is
`admin:jobs_dashboard_live`.

Changes of jobs are noticed by themselves. Whoever changes something else that a topic shows calls
`live.hint_on_commit()`; without it the pages follow a few seconds later.
"""

from jobs.live.hints import hint_on_commit
from jobs.live.offers import Offer, offer
from jobs.live.streaming import stream
from jobs.live.topic import State, Topic

__all__ = ["Offer", "State", "Topic", "hint_on_commit", "offer", "stream"]
