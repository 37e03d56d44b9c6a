"""What every consumer counts, under the names of its own process."""

from typing import NamedTuple

from prometheus_client import Counter, Gauge, Histogram


class WorkMetrics(NamedTuple):
    """
    Where a consumer counts.

    `ends` has one label, the name of the end; beside those of the handler these are `retried`, `dead_lettered`, `lost`
    (somebody else has it) and `returned` (given back at a stop).
    """

    ends: Counter
    in_progress: Gauge
    waiting: Gauge
    seconds: Histogram
