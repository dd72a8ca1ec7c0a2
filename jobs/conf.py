"""Every setting of the queue: its name, its default, what it is for. Read here and nowhere else, live.

A host site writes `JOBS = {"CLAIM_DURATION": timedelta(minutes=10), …}`; durations may also be numbers of seconds
or texts such as "90", "30s", "5m", "2h", "30d".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec

from jobs.alerts.wording import Kind
from jobs.settings_schema import (
    Problem,
    SettingsReader,
    address,
    duration,
    flag,
    labels,
    names,
    number,
    parse_duration,
    release,
    secret,
    text,
    webhook,
)

__all__ = ["JobsSettings", "current", "find_problems", "parse_duration"]


@dataclass(frozen=True)
class JobsSettings:
    claim_duration: timedelta = duration("30m", "how long a lease lasts unless it is renewed")
    heartbeat_interval: timedelta = duration("30s", "how often a worker reports and renews its leases")
    offline_threshold: timedelta = duration("5m", "silence after which a worker counts as offline")
    tick_interval: timedelta = duration(
        "1s", "how often a worker looks for due jobs and for proof of a death"
    )
    sweep_interval: timedelta = duration("60s", "how often the whole sweep runs")
    stale_timeout: timedelta = duration("30m", "a running job without progress for this long loses its lease")
    recovery_grace: timedelta = duration(
        "2m",
        "after the database, or for remote workers the site, was down: how long neither expiry nor silence counts",
    )
    session_lock_grace: timedelta = duration(
        "5s", "how long a worker's PostgreSQL lock may be free (reconnect)"
    )
    session_features: bool = flag(
        True,
        "LISTEN, session locks, prepared statements on PostgreSQL; false behind a transaction pooler (PgBouncer)",
    )
    frozen_transaction_timeout: timedelta = duration(
        "30s", "how long a frozen worker may hold the locks of its open transaction (PostgreSQL)"
    )
    drain_timeout: timedelta = duration("30s", "how long running jobs may finish after SIGTERM")
    cancel_grace: timedelta = duration(
        "5s", "how long the handler of a cancelled job may clean up before it is interrupted"
    )
    max_attempts: int = number(3, "how often a job runs at most, unless its type says otherwise")
    backoff_base: timedelta = duration("10s", "the wait after the first failed attempt")
    backoff_cap: timedelta = duration("1h", "the longest wait between two attempts")
    priorities: tuple[tuple[str, int], ...] = labels(
        {"high": 0, "normal": 5, "low": 10},
        "names of priorities, lower runs first; add names or change numbers, high < normal < low stay",
    )
    priority_ageing: timedelta = duration(
        "5m", "a job that waited this long shares in claims whatever its priority"
    )
    gpu_patience: timedelta = duration("60s", "how long a job that prefers a GPU is left to idle GPU workers")
    max_depth: int = number(1_000_000, "active jobs above which enqueue raises QueueFull")
    warn_depth: int = number(10_000, "active jobs above which enqueue logs a warning")
    submitter_rate: int = number(0, "jobs per minute and submitter; 0 means no limit", minimum=0)
    payload_max_bytes: int = number(256 * 1024, "the largest payload or result, as JSON")
    error_max_chars: int = number(4_000, "how much of an error is kept in last_error")
    retention: timedelta = duration("30d", "how long completed and cancelled jobs are kept")
    breaker_failures: int = number(5, "failures in a row that open a circuit breaker")
    breaker_cooldown: timedelta = duration("60s", "how long an open breaker lets nothing through")
    breaker_probes: int = number(1, "trial calls at once while a breaker is half-open")
    breaker_probe_timeout: timedelta = duration(
        "60s", "how long a trial call holds its place (a trial job: as long as its lease)"
    )
    periodic_grace: timedelta = duration(
        "60s", "how late a tick of a periodic job may fire when missed ones are to be skipped"
    )
    catch_up_limit: int = number(100, "how many missed ticks of one schedule are made up for at most")
    queue_mode: str = text(
        "database",
        "what wakes workers and live pages: database, redis, or hybrid (Redis while it is there)",
        choices=("database", "redis", "hybrid"),
    )
    redis_url: str = address(
        "where Redis is: redis://…, rediss://… or unix://…", schemes=("redis", "rediss", "unix")
    )
    redis_pool_size: int = number(10, "connections to Redis that one process opens at most")
    redis_prefix: str = text("jobs", "what Sprocket's keys in Redis begin with; sites that share it differ")
    redis_channel_prefix: str = text(
        "", "what the names of the channels for outside subscribers begin with, such as worker_status"
    )
    live_connections: int = number(
        200, "live pages that one web process serves; the next ones poll; 0: all of them poll", minimum=0
    )
    live_heartbeat: timedelta = duration(
        "30s", "a live page or event stream hears something at least this often"
    )
    live_reconnect: timedelta = duration(
        "3s", "how long a live page or client of events waits before it connects again"
    )
    alert_webhook_url: str = webhook("where alerts are posted to; empty: there are none")
    alert_webhook_secret: str = secret("with it alerts are signed (HMAC); empty: they are not", shortest=16)
    alert_format: str = text(
        "auto",
        "slack, discord or json (generic); auto goes by the URL",
        choices=("auto", "slack", "discord", "json"),
    )
    alert_kinds: frozenset[str] = names(
        tuple(str(kind) for kind in Kind), "which kinds of alerts are sent: all, or their names"
    )
    alert_rate_limit: timedelta = duration("300s", "one alert per kind in this time")
    alert_timeout: timedelta = duration("10s", "how long the delivery of an alert may take, all in all")
    alert_allow_private: bool = flag(
        False, "alerts may go to private and local addresses, and by http; false: neither"
    )
    alert_pattern_jobs: int = number(
        3, "so many jobs that failed alike are a pattern, and one alert", minimum=2
    )
    alert_pattern_window: timedelta = duration("1h", "within this time")
    metrics_token: str = secret(
        "what Prometheus sends as a bearer token to read /metrics; empty: only staff may", shortest=16
    )
    worker_admin_secret: str = secret(
        "with it a remote worker registers itself; empty: registration is off", shortest=16
    )
    min_worker_version: str = release(
        "remote workers below this version get no jobs; empty: any version does"
    )
    registration_rate: int = number(10, "attempts to register a worker, per minute and client address")
    failed_auth_rate: int = number(30, "wrong keys and tokens, per minute and client address")
    archive_max_bytes: int = number(4 * 10**9, "the largest archive of files that a remote worker may send")
    trusted_proxies: int = number(
        0, "how many proxies in front of the site append to X-Forwarded-For; 0: it is not read", minimum=0
    )


def _contradictions(settings: JobsSettings) -> list[Problem]:
    problems: list[Problem] = []

    def add(setting: str, code: str, text: str) -> None:
        problems.append(Problem(text, code=code, setting=setting))

    if settings.heartbeat_interval * 2 > settings.claim_duration:
        add(
            "HEARTBEAT_INTERVAL",
            "above_half_the_claim",
            "JOBS['HEARTBEAT_INTERVAL'] must be at most half of CLAIM_DURATION, or leases run out.",
        )
    if settings.heartbeat_interval >= settings.offline_threshold:
        add(
            "HEARTBEAT_INTERVAL",
            "above_offline_threshold",
            "JOBS['HEARTBEAT_INTERVAL'] must be below OFFLINE_THRESHOLD, or workers flap.",
        )
    if settings.backoff_base > settings.backoff_cap:
        add("BACKOFF_BASE", "above_backoff_cap", "JOBS['BACKOFF_BASE'] must not exceed BACKOFF_CAP.")
    if settings.alert_webhook_url.startswith("http:") and not settings.alert_allow_private:
        add(
            "ALERT_WEBHOOK_URL",
            "needs_https",
            "JOBS['ALERT_WEBHOOK_URL'] must be https; http needs ALERT_ALLOW_PRIVATE.",
        )
    if settings.alert_timeout > timedelta(minutes=1):
        add("ALERT_TIMEOUT", "too_long", "JOBS['ALERT_TIMEOUT'] must be at most a minute.")
    for name in ("live_heartbeat", "live_reconnect"):
        if getattr(settings, name) > timedelta(minutes=5):  # proxies end what is silent for longer
            add(name.upper(), "too_long", f"JOBS['{name.upper()}'] must be at most five minutes.")
    if settings.queue_mode != "database":
        mode = f"JOBS['QUEUE_MODE'] is {settings.queue_mode!r}, but"
        if not settings.redis_url:
            add("REDIS_URL", "redis_url_missing", f"{mode} JOBS['REDIS_URL'] does not say where Redis is.")
        if find_spec("redis") is None:
            add(
                "QUEUE_MODE",
                "redis_py_missing",
                f"{mode} redis-py is not installed: pip install 'sprocket-queue[redis]'.",
            )
        elif settings.redis_url and not _is_understood(settings.redis_url):
            add("REDIS_URL", "redis_url_unclear", f"{mode} redis-py does not understand JOBS['REDIS_URL'].")
    return problems


def _is_understood(redis_url: str) -> bool:
    from redis import ConnectionPool

    try:
        ConnectionPool.from_url(redis_url).make_connection()  # nobody is called yet
    except Exception:  # what its query says may be anything
        return False
    return True


_reader = SettingsReader("JOBS", JobsSettings, _contradictions)
current = _reader.current
find_problems = _reader.find_problems
