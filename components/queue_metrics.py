"""What the publishing half of the queue counts."""

from prometheus_client import Counter, Gauge

PUBLISHED_TURNS = Counter(
    "hayrecall_published_turns",
    "Turns handed to the queue, by where they are durable: stored (NATS), duplicate, outbox (this host's disk)",
    ["result"],
)
LOST_TURNS = Counter(
    "hayrecall_turns_lost",
    "Turns that neither NATS nor the outbox on disk took; each has a line in the log at ERROR",
)
SUPPRESSED_TURNS = Counter(
    "hayrecall_suppressed_turns",
    "Turns from the outbox that were dropped because their user had switched learning off",
)
UNKNOWN_USER_STATES = Counter(
    "hayrecall_unknown_user_states",
    "Reads of a user's learning switch that NATS did not answer, so that the last known state counted",
)
OUTBOX_TURNS = Gauge("hayrecall_outbox_turns", "Turns that wait on this host's disk for NATS")
OUTBOX_AGE_SECONDS = Gauge("hayrecall_outbox_oldest_seconds", "Since when the oldest of them waits")
