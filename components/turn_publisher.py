"""Hand a finished turn to the memory writer."""

from typing import Any

from haystack import component, logging
from haystack.dataclasses import ChatMessage
from pydantic import ValidationError

from components.async_only import async_only
from components.queue_metrics import LOST_TURNS
from components.turn_queue import TurnQueue
from contracts.errors import QueueUnavailableError
from contracts.payloads import ConversationTurn
from contracts.turn import TurnContext

logger = logging.getLogger(__name__)


@component
class TurnPublisher:
    """
    Publishes the condensed question and the answer, and returns when they are durable.

    Nothing is published for a turn without a user, or whose user switched learning off. A failure of the queue never
    spoils the answer.

    ### Usage example

    ```python
    from components.turn_publisher import TurnPublisher
    from components.turn_queue import TurnQueue

    publisher = TurnPublisher(TurnQueue("nats://127.0.0.1:4222", data_dir="/var/lib/hayrecall"))
    assert publisher.turn_queue.url == "nats://127.0.0.1:4222"
    ```
    """

    def __init__(self, turn_queue: TurnQueue) -> None:
        """
        Configure the publisher; nothing is opened here.

        :param turn_queue: Where turns go.
        """
        self.turn_queue = turn_queue

    async def warm_up_async(self) -> None:
        """Open the queue."""
        await self.turn_queue.open()

    async def close_async(self) -> None:
        """Close the queue; what is being published is finished first."""
        await self.turn_queue.close()

    @component.output_types(published=str)
    def run(self, conversation: list[ChatMessage], turn: TurnContext, recorded: bool) -> dict[str, Any]:
        """
        Refuse to block.

        :param conversation: Not looked at.
        :param turn: Not looked at.
        :param recorded: Not looked at.
        :raises NotImplementedError: Always.
        """
        raise async_only(self)

    @component.output_types(published=str)
    async def run_async(self, conversation: list[ChatMessage], turn: TurnContext, recorded: bool) -> dict[str, Any]:
        """
        Publish the turn.

        :param conversation: The condensed question and, unless the turn broke off, the answer.
        :param turn: Who asked, where and when.
        :param recorded: Whether an intent was recorded; makes this run after that.
        :returns: `published`: `stored`, `duplicate`, `outbox`, `skipped`, or `lost`, which is logged and counted.
        """
        return {"published": await self._publish(conversation, turn)}

    async def _publish(self, conversation: list[ChatMessage], turn: TurnContext) -> str:
        if not turn.user_id or not turn.learning or not conversation:
            return "skipped"
        question, *answer = [message.text or "" for message in conversation]
        try:
            return await self.turn_queue.publish(ConversationTurn.of(turn, question, answer[0] if answer else None))
        except QueueUnavailableError as error:
            LOST_TURNS.inc()
            logger.error("a turn was lost: run {run}: {reason}", run=turn.run_id, reason=str(error))  # noqa: TRY400
        except ValidationError as error:  # its text holds what it complains about
            LOST_TURNS.inc()
            faults = [".".join(str(part) for part in fault["loc"]) for fault in error.errors(include_input=False)]
            logger.error("a turn was lost: run {run}: no valid payload: {faults}", run=turn.run_id, faults=faults)  # noqa: TRY400
        return "lost"
