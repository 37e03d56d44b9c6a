"""What the writer counts and times."""

from prometheus_client import Counter, Gauge, Histogram

from writer.work_metrics import WorkMetrics

TURNS = Counter("hayrecall_writer_turns", "Deliveries of turns, by how they ended", ["end"])
for end in ("stored", "duplicate", "not_learned", "erased", "retried", "dead_lettered", "lost", "returned"):
    TURNS.labels(end)

STAGE_SECONDS = Histogram(
    "hayrecall_writer_stage_seconds",
    "Time of the stages of a write",
    ["stage"],
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
IN_PROGRESS = Gauge("hayrecall_writer_in_progress", "Turns that are being handled")
WAITING = Gauge("hayrecall_writer_waiting", "Turns that are delivered and wait for a slot")
QUEUED = Gauge("hayrecall_queued_turns", "Turns on the queue, those in progress included")
OLDEST_SECONDS = Gauge(
    "hayrecall_oldest_queued_turn_seconds", "Age of the oldest turn on the queue; 0 if there is none"
)
DEAD_LETTERS = Gauge("hayrecall_dead_letters", "Turns that were given up, until they are replayed or discarded")
WORK = WorkMetrics(TURNS, IN_PROGRESS, WAITING, STAGE_SECONDS.labels("whole"))
