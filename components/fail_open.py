"""The one place where a failing optional stage is passed over, and counted."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from haystack import logging

from components.metrics import FAIL_OPEN, UNREADABLE_VERDICTS
from contracts.errors import HayrecallError, RefusalError, UnreadableModelOutputError

logger = logging.getLogger(__name__)

T = TypeVar("T")


async def fail_open(stage: str, work: Awaitable[T], otherwise: T, *, timeout_seconds: float | None = None) -> T:
    """
    Await optional work; when it fails or takes too long, go on without it.

    A refusal is a decision and no failure: it passes. So does cancellation.

    :param stage: Name for the log and the label of the metrics.
    :param work: What to await.
    :param otherwise: Result when the work fails.
    :param timeout_seconds: Longest wait; None for no limit of its own.
    :returns: The result of the work, or `otherwise`.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            return await work
    except RefusalError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever an optional stage raises, the turn goes on
        FAIL_OPEN.labels(stage=stage).inc()
        if isinstance(error, UnreadableModelOutputError):
            UNREADABLE_VERDICTS.labels(stage=stage).inc()
        logger.warning("{stage} failed open: {reason}", stage=stage, reason=_reason(error))
        return otherwise


def _reason(error: Exception) -> str:
    """Name the failure without any user text: only our own messages are known to hold none."""
    return f"{type(error).__name__}: {error}" if isinstance(error, HayrecallError) else type(error).__name__
