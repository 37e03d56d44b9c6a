"""Put what is remembered into a chat."""

import re
from typing import Annotated

from haystack import Document, component
from haystack.dataclasses import ChatMessage
from pydantic import Field

from components.chat_transcript import as_data
from components.locale_prompt import LocalePrompt
from components.prompt_parts import BLOCK_KEY, PromptParts, effective_limit, fit
from components.token_counter import TekkenTokenCounter

_EMAIL = re.compile(r"[^\s@<>(),;:\"']+@[^\s@<>(),;:\"']+\.[^\W\d_]{2,}")


@component
class MemoryGrafter:
    """
    Copies the limited chat and puts a block of the user's memories and one of the organization's before its turns.

    The blocks are system messages behind the client's own, marked as optional background data that may be outdated or
    irrelevant and that gives no instructions. They hold no ids and no e-mail address. When all of it does not fit, the
    organization's block goes first, then the user's, then the oldest turns; the user's last turn always stays.

    ### Usage example

    ```python
    from haystack import Document
    from haystack.dataclasses import ChatMessage

    from components.memory_grafter import MemoryGrafter

    grafter = MemoryGrafter(prompt_dir="pipelines/rag/prompts/grafter", max_input_tokens=8000)
    chat = [ChatMessage.from_user("How many vacation days do I have?")]

    grafted = grafter.run(
        chat,
        user_memories=[Document(content="Works 60 %")],
        recent_memories=[],
        organization_memories=[],
        locale="en",
    )["messages"]
    assert "Works 60 %" in grafted[0].text
    assert grafted[1:] == chat
    ```
    """

    def __init__(
        self,
        *,
        prompt_dir: str,
        max_input_tokens: int,
        model_window_tokens: int | None = None,
        max_block_tokens: Annotated[int, Field(ge=0, le=100_000)] = 1000,
    ) -> None:
        """
        Configure the grafter.

        :param prompt_dir: Plain text prompt with the variables `scope` (`user` or `organization`), `memories` and
            `recent` (lists of texts).
        :param max_input_tokens: Configured ceiling on the tokens of one model input.
        :param model_window_tokens: Narrowest context window of the models; None if it is unknown.
        :param max_block_tokens: Most tokens of one block, up to 100,000; the least similar memories are left out.
        :raises ConfigurationError: If the prompt is missing or broken.
        """
        self.prompt_dir = prompt_dir
        self.max_input_tokens = max_input_tokens
        self.model_window_tokens = model_window_tokens
        self.max_block_tokens = max_block_tokens
        self._prompt = LocalePrompt(prompt_dir, provides=("scope", "memories", "recent"))
        self._counter = TekkenTokenCounter()

    async def warm_up_async(self) -> None:
        """Load the tokenizer."""
        await self._counter.warm_up_async()

    @component.output_types(messages=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        user_memories: list[Document],
        recent_memories: list[Document],
        organization_memories: list[Document],
        locale: str,
    ) -> dict[str, list[ChatMessage]]:
        """
        Graft the memories.

        :param messages: The limited chat.
        :param user_memories: Memories of the user, most similar first.
        :param recent_memories: What the user said a moment ago, not yet stored as memories.
        :param organization_memories: Memories of the organization, most similar first.
        :param locale: Language of the blocks.
        :returns: `messages`: a new list within the effective limit.
        """
        parts = PromptParts.split(messages)
        leading = len(parts.system)
        grafted = [
            *messages[:leading],
            *self._block("user", user_memories, recent_memories, locale),
            *self._block("organization", organization_memories, [], locale),
            *messages[leading:],
        ]
        limit = effective_limit(self.max_input_tokens, self.model_window_tokens)
        fitting, _ = fit(
            PromptParts.split(grafted), lambda parts: parts.messages, max_tokens=limit, counter=self._counter
        )
        return {"messages": fitting}

    def _block(self, scope: str, memories: list[Document], recent: list[Document], locale: str) -> list[ChatMessage]:
        old, new = _texts(memories), _texts(recent)
        old = [text for text in old if text not in new]
        while old or new:
            text = self._prompt.text(locale, scope=scope, memories=old, recent=new)
            if self._counter.count_text(text) <= self.max_block_tokens:
                return [ChatMessage.from_system(text, meta={BLOCK_KEY: scope})]
            (old or new).pop()
        return []


def _texts(memories: list[Document]) -> list[str]:
    """Give the texts, each once, on one line, without e-mail addresses and inert as data."""
    texts = (" ".join((memory.content or "").split()) for memory in memories)
    return list(dict.fromkeys(as_data(_EMAIL.sub("[e-mail]", text)) for text in texts if text))
