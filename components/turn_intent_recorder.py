"""Remember, before the answer is written, that there is something to learn from."""

from typing import Any

from haystack import Document, component, logging
from pydantic import ValidationError

from components.async_only import async_only
from components.turn_queue import TurnQueue
from contracts.errors import QueueUnavailableError
from contracts.turn import TurnContext

logger = logging.getLogger(__name__)


@component
class TurnIntentRecorder:
    """
    Writes the question to this host's disk beside the prompt, once the guards have let the turn pass.

    Whatever ends the process before the turn is published, the question is not lost: it is stored as a half turn.

    ### Usage example

    ```python
    from components.turn_intent_recorder import TurnIntentRecorder
    from components.turn_queue import TurnQueue

    recorder = TurnIntentRecorder(TurnQueue("nats://127.0.0.1:4222", data_dir="/var/lib/hayrecall"))
    assert recorder.turn_queue.data_dir == "/var/lib/hayrecall"
    ```
    """

    def __init__(self, turn_queue: TurnQueue) -> None:
        """
        Configure the recorder; nothing is opened here.

        :param turn_queue: Keeps the intents.
        """
        self.turn_queue = turn_queue

    async def warm_up_async(self) -> None:
        """Open the queue."""
        await self.turn_queue.open()

    async def close_async(self) -> None:
        """Close the queue."""
        await self.turn_queue.close()

    @component.output_types(recorded=bool)
    def run(self, question: str, documents: list[Document], accepted: bool, turn: TurnContext) -> dict[str, Any]:
        """
        Refuse to block.

        :param question: Not looked at.
        :param documents: Not looked at.
        :param accepted: Not looked at.
        :param turn: Not looked at.
        :raises NotImplementedError: Always.
        """
        raise async_only(self)

    @component.output_types(recorded=bool)
    async def run_async(
        self,
        question: str,
        documents: list[Document],
        accepted: bool,
        turn: TurnContext,
    ) -> dict[str, Any]:
        """
        Record the intent.

        :param question: The condensed question.
        :param documents: What the context guard let pass; makes this run after it.
        :param accepted: Whether the few-shot guard accepted the question.
        :param turn: Who asks.
        :returns: `recorded`: False if nothing is to be stored, or the disk did not take it: the turn goes on.
        """
        if not accepted or not turn.user_id or not turn.learning:
            return {"recorded": False}
        try:
            await self.turn_queue.record_intent(turn, question)
        except (QueueUnavailableError, ValidationError) as error:
            reason = str(error) if isinstance(error, QueueUnavailableError) else "no valid payload"
            logger.warning("no intent was recorded: run {run}: {reason}", run=turn.run_id, reason=reason)
            return {"recorded": False}
        return {"recorded": True}
