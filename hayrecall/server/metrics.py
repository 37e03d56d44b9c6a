"""What the server counts, and the page that Prometheus reads."""

from prometheus_client import CONTENT_TYPE_LATEST, Counter, generate_latest
from starlette.responses import Response

RUNS = Counter(
    "hayrecall_runs",
    "Chat runs by served model and outcome; `failed` and `disconnected` beside those that a response tells",
    ["assistant", "outcome"],
)


def metrics_page() -> Response:
    """Give everything that this process counts."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
