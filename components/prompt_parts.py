"""What a model input is made of, and what goes first when it does not fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from haystack import Document
from haystack.dataclasses import ChatMessage, ChatRole

from components.token_counter import TekkenTokenCounter

BLOCK_KEY = "hayrecall_block"  # in a message's meta: `user` or `organization`


@dataclass(frozen=True)
class PromptParts:
    """A grafted chat and its documents, taken apart."""

    system: tuple[ChatMessage, ...]  # the client's leading system messages
    user_block: ChatMessage | None
    organization_block: ChatMessage | None
    turns: tuple[ChatMessage, ...]  # ends with the user's last turn
    documents: tuple[Document, ...] = ()  # best first

    @classmethod
    def split(cls, messages: Sequence[ChatMessage], documents: Sequence[Document] = ()) -> Self:
        """
        Take a grafted chat apart.

        :param messages: Leading system messages, memory blocks among them, then the turns.
        :param documents: Documents, best first.
        :returns: The parts.
        """
        lead = next((i for i, said in enumerate(messages) if not said.is_from(ChatRole.SYSTEM)), len(messages))
        blocks = {str(said.meta[BLOCK_KEY]): said for said in messages[:lead] if BLOCK_KEY in said.meta}
        return cls(
            system=tuple(said for said in messages[:lead] if BLOCK_KEY not in said.meta),
            user_block=blocks.get("user"),
            organization_block=blocks.get("organization"),
            turns=tuple(messages[lead:]),
            documents=tuple(documents),
        )

    @property
    def blocks(self) -> tuple[ChatMessage, ...]:
        """The memory blocks that are there, the user's first."""
        return tuple(block for block in (self.user_block, self.organization_block) if block)

    @property
    def messages(self) -> list[ChatMessage]:
        """The grafted chat."""
        return [*self.system, *self.blocks, *self.turns]

    def smaller(self, counter: TekkenTokenCounter) -> "tuple[PromptParts, int] | None":
        """
        Drop what matters least: organization block, user block, oldest turn, lowest-ranked document, system message.

        :param counter: Counts what was dropped.
        :returns: The rest and the tokens that went; None if only the user's last turn is left.
        """
        if self.organization_block:
            return replace(self, organization_block=None), counter.count_message(self.organization_block)
        if self.user_block:
            return replace(self, user_block=None), counter.count_message(self.user_block)
        if start := self._second_turn():
            gone = self.turns[:start]
            return replace(self, turns=self.turns[start:]), sum(counter.count_message(said) for said in gone)
        if self.documents:
            return replace(self, documents=self.documents[:-1]), counter.count_text(self.documents[-1].content or "")
        if self.system:
            return replace(self, system=self.system[:-1]), counter.count_message(self.system[-1])
        return None

    def _second_turn(self) -> int:
        """Find where the oldest turn with its answers ends; 0 if it is the user's last."""
        return next((i for i, said in enumerate(self.turns) if i and said.is_from(ChatRole.USER)), 0)


def fit(
    parts: PromptParts,
    render: Callable[[PromptParts], list[ChatMessage]],
    *,
    max_tokens: int,
    counter: TekkenTokenCounter,
) -> tuple[list[ChatMessage], PromptParts]:
    """
    Render a prompt that fits. Nothing raises: the user's last turn stays, whatever the limit.

    :param parts: All there is.
    :param render: Makes the prompt from parts.
    :param max_tokens: Most tokens of the prompt; 0 or less drops all that can be dropped.
    :param counter: The real tokenizer.
    :returns: The prompt and the parts that are in it.
    """
    while True:
        prompt = render(parts)
        excess = counter.count(prompt) - max_tokens
        if excess <= 0:
            return prompt, parts
        while excess > 0:  # drop by arithmetic, so that a long chat is not rendered once per turn
            step = parts.smaller(counter)
            if step is None:
                return render(parts), parts
            parts, freed = step
            excess -= freed


def effective_limit(max_input_tokens: int, model_window_tokens: int | None) -> int:
    """
    Give the most tokens, by our counting, that one model input may have.

    :param max_input_tokens: Configured ceiling.
    :param model_window_tokens: Narrowest declared window of the models; None if it is unknown. A sixth of it stays
        free, because the model counts with a tokenizer of its own (Qwen 2.5, measured: 1.17 times ours for Italian).
    :returns: The smaller of both.
    """
    return max_input_tokens if model_window_tokens is None else min(max_input_tokens, model_window_tokens * 5 // 6)
