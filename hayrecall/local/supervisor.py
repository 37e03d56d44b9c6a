"""Starts parts side by side, keeps them running, and stops them in reverse order, group by group."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hayrecall.local.child import Child
from hayrecall.local.failures import PartFailedError

_POLL_SECONDS = 0.05
_FIRST_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 30.0
_STEADY_SECONDS = 60.0


@dataclass
class _Watched:
    child: Child
    group: int
    started_at: float
    delay_seconds: float = _FIRST_DELAY_SECONDS
    restart_at: float | None = None


class Supervisor:
    """Owns the children of one process."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """
        Start with no parts.

        :param tell: Takes one line for the operator.
        """
        self._tell = tell
        self._watched: list[_Watched] = []
        self._groups = 0

    def start(self, parts: Sequence[Child]) -> None:
        """
        Start parts and return at once.

        :param parts: Parts that do not use each other; they may use those of earlier calls.
        """
        self._groups += 1
        for part in parts:
            self._watched.append(_Watched(part, self._groups, time.monotonic()))
            part.launch()

    def wait_ready(self, parts: Sequence[Child], *, timeout_seconds: float) -> None:
        """
        Wait until all of them can be used, and say so of each.

        :param parts: Parts that were started.
        :param timeout_seconds: How long.
        :raises PartFailedError: If one ended, or the time is over.
        """
        waiting = [watched for watched in self._watched if watched.child in parts]
        deadline = time.monotonic() + timeout_seconds
        while waiting:
            for watched in list(waiting):
                if watched.child.is_ready():
                    waiting.remove(watched)
                    self._tell(f"{watched.child.name}: ok, {time.monotonic() - watched.started_at:.1f} s")
            if waiting and time.monotonic() > deadline:
                child = waiting[0].child
                message = f"{child.name} was not ready after {timeout_seconds:g} s (log: {child.log_file})"
                raise PartFailedError(message)
            time.sleep(_POLL_SECONDS)

    def revive(self) -> None:
        """Look once after all parts: one that ended is started again, later each time that it ends soon."""
        now = time.monotonic()
        for watched in self._watched:
            if watched.child.exit_code is None:
                continue
            if watched.restart_at is None:
                if now - watched.started_at > _STEADY_SECONDS:
                    watched.delay_seconds = _FIRST_DELAY_SECONDS
                watched.restart_at = now + watched.delay_seconds
                child = watched.child
                self._tell(
                    f"{child.name} ended with exit code {child.exit_code}, starts again in "
                    f"{watched.delay_seconds:g} s: {child.last_log_line()} (log: {child.log_file})"
                )
                watched.delay_seconds = min(watched.delay_seconds * 2, _LONGEST_DELAY_SECONDS)
            elif now >= watched.restart_at:
                watched.restart_at = None
                watched.started_at = now
                watched.child.launch()

    def stop(self, *, timeout_seconds: float) -> None:
        """
        Stop all parts: those started last first, and the ones that they use when they have ended.

        :param timeout_seconds: How long each may take to finish what is in flight.
        """
        while self._watched:
            group = [watched for watched in self._watched if watched.group == self._watched[-1].group]
            for watched in group:
                watched.child.tell_to_stop()
            for watched in reversed(group):
                watched.child.stop(timeout_seconds)
                self._watched.remove(watched)

    def kill(self) -> None:
        """End what is left at once, the last started first."""
        while self._watched:
            self._watched.pop().child.kill()
