"""SIGTERM, SIGINT and SIGHUP as an exception in the main thread."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopRequested(BaseException):
    """Somebody asked this process to end."""


@contextmanager
def stop_signals() -> Iterator[None]:
    """Let the signals raise StopRequested wherever the main thread is, for the time of a `with` block."""
    before = {number: signal.signal(number, _raise) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise StopRequested
