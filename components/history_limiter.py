"""Fit a client's chat into what the models take."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from haystack import component, logging
from haystack.dataclasses import ChatMessage, ChatRole
from pydantic import Field

from components.locale_prompt import LocalePrompt
from components.prompt_parts import effective_limit
from components.token_counter import MESSAGE_OVERHEAD_TOKENS, PRIMING_TOKENS, TekkenTokenCounter
from contracts.errors import ConfigurationError, InputTooLargeError
from contracts.turn import TurnContext

logger = logging.getLogger(__name__)


@component
class HistoryLimiter:
    """
    Keeps the newest part of a chat that fits beside the pipeline's own prompts and the answer.

    It is the only component that sees the raw chat. The last user turn is never trimmed: if it alone is too large, the
    run is refused before any model is asked. Leading system messages of the client stay as long as they fit beside it.

    ### Usage example

    ```python
    from haystack.dataclasses import ChatMessage

    from components.history_limiter import HistoryLimiter

    chat = [
        ChatMessage.from_user("A long story: " + "once upon a time " * 100),
        ChatMessage.from_assistant("I see."),
        ChatMessage.from_user("What was it about?"),
    ]
    limiter = HistoryLimiter(max_input_tokens=100, answer_reserve_tokens=20)

    assert [message.text for message in limiter.run(chat)["messages"]] == ["What was it about?"]
    ```
    """

    def __init__(
        self,
        *,
        max_input_tokens: int,
        model_window_tokens: int | None = None,
        answer_reserve_tokens: Annotated[int, Field(ge=0)] = 1024,
        prompt_dirs: Sequence[str] = (),
        max_messages: Annotated[int, Field(ge=1)] | None = None,
    ) -> None:
        """
        Configure the limiter.

        :param max_input_tokens: Configured ceiling on the tokens of one model input.
        :param model_window_tokens: Narrowest context window of the answer and task models; None if it is unknown.
        :param answer_reserve_tokens: Tokens kept free for the answer; at most as many as a model input has.
        :param prompt_dirs: The pipeline's own prompts that carry the chat. The longest locale of the longest one is
            kept free, because each model input carries one of them.
        :param max_messages: Most messages to keep, at least 1; None for no such limit. Preparing thousands for a model
            takes a second or more.
        :raises ConfigurationError: If a prompt is missing or broken, or the answer's part is larger than the whole.
        :raises ValueError: If `max_messages` is below 1.
        """
        if max_messages is not None and max_messages < 1:
            msg = f"max_messages is {max_messages}; at least the last user turn must stay"
            raise ValueError(msg)
        limit = effective_limit(max_input_tokens, model_window_tokens)
        if answer_reserve_tokens > limit > 0:
            msg = (
                f"answer_reserve_tokens is {answer_reserve_tokens}, and a model input has at most {limit} tokens; "
                f"choose 0 to {limit}, or raise HAYRECALL_MAX_INPUT_TOKENS or HAYRECALL_MODEL_WINDOW_TOKENS"
            )
            raise ConfigurationError(msg)
        self.max_input_tokens = max_input_tokens
        self.model_window_tokens = model_window_tokens
        self.answer_reserve_tokens = answer_reserve_tokens
        self.prompt_dirs = list(prompt_dirs)
        self.max_messages = max_messages
        self._sources = [source for folder in prompt_dirs for source in LocalePrompt(folder).sources.values()]
        self._counter = TekkenTokenCounter()
        self._budget: int | None = None

    def warm_up(self) -> None:
        """Load the tokenizer and measure the pipeline's own prompts."""
        if self._budget is None:
            self._budget = self._measure()

    async def warm_up_async(self) -> None:
        """Do the same as `warm_up` without holding up the event loop."""
        if self._budget is None:
            await asyncio.to_thread(self.warm_up)

    def candidates(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """
        Drop what `run` drops in any case, without counting a token.

        Every message costs a few tokens beside its text, so only so many of the newest can ever fit. Whoever hands a
        chat of many thousand messages to a pipeline spares it the rest: Haystack copies its inputs, message by message,
        while everybody else waits.

        :param messages: The client's chat, oldest first.
        :returns: Messages of which `run` keeps the same ones as of all.
        """
        self.warm_up()
        system, turns, last = _taken_apart(messages)
        most = (self._budget or 0) // MESSAGE_OVERHEAD_TOKENS
        start = max(0, last - (most if self.max_messages is None else min(most, self.max_messages)))
        return [*system, *turns[_user_from(turns, start, last) :]]

    @component.output_types(messages=list[ChatMessage])
    def run(self, messages: list[ChatMessage], turn: TurnContext | None = None) -> dict[str, list[ChatMessage]]:
        """
        Limit a chat. Haystack runs this in a thread, so counting a long text holds nobody up.

        :param messages: The client's chat, oldest first.
        :param turn: Not needed; there for a uniform wiring.
        :returns: `messages`: the leading system messages and the newest turns that fit.
        :raises InputTooLargeError: If the last user turn does not fit.
        """
        del turn
        self.warm_up()
        budget = self._budget or 0
        system, turns, last = _taken_apart(messages)
        used = self._tokens(turns[last:], budget)
        if used > budget:
            raise self._too_large(budget)
        room = (self.max_messages or len(messages)) - len(turns[last:])
        fitting_system: list[ChatMessage] = []
        for message in system:
            tokens = self._counter.count_message(message, stop_after=budget)
            if used + tokens <= budget and len(fitting_system) < room:
                used += tokens
                fitting_system.append(message)
        start = last
        while start > 0 and last - start < room - len(fitting_system):
            used += self._counter.count_message(turns[start - 1], stop_after=budget)
            if used > budget:
                break
            start -= 1
        return {"messages": [*fitting_system, *turns[_user_from(turns, start, last) :]]}

    def _tokens(self, messages: Sequence[ChatMessage], budget: int) -> int:
        return sum(self._counter.count_message(message, stop_after=budget) for message in messages)

    def _measure(self) -> int:
        own = max((self._counter.count_text(source) for source in self._sources), default=0)
        limit = effective_limit(self.max_input_tokens, self.model_window_tokens)
        budget = limit - PRIMING_TOKENS - own - self.answer_reserve_tokens
        if budget <= 0:
            logger.warning(
                "no message can fit: the limit is {limit} tokens, of which own prompts take {own} and the answer "
                "{reserve}; raise the limit or lower answer_reserve_tokens",
                limit=limit,
                own=own,
                reserve=self.answer_reserve_tokens,
            )
        return max(budget, 0)

    @staticmethod
    def _too_large(budget: int) -> InputTooLargeError:
        msg = f"the last user turn has more than the {budget} tokens that are left for it"
        return InputTooLargeError(msg, reason=f"The last message has more than {budget} tokens.")


def _taken_apart(messages: Sequence[ChatMessage]) -> tuple[list[ChatMessage], list[ChatMessage], int]:
    """Give the leading system messages, the turns behind them, and where the last user turn is; blank ones are gone."""
    kept = [message for message in messages if not _is_blank(message)]
    lead = _count_while(kept, ChatRole.SYSTEM)
    system, turns = kept[:lead], kept[lead:]
    return system, turns, _last_user(turns)


def _user_from(turns: Sequence[ChatMessage], start: int, last: int) -> int:
    """Find the first user turn at or behind `start`: no suffix starts with an answer."""
    return next((index for index in range(start, last) if turns[index].is_from(ChatRole.USER)), last)


def _is_blank(message: ChatMessage) -> bool:
    if message.images or message.files or message.tool_calls or message.tool_call_results:
        return False
    return not any(text.replace("\0", "").strip() for text in message.texts)


def _count_while(messages: Sequence[ChatMessage], role: ChatRole) -> int:
    return next((index for index, message in enumerate(messages) if not message.is_from(role)), len(messages))


def _last_user(turns: Sequence[ChatMessage]) -> int:
    return next((i for i in range(len(turns) - 1, -1, -1) if turns[i].is_from(ChatRole.USER)), len(turns))
