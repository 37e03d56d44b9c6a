"""Check that there is enough to answer from, and search again while there is not."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Protocol

from haystack import Document, component, default_to_dict
from haystack.core.serialization import component_to_dict
from haystack.dataclasses import ChatMessage
from pydantic import Field

from components.async_only import async_only
from components.context_judge import ContextJudge, Verdict
from components.fail_open import fail_open
from components.model_call import AsyncChatGenerator, close_model, open_model
from components.prompt_parts import effective_limit
from contracts.turn import TurnContext, Vector

_STAGE = "context_guard"
_SETTINGS = (
    "prompt_dir",
    "enabled",
    "max_hops",
    "timeout_seconds",
    "max_input_tokens",
    "model_window_tokens",
    "answer_reserve_tokens",
)


class Retriever(Protocol):
    """What the guard searches with."""

    async def search(self, query: str, vector: Vector | None, turn: TurnContext) -> list[Document]:
        """Find documents, best first."""
        ...


@component
class ContextGuard:
    """
    Asks the task model whether documents, memories and the chat itself suffice for the question.

    While they do not, and hops are left, it searches with the model's new query; what it finds is added, each document
    ranked by the search that found it. All hops together have one timeout. A guard that fails, takes too long or cannot
    be read lets the turn pass with what was found so far; it is counted. Switched off, it asks nothing.

    ### Usage example

    ```python
    import asyncio
    from datetime import UTC, datetime

    from haystack import Document
    from haystack.components.generators.chat import MockChatGenerator
    from haystack.dataclasses import ChatMessage

    from components.context_guard import ContextGuard
    from contracts.turn import Agent, TurnContext

    guard = ContextGuard(
        MockChatGenerator(['{"verdict": "insufficient", "reason": "No price is given.", "query": ""}']),
        prompt_dir="pipelines/rag/prompts/context_guard",
    )
    turn = TurnContext(tenant_id="t", run_id="r", agent=Agent("rag"), locale="en", said_at=datetime.now(UTC))

    result = asyncio.run(
        guard.run_async(
            question="What does the VPN cost?",
            locale="en",
            documents=[Document(content="There is a VPN.")],
            messages=[ChatMessage.from_user("What does the VPN cost?")],
            turn=turn,
        )
    )
    assert result == {"insufficient": "No price is given."}
    ```
    """

    def __init__(
        self,
        chat_generator: AsyncChatGenerator | None = None,
        *,
        prompt_dir: str,
        retriever: Retriever | None = None,
        enabled: bool = True,
        max_hops: Annotated[int, Field(ge=0, le=10)] = 1,
        timeout_seconds: float = 30.0,
        max_input_tokens: int = 128_000,
        model_window_tokens: int | None = None,
        answer_reserve_tokens: int = 512,
    ) -> None:
        """
        Configure the guard.

        :param chat_generator: Task model; needed when the guard is enabled.
        :param prompt_dir: Prompt; its variables stand in `ContextJudge`.
        :param retriever: Searches again; None for no hops.
        :param enabled: Whether to ask at all.
        :param max_hops: Most further searches, 0 to 10.
        :param timeout_seconds: Longest time for all verdicts and searches together, above 0.
        :param max_input_tokens: Configured ceiling on the tokens of one model input.
        :param model_window_tokens: Window of the task model; None if it is unknown.
        :param answer_reserve_tokens: Tokens kept free for the verdict.
        :raises ValueError: If a number is out of range, or the enabled guard has no generator.
        :raises ConfigurationError: If the prompt is missing or broken.
        """
        if max_hops < 0 or timeout_seconds <= 0:
            msg = f"need max_hops >= 0 and timeout_seconds > 0, got {max_hops=} and {timeout_seconds=}"
            raise ValueError(msg)
        if enabled and chat_generator is None:
            msg = "an enabled guard needs a chat_generator that judges"
            raise ValueError(msg)
        self.chat_generator = chat_generator
        self.prompt_dir = prompt_dir
        self.retriever = retriever
        self.enabled = enabled
        self.max_hops = max_hops
        self.timeout_seconds = timeout_seconds
        self.max_input_tokens = max_input_tokens
        self.model_window_tokens = model_window_tokens
        self.answer_reserve_tokens = answer_reserve_tokens
        limit = effective_limit(max_input_tokens, model_window_tokens)
        self._judge = ContextJudge(prompt_dir, max_tokens=limit - answer_reserve_tokens)

    async def warm_up_async(self) -> None:
        """Load the tokenizer, open the model's client and the retriever."""
        await self._judge.warm_up_async()
        for part in (self.chat_generator, self.retriever):
            await open_model(part)

    async def close_async(self) -> None:
        """Close the model's client and the retriever."""
        for part in (self.chat_generator, self.retriever):
            await close_model(part)

    def to_dict(self) -> dict[str, Any]:
        """Serialize with what is nested."""
        return default_to_dict(
            self,
            chat_generator=self.chat_generator and component_to_dict(self.chat_generator, "chat_generator"),
            retriever=self.retriever and component_to_dict(self.retriever, "retriever"),
            **{name: getattr(self, name) for name in _SETTINGS},
        )

    @component.output_types(documents=list[Document], insufficient=str)
    def run(
        self, question: str, locale: str, documents: list[Document], messages: list[ChatMessage], turn: TurnContext
    ) -> dict[str, Any]:
        """Refuse to run: the model is asked asynchronously."""
        raise async_only(self)

    @component.output_types(documents=list[Document], insufficient=str)
    async def run_async(
        self, question: str, locale: str, documents: list[Document], messages: list[ChatMessage], turn: TurnContext
    ) -> dict[str, Any]:
        """
        Judge, and search again where that may help.

        :param question: The condensed question.
        :param locale: Language of the prompt and of the reason.
        :param documents: What was found, best first.
        :param messages: The grafted chat: memories, and what the user said or pasted.
        :param turn: Who asks.
        :returns: Either `documents`, with those of the hops among them by score, or `insufficient`: the reason.
        """
        if not self.enabled or self.chat_generator is None:
            return {"documents": documents}
        found = list(documents)  # grows with every hop, so that a timeout loses nothing
        ask = partial(self._judge.ask, self.chat_generator, question=question, locale=locale, messages=messages)
        judging = self._reason(ask, found, turn)
        reason = await fail_open(_STAGE, judging, None, timeout_seconds=self.timeout_seconds)
        return {"documents": found} if reason is None else {"insufficient": reason}

    async def _reason(
        self, ask: Callable[..., Awaitable[Verdict]], found: list[Document], turn: TurnContext
    ) -> str | None:
        """Give the reason why all that was found does not suffice, None if it does."""
        for hops_left in range(self.max_hops, -1, -1):
            verdict = await ask(documents=found)
            if verdict.sufficient:
                return None
            if not (hops_left and self.retriever and verdict.query):
                break
            known = {document.id for document in found}
            hits = await self.retriever.search(verdict.query, None, turn)
            new = [document for document in hits if document.id not in known]
            if not new:
                break  # the same input would get the same verdict
            found[:] = sorted([*found, *new], key=lambda document: document.score or 0.0, reverse=True)
        return verdict.reason
