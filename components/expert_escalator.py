"""Send a question to the experts, once its user agreed."""

from datetime import UTC, datetime, timedelta
from typing import Any

from haystack import component, logging

from components.async_only import async_only
from components.expert_channel import ExpertChannel
from components.question_desk import QuestionDesk
from contracts.errors import ExpertErroredError, ExpertPendingError, TransientError
from contracts.turn import TurnContext

logger = logging.getLogger(__name__)


@component
class ExpertEscalator:
    """
    Sends the condensed question to the experts' channel and ends the turn.

    The channel is told first and the question opened then, so that a failure leaves it waiting for another "yes". The
    deadline starts anew.

    ### Usage example

    ```python
    from components.expert_channel import ExpertChannel
    from components.expert_escalator import ExpertEscalator
    from components.question_desk import QuestionDesk
    from components.turn_queue import TurnQueue

    channel = ExpertChannel(experts=["Ann"], prompt_dir="pipelines/expert-rag/prompts/channel")
    desk = QuestionDesk(TurnQueue("nats://127.0.0.1:4222", data_dir="/var/lib/hayrecall"))
    escalator = ExpertEscalator(desk, channel)
    assert escalator.channel is channel
    ```
    """

    def __init__(self, desk: QuestionDesk, channel: ExpertChannel) -> None:
        """
        Configure; nothing is opened here.

        :param desk: Keeps the questions.
        :param channel: Tells the experts.
        """
        self.desk = desk
        self.channel = channel

    async def warm_up_async(self) -> None:
        """Connect the desk."""
        await self.desk.open()

    async def close_async(self) -> None:
        """Close the desk."""
        await self.desk.close()

    @component.output_types(sent=str)
    def run(self, accepted: str, turn: TurnContext) -> dict[str, Any]:
        """
        Refuse to block.

        :param accepted: Not looked at.
        :param turn: Not looked at.
        :raises NotImplementedError: Always.
        """
        raise async_only(self)

    @component.output_types(sent=str)
    async def run_async(self, accepted: str, turn: TurnContext) -> dict[str, Any]:
        """
        Tell the experts.

        :param accepted: Id of the question.
        :param turn: Who asks.
        :returns: Nothing: the turn ends here.
        :raises ExpertPendingError: If the experts were told.
        :raises ExpertErroredError: If they could not be.
        """
        question = ""
        try:
            kept = await self.desk.find(turn.tenant_id, accepted)
            if kept is None or kept.question.state != "consent":
                msg = "the question is not there any more, or was sent already"
                raise ExpertPendingError(msg, reason=accepted)
            question = kept.question.question
            deadline = datetime.now(UTC) + timedelta(hours=self.desk.deadline_hours)
            opened = {"state": "open", "deadline": deadline, "experts": tuple(self.channel.experts)}
            await self.channel.send(
                kept.question.model_copy(update=opened), seconds_left=self.desk.deadline_hours * 3600
            )
            await self.desk.change(kept, **opened)
        except TransientError as error:
            logger.warning("the experts could not be asked: {reason}", reason=str(error))
            msg = "the experts could not be asked"
            raise ExpertErroredError(msg, reason=accepted, question=question) from error
        msg = "the experts have been asked"
        raise ExpertPendingError(msg, reason=accepted, question=question)
