"""What components count and time; the server's and the writer's own metrics live in their rooms."""

from prometheus_client import Counter, Histogram

FAIL_OPEN = Counter(
    "hayrecall_fail_open",
    "Optional stages that failed or timed out, so that the turn went on without them",
    ["stage"],
)
UNREADABLE_VERDICTS = Counter(
    "hayrecall_unreadable_verdicts",
    "Answers of a gate or guard that were not what it was asked for, taken as the permissive verdict",
    ["stage"],
)
BLANK_CONDENSATIONS = Counter(
    "hayrecall_blank_condensations",
    "Turns that were refused because the condenser gave no question",
)
CUT_CONDENSATIONS = Counter(
    "hayrecall_cut_condensations",
    "Condensed questions that were cut because they were longer than allowed",
)
STAGE_SECONDS = Histogram(
    "hayrecall_model_call_seconds",
    "Time of one model call with its retries, by stage",
    ["stage"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
