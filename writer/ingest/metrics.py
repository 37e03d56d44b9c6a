"""What an ingestion worker counts and times."""

from prometheus_client import Counter, Gauge, Histogram

from writer.work_metrics import WorkMetrics

JOBS = Counter("hayrecall_ingest_jobs", "Deliveries of ingestion jobs, by how they ended", ["end"])
for end in ("stored", "unchanged", "skipped", "superseded", "retried", "dead_lettered", "lost", "returned"):
    JOBS.labels(end)

PASSAGES = Counter("hayrecall_ingest_passages", "Passages of the documents that were stored")
SECONDS = Histogram(
    "hayrecall_ingest_job_seconds",
    "Time of a job, from its delivery to its end",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900),
)
IN_PROGRESS = Gauge("hayrecall_ingest_in_progress", "Jobs that are being done")
WAITING = Gauge("hayrecall_ingest_waiting", "Jobs that are delivered and wait for others, because they end workers")
QUEUED = Gauge("hayrecall_ingest_queued_jobs", "Jobs on the queue, those in progress included")
DEAD_LETTERS = Gauge("hayrecall_ingest_dead_letters", "Documents whose last job was given up")

WORK = WorkMetrics(JOBS, IN_PROGRESS, WAITING, SECONDS)
