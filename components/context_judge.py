"""Ask a model whether there is enough to answer from."""

import asyncio
from dataclasses import dataclass

from haystack import Document
from haystack.dataclasses import ChatMessage, ChatRole

from components.chat_transcript import Utterance, as_data, text_of
from components.locale_prompt import LocalePrompt
from components.model_call import AsyncChatGenerator, structured_reply
from components.prompt_parts import PromptParts, fit
from components.token_counter import TekkenTokenCounter
from contracts.errors import UnreadableModelOutputError

_SCHEMA = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["sufficient", "insufficient"]},
        "reason": {"type": "string"},
        "query": {"type": "string"},
    },
    "required": ["verdict", "reason", "query"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Verdict:
    """What the model found; `query` is another search to try, or blank."""

    sufficient: bool
    reason: str
    query: str


class ContextJudge:
    """Renders the guard's prompt within a limit and reads its verdict."""

    def __init__(self, prompt_dir: str, *, max_tokens: int) -> None:
        """
        Load the prompt.

        :param prompt_dir: Prompt with the variables `question`, `documents` (with `number` and `text`), `memories`
            (texts) and `chat` (utterances with `role` and `text`).
        :param max_tokens: Most tokens of the prompt; what goes first is the same as in the answer prompt.
        :raises ConfigurationError: If the prompt is missing or broken.
        """
        self._prompt = LocalePrompt(prompt_dir, provides=("question", "documents", "memories", "chat"))
        self._max_tokens = max_tokens
        self._counter = TekkenTokenCounter()

    async def warm_up_async(self) -> None:
        """Load the tokenizer."""
        await self._counter.warm_up_async()

    async def ask(
        self,
        model: AsyncChatGenerator,
        *,
        question: str,
        locale: str,
        documents: list[Document],
        messages: list[ChatMessage],
    ) -> Verdict:
        """
        Ask for a verdict.

        :param model: Task model.
        :param question: The condensed question.
        :param locale: Language of the prompt and of the reason.
        :param documents: What was found, best first.
        :param messages: The grafted chat.
        :returns: The verdict.
        :raises UnreadableModelOutputError: If the model answered something else.
        :raises ModelUnavailableError: If the model is down.
        """
        parts = PromptParts.split(messages, documents)
        prompt, _ = await asyncio.to_thread(
            fit,
            parts,
            lambda parts: self._render(parts, question, locale),
            max_tokens=self._max_tokens,
            counter=self._counter,
        )
        reply = await structured_reply(model, prompt, schema_name="context_guard", schema=_SCHEMA)
        if reply.get("verdict") not in ("sufficient", "insufficient"):
            msg = "the context guard answered with an unknown verdict"
            raise UnreadableModelOutputError(msg)
        return Verdict(
            sufficient=reply["verdict"] == "sufficient",
            reason=str(reply.get("reason") or "").strip(),
            query=str(reply.get("query") or "").strip(),
        )

    def _render(self, parts: PromptParts, question: str, locale: str) -> list[ChatMessage]:
        spoken = (ChatRole.USER, ChatRole.ASSISTANT)
        return self._prompt.messages(
            locale,
            question=as_data(question),
            documents=[
                {"number": number, "text": as_data(document.content or "")}
                for number, document in enumerate(parts.documents, start=1)
            ],
            memories=[block.text for block in parts.blocks],
            chat=[Utterance(said.role.value, as_data(text_of(said))) for said in parts.turns if said.role in spoken],
        )
