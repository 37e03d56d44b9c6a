"""Read from the user's reply whether the experts may be asked."""

import re
from datetime import UTC, datetime
from typing import Any

from haystack import component
from haystack.dataclasses import ChatMessage

from components.async_only import async_only
from components.fail_open import fail_open
from components.locale_prompt import LocalePrompt
from components.model_call import AsyncChatGenerator, close_model, open_model, structured_reply
from components.question_desk import QuestionDesk
from contracts.errors import ExpertDeclinedError, UnreadableModelOutputError
from contracts.expert_questions import ExpertQuestion
from contracts.turn import TurnContext

_STAGE = "expert"
_SCHEMA = {
    "type": "object",
    "properties": {"decision": {"type": "string", "enum": ["yes", "no", "other"]}},
    "required": ["decision"],
    "additionalProperties": False,
}
# Whole replies that need no model; anything else is the model's to judge.
_YES = {"yes", "yes please", "ok", "okay", "sure", "ja", "ja bitte", "gerne", "oui", "oui merci", "d accord"} | {
    "sì",
    "si",
    "sì grazie",
    "va bene",
}
_NO = {"no", "no thanks", "no thank you", "nein", "nein danke", "non", "non merci", "no grazie"}


@component
class ExpertDecisionReader:
    """
    Lets a turn pass, unless it answers the question whether the experts may be asked.

    It reads the chat before anything is condensed: a bare "yes" holds no question. Without a question that waits for
    consent in this thread, it costs one read from NATS and no model call. A reply that is neither yes nor no passes as
    an ordinary turn, and the question goes on waiting.

    ### Usage example

    ```python
    from haystack.components.generators.chat import MockChatGenerator

    from components.expert_decision_reader import ExpertDecisionReader
    from components.question_desk import QuestionDesk
    from components.turn_queue import TurnQueue

    desk = QuestionDesk(TurnQueue("nats://127.0.0.1:4222", data_dir="/var/lib/hayrecall"))
    reader = ExpertDecisionReader(desk, MockChatGenerator(), prompt_dir="pipelines/expert-rag/prompts/decision")
    assert reader.desk is desk
    ```
    """

    def __init__(
        self, desk: QuestionDesk, chat_generator: AsyncChatGenerator, *, prompt_dir: str, timeout_seconds: float = 20.0
    ) -> None:
        """
        Configure; nothing is opened here.

        :param desk: Keeps the questions.
        :param chat_generator: The task model.
        :param prompt_dir: Prompt with the variables `question` and `reply`.
        :param timeout_seconds: Longest wait for the model, above 0; after it the reply counts as an ordinary turn.
        :raises ValueError: If `timeout_seconds` is not above 0.
        :raises ConfigurationError: If the prompt is not whole.
        """
        if timeout_seconds <= 0:
            msg = f"need timeout_seconds > 0, got {timeout_seconds=}"
            raise ValueError(msg)
        self.desk = desk
        self.chat_generator = chat_generator
        self.prompt_dir = prompt_dir
        self.timeout_seconds = timeout_seconds
        self._prompt = LocalePrompt(prompt_dir)

    async def warm_up_async(self) -> None:
        """Open the model's client and connect the desk."""
        await self.desk.open()
        await open_model(self.chat_generator)

    async def close_async(self) -> None:
        """Close both."""
        await self.desk.close()
        await close_model(self.chat_generator)

    @component.output_types(messages=list[ChatMessage], accepted=str)
    def run(self, messages: list[ChatMessage], turn: TurnContext) -> dict[str, Any]:
        """
        Refuse to block.

        :param messages: Not looked at.
        :param turn: Not looked at.
        :raises NotImplementedError: Always.
        """
        raise async_only(self)

    @component.output_types(messages=list[ChatMessage], accepted=str)
    async def run_async(self, messages: list[ChatMessage], turn: TurnContext) -> dict[str, Any]:
        """
        Look whether this thread waits for a yes or no, and whether this is one.

        :param messages: The limited chat.
        :param turn: Who writes, and in which thread.
        :returns: `accepted`: the id of the question that may go to the experts; else `messages`, unchanged.
        :raises ExpertDeclinedError: If the user said no.
        :raises QueueUnavailableError: If the user said no and NATS did not confirm it.
        """
        waiting = await fail_open(_STAGE, self._waiting(turn), None, timeout_seconds=2)
        if waiting is None:
            return {"messages": messages}
        reply = messages[-1].text or ""
        decision = _plain(reply) or await fail_open(
            _STAGE, self._ask(waiting, reply, turn), "other", timeout_seconds=self.timeout_seconds
        )
        if decision == "yes":
            return {"accepted": str(waiting.id)}
        if decision == "no":
            await self._decline(waiting)
        return {"messages": messages}

    async def _waiting(self, turn: TurnContext) -> ExpertQuestion | None:
        now = datetime.now(UTC)
        questions = await self.desk.of_thread(turn)
        waiting = [kept for kept in questions if kept.state == "consent" and now < kept.deadline]
        return waiting[-1] if waiting else None

    async def _ask(self, waiting: ExpertQuestion, reply: str, turn: TurnContext) -> str:
        prompt = self._prompt.messages(turn.locale, question=waiting.question, reply=reply)
        answer = await structured_reply(self.chat_generator, prompt, schema_name="decision", schema=_SCHEMA)
        for decision in ("yes", "no", "other"):
            if answer.get("decision") == decision:
                return decision
        msg = "the model's decision is none of yes, no and other"
        raise UnreadableModelOutputError(msg)

    async def _decline(self, waiting: ExpertQuestion) -> None:
        kept = await self.desk.find(waiting.tenant_id, str(waiting.id))
        if kept is not None:
            await self.desk.change(kept, state="declined")
        msg = "the user does not want the experts to be asked"
        raise ExpertDeclinedError(msg, reason=str(waiting.id), question=waiting.question)


def _plain(reply: str) -> str | None:
    words = " ".join(re.findall(r"\w+", reply.lower()))
    if words in _YES:
        return "yes"
    return "no" if words in _NO else None
