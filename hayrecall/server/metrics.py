"""What the server counts, and the page that Prometheus reads."""

import asyncio

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from starlette.responses import Response

from components.dead_letters import DeadLetterQueue
from contracts.errors import QueueUnavailableError

_PATIENCE_SECONDS = 0.5
_SECONDS = (0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120)

RUNS = Counter(
    "hayrecall_runs",
    "Chat runs by served model and outcome; `failed` and `disconnected` beside those that a response tells",
    ["assistant", "outcome"],
)
FIRST_TEXT_SECONDS = Histogram(
    "hayrecall_first_text_seconds", "From the request to the first text of its answer", ["assistant"], buckets=_SECONDS
)
RUN_SECONDS = Histogram(
    "hayrecall_run_seconds", "From the request to the end of its answer", ["assistant"], buckets=_SECONDS
)

# The writer counts the same under the same name, in a process of its own.
_SHARED = CollectorRegistry()
_DEAD_LETTERS = Gauge(
    "hayrecall_dead_letters", "Turns that were given up, until they are replayed or discarded", registry=_SHARED
)


async def metrics_page(dead_letters: DeadLetterQueue) -> Response:
    """
    Give everything that this process counts.

    :param dead_letters: Counted now; while NATS is away, the last known number is shown.
    """
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            _DEAD_LETTERS.set(await dead_letters.count())
    except (QueueUnavailableError, TimeoutError):
        pass
    return Response(generate_latest(REGISTRY) + generate_latest(_SHARED), media_type=CONTENT_TYPE_LATEST)
