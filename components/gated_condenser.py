"""Condense a chat while a gate looks whether it is about the assistant itself."""

import asyncio
from typing import Any

from haystack import component, default_to_dict
from haystack.core.serialization import component_to_dict
from haystack.dataclasses import ChatMessage

from components.async_only import async_only
from components.chat_transcript import abridge, last_user_text
from components.condenser import Condenser
from components.language import detect_locale, locale_of_turn
from components.meta_question_gate import MetaQuestionGate
from components.metrics import BLANK_CONDENSATIONS
from contracts.errors import EmptyCondensationError
from contracts.turn import TurnContext

_GATE_DELAY_SECONDS = 0.005  # the condenser takes longer: preparing the gate's request must not hold up its own
_META_CHARACTERS = 2000


@component
class GatedCondenser:
    """
    Runs a `Condenser` and a `MetaQuestionGate` beside each other, so that the gate costs no extra wait.

    Nothing comes out before the gate has cleared the turn, so nothing behind this component can act before. A meta
    verdict cancels the condenser. The condenser's failure or blank question counts only once the gate has cleared.

    ### Usage example

    ```python
    import asyncio
    from datetime import UTC, datetime

    from haystack.components.generators.chat import MockChatGenerator
    from haystack.dataclasses import ChatMessage

    from components.condenser import Condenser
    from components.gated_condenser import GatedCondenser
    from components.meta_question_gate import MetaQuestionGate
    from contracts.turn import Agent, TurnContext

    gate = MetaQuestionGate(MockChatGenerator(['{"label": "normal"}']), prompt_dir="pipelines/rag/prompts/gate")
    condenser = Condenser(MockChatGenerator(["What does the VPN cost?"]), prompt_dir="pipelines/rag/prompts/condense")
    turn = TurnContext(tenant_id="t", run_id="r", agent=Agent("rag"), locale="de", said_at=datetime.now(UTC))

    chat = [ChatMessage.from_user("And what does it cost?")]

    result = asyncio.run(GatedCondenser(condenser, gate).run_async(chat, turn))
    assert result == {"question": "What does the VPN cost?", "locale": "en"}
    ```
    """

    def __init__(self, condenser: Condenser, gate: MetaQuestionGate | None = None) -> None:
        """
        Configure the pair.

        :param condenser: Gives the question.
        :param gate: Looks whether the turn is about the assistant; None takes every turn as normal.
        """
        self.condenser = condenser
        self.gate = gate

    async def warm_up_async(self) -> None:
        """Warm up both."""
        await self.condenser.warm_up_async()
        if self.gate:
            await self.gate.warm_up_async()

    async def close_async(self) -> None:
        """Close both."""
        await self.condenser.close_async()
        if self.gate:
            await self.gate.close_async()

    def to_dict(self) -> dict[str, Any]:
        """Serialize with both."""
        return default_to_dict(
            self,
            condenser=component_to_dict(self.condenser, "condenser"),
            gate=self.gate and component_to_dict(self.gate, "gate"),
        )

    @component.output_types(question=str, locale=str, meta=str, meta_locale=str)
    def run(self, messages: list[ChatMessage], turn: TurnContext) -> dict[str, str]:
        """Refuse to run: the models are asked asynchronously."""
        raise async_only(self)

    @component.output_types(question=str, locale=str, meta=str, meta_locale=str)
    async def run_async(self, messages: list[ChatMessage], turn: TurnContext) -> dict[str, str]:
        """
        Condense, unless the turn is about the assistant.

        :param messages: The limited chat.
        :param turn: Gives the locale where the user's language cannot be told.
        :returns: Either `question` and `locale`, or `meta` (what the user asked) and `meta_locale`.
        :raises EmptyCondensationError: If a normal turn gave no question.
        :raises ModelUnavailableError: If the condenser's model is down.
        """
        message = last_user_text(messages)
        condensing = asyncio.create_task(self.condenser.condense(messages, turn))
        try:
            await asyncio.sleep(_GATE_DELAY_SECONDS)
            if self.gate and (await self.gate.run_async(messages, turn))["verdict"] == "meta":
                locale = detect_locale(message, turn.locale)
                return {"meta": abridge(message, _META_CHARACTERS), "meta_locale": locale}
            question = await condensing
        except EmptyCondensationError:
            BLANK_CONDENSATIONS.inc()
            raise
        finally:
            condensing.cancel()
            await asyncio.gather(condensing, return_exceptions=True)  # its failure is of no interest any more
        return {"question": question, "locale": locale_of_turn(message, question, turn.locale)}
