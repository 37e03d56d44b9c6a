"""Ask the user whether the experts may be asked."""

from typing import Any

from haystack import component

from components.async_only import async_only
from components.expert_channel import ExpertChannel
from components.question_desk import QuestionDesk
from contracts.errors import ExpertConsentError
from contracts.turn import TurnContext


@component
class ExpertConsentAsker:
    """
    Ends a turn whose context does not suffice with the question whether the experts may be asked.

    A turn without a user or a thread, or without an experts' channel, cannot be escalated: its reason is passed on,
    and the assistant words an ordinary refusal.

    ### Usage example

    ```python
    from components.expert_channel import ExpertChannel
    from components.expert_consent_asker import ExpertConsentAsker
    from components.question_desk import QuestionDesk
    from components.turn_queue import TurnQueue

    channel = ExpertChannel(experts=["Ann"], prompt_dir="pipelines/expert-rag/prompts/channel")
    asker = ExpertConsentAsker(QuestionDesk(TurnQueue("nats://127.0.0.1:4222", data_dir="/var/lib/hayrecall")), channel)
    assert asker.channel.experts == ["Ann"]
    ```
    """

    def __init__(self, desk: QuestionDesk, channel: ExpertChannel) -> None:
        """
        Configure; nothing is opened here.

        :param desk: Keeps the question until the user decides.
        :param channel: Where it would go.
        """
        self.desk = desk
        self.channel = channel

    async def warm_up_async(self) -> None:
        """Connect the desk."""
        await self.desk.open()

    async def close_async(self) -> None:
        """Close the desk."""
        await self.desk.close()

    @component.output_types(insufficient=str)
    def run(self, insufficient: str, question: str, turn: TurnContext) -> dict[str, Any]:
        """
        Refuse to block.

        :param insufficient: Not looked at.
        :param question: Not looked at.
        :param turn: Not looked at.
        :raises NotImplementedError: Always.
        """
        raise async_only(self)

    @component.output_types(insufficient=str)
    async def run_async(self, insufficient: str, question: str, turn: TurnContext) -> dict[str, Any]:
        """
        Ask, or pass the reason on.

        :param insufficient: Why the context does not suffice.
        :param question: The condensed question; what the experts would see.
        :param turn: Who asks, and in which thread.
        :returns: `insufficient`: the reason, where nobody can be asked.
        :raises ExpertConsentError: Where the experts can be asked.
        :raises QueueUnavailableError: If the question could not be kept.
        """
        if turn.user_id is None or turn.thread_id is None or not self.channel.is_configured:
            return {"insufficient": insufficient}
        kept = await self.desk.ask_consent(turn, question)
        msg = "the context does not suffice; the user is asked whether the experts may be"
        raise ExpertConsentError(msg, reason=str(kept.id), question=question)
