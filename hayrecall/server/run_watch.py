"""What is due at the end of a run, however it ends."""

import time
from typing import Any

from haystack import logging
from haystack.core.errors import PipelineRuntimeError

from hayrecall.server.chat_run import ChatRun
from hayrecall.server.errors import described
from hayrecall.server.half_turns import HalfTurns
from hayrecall.server.metrics import FIRST_TEXT_SECONDS, RUNS

logger = logging.getLogger(__name__)


class RunWatch:
    """Sees to it that a run that ends early stops, keeps what was asked, and is counted like any other."""

    def __init__(self, run: ChatRun, half_turns: HalfTurns) -> None:
        """
        Watch a run.

        :param run: The run.
        :param half_turns: Where a broken-off turn goes.
        """
        self.run = run
        self._half_turns = half_turns
        self._started = time.monotonic()
        self._error: PipelineRuntimeError | None = None
        self._over = False

    def speaks(self) -> None:
        """Note that the first text is there."""
        FIRST_TEXT_SECONDS.labels(assistant=self.run.turn.agent.id).observe(time.monotonic() - self._started)

    def failed(self, error: PipelineRuntimeError) -> None:
        """Note why the run failed."""
        self._error = error

    def end(self) -> None:
        """Close the run's account; called once the request is over, however it ended."""
        if self._over:
            return
        self._over = True
        run, turn = self.run, self.run.turn
        outcome = "failed" if self._error else str(run.ending.outcome) if run.ended else "disconnected"
        if not run.ended:
            run.cancel()
            self._half_turns.promote(turn.run_id, run.answer)
        RUNS.labels(assistant=turn.agent.id, outcome=outcome).inc()
        seconds = round(time.monotonic() - self._started, 3)
        told: dict[str, Any] = {
            "run_id": turn.run_id,
            "assistant": turn.agent.id,
            "outcome": outcome,
            "seconds": seconds,
        }
        if self._error and described(self._error).status_code == 500:  # noqa: PLR2004
            logger.error("run {run_id} of {assistant}: {outcome} after {seconds} s", **told, exc_info=self._error)
        elif self._error:
            logger.warning("run {run_id} of {assistant}: {outcome}, {reason}", **told, reason=str(self._error))
        else:
            logger.info("run {run_id} of {assistant}: {outcome} after {seconds} s", **told)
