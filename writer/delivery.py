"""What becomes of a turn whose handling failed: a pure decision from the branch of its error and what was tried."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from contracts.errors import (
    ErasedError,
    PayloadError,
    PoisonError,
    RejectedRequestError,
    TransientError,
    UnreadableModelOutputError,
    WriterKilledError,
)

Reason = Literal["invalid", "unreadable", "rejected", "killed", "failed"]


@dataclass(frozen=True)
class Retry:
    """
    Deliver it again after a while.

    `outage` tells that a part was down, which is held against nobody: such attempts are not limited.
    """

    delay_seconds: float
    outage: bool = False


@dataclass(frozen=True)
class DeadLetter:
    """Keep it apart, with the reason, until an operator replays or discards it."""

    reason: Reason


@dataclass(frozen=True)
class Drop:
    """Acknowledge it and leave nothing: its user erased it."""


Fate = Retry | DeadLetter | Drop


@dataclass(frozen=True)
class RetryPolicy:
    """How often, and after which delays, a turn is tried again."""

    delays_seconds: Sequence[float] = (1, 5, 30, 60)
    spread: float = 0.1
    max_attempts: int = 5

    def delay_seconds(self, attempt: int, jitter: float) -> float:
        """
        Give the delay after the n-th failed attempt; the last one of the list goes on for ever.

        :param attempt: 1 for the first.
        :param jitter: -1 to 1, so that turns which failed together do not come back together.
        """
        delay = self.delays_seconds[min(attempt, len(self.delays_seconds)) - 1]
        return delay * (1 + self.spread * jitter)


def decide(error: Exception, attempt: int, *, policy: RetryPolicy, jitter: float = 0.0) -> Fate:
    """
    Decide what becomes of a turn.

    :param error: What its handling raised.
    :param attempt: How many attempts failed so far, this one included: of its own fault, or, for an outage, by outages.
    :param policy: Delays and limit.
    :param jitter: -1 to 1; see `RetryPolicy.delay_seconds`.
    :returns: What to do with it.
    """
    if isinstance(error, ErasedError):
        return Drop()
    if isinstance(error, PoisonError):
        return DeadLetter(_reason(error))
    if is_outage(error):
        return Retry(policy.delay_seconds(attempt, jitter), outage=True)
    if attempt >= policy.max_attempts:
        return DeadLetter(_reason(error))
    return Retry(policy.delay_seconds(attempt, jitter))


def is_outage(error: Exception) -> bool:
    """Tell whether a part was down; an `OSError` (also `TimeoutError`) is one: no turn's content causes it."""
    return isinstance(error, TransientError | OSError)


def _reason(error: Exception) -> Reason:
    match error:
        case PayloadError():
            return "invalid"
        case UnreadableModelOutputError():
            return "unreadable"
        case RejectedRequestError():
            return "rejected"
        case WriterKilledError():
            return "killed"
        case _:
            return "failed"
