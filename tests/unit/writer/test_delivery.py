import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import (
    ConfigurationError,
    EmbedderUnavailableError,
    ErasedError,
    ModelUnavailableError,
    PayloadError,
    PoisonError,
    QueueUnavailableError,
    RejectedRequestError,
    StoreUnavailableError,
    TransientError,
    TurnError,
    UnreadableModelOutputError,
    WriterKilledError,
)
from writer.delivery import DeadLetter, Drop, Retry, RetryPolicy, decide

POLICY = RetryPolicy()
OUTAGES = [
    ModelUnavailableError,
    EmbedderUnavailableError,
    StoreUnavailableError,
    QueueUnavailableError,
    TransientError,
    ConnectionRefusedError,
    TimeoutError,
]
OWN_FAULTS = [
    (UnreadableModelOutputError, "unreadable"),
    (RejectedRequestError, "rejected"),
    (WriterKilledError, "killed"),
    (TurnError, "failed"),
    (KeyError, "failed"),
    (ConfigurationError, "failed"),
]


@pytest.mark.parametrize("outage", OUTAGES)
def test_an_outage_is_tried_again_without_limit_after_1_5_30_and_then_60_seconds(outage):
    fates = [decide(outage("down"), attempt, policy=POLICY) for attempt in [1, 2, 3, 4, 5, 1000]]
    assert fates == [Retry(seconds, outage=True) for seconds in [1, 5, 30, 60, 60, 60]]


@pytest.mark.parametrize(("fault", "reason"), OWN_FAULTS)
def test_what_the_turn_itself_causes_is_tried_five_times(fault, reason):
    fates = [decide(fault("bad"), attempt, policy=POLICY) for attempt in [1, 2, 3, 4, 5]]
    assert fates == [Retry(1), Retry(5), Retry(30), Retry(60), DeadLetter(reason)]


def test_poison_is_a_dead_letter_at_once():
    assert decide(PayloadError("no turn"), 1, policy=POLICY) == DeadLetter("invalid")
    assert decide(PoisonError("hopeless"), 1, policy=POLICY) == DeadLetter("failed")


@pytest.mark.parametrize("attempt", [1, 5, 6])
def test_an_erased_turn_is_dropped_and_leaves_no_dead_letter(attempt):
    assert decide(ErasedError("erased"), attempt, policy=POLICY) == Drop()


@given(st.integers(1, 100), st.floats(-1, 1))
def test_delays_differ_by_ten_percent_at_most(attempt, jitter):
    exact = POLICY.delay_seconds(attempt, 0)
    assert exact * 0.9 - 1e-9 <= POLICY.delay_seconds(attempt, jitter) <= exact * 1.1 + 1e-9
    assert POLICY.delay_seconds(attempt, -1) < exact < POLICY.delay_seconds(attempt, 1)
