"""Turn a chat into one standalone question."""

import asyncio

from haystack import component, logging
from haystack.dataclasses import ChatMessage, ChatRole

from components.async_only import async_only
from components.chat_transcript import as_data, last_user_text, transcript
from components.condensed_text import clean_question
from components.language import detect_locale, load_languages
from components.locale_prompt import LocalePrompt
from components.metrics import BLANK_CONDENSATIONS, CUT_CONDENSATIONS
from components.model_call import AsyncChatGenerator, close_model, open_model, reply_text
from components.token_counter import TekkenTokenCounter
from contracts.errors import EmptyCondensationError
from contracts.turn import TurnContext

logger = logging.getLogger(__name__)


@component
class Condenser:
    """
    Asks the task model for the one question that a chat ends with, without the documents that a client pasted into it.

    Every search, every memory and every escalation uses this question and nothing else. It runs on the first turn too,
    and sees no system message, so that neither memory blocks nor a client's instructions change the question. A blank
    question is an error: there is no second attempt and no falling back to the raw message.

    ### Usage example

    ```python
    import asyncio
    from datetime import UTC, datetime

    from haystack.components.generators.chat import MockChatGenerator
    from haystack.dataclasses import ChatMessage

    from components.condenser import Condenser
    from contracts.turn import Agent, TurnContext

    model = MockChatGenerator(responses=["<think>'it' is the VPN</think> What does the VPN cost?"])
    condenser = Condenser(model, prompt_dir="pipelines/rag/prompts/condense")
    chat = [
        ChatMessage.from_user("Do we have a VPN?"),
        ChatMessage.from_assistant("Yes."),
        ChatMessage.from_user("What does it cost?"),
    ]
    turn = TurnContext(tenant_id="t", run_id="r", agent=Agent("rag"), locale="en", said_at=datetime.now(UTC))

    assert asyncio.run(condenser.run_async(chat, turn)) == {"question": "What does the VPN cost?"}
    ```
    """

    def __init__(
        self,
        chat_generator: AsyncChatGenerator,
        *,
        prompt_dir: str,
        max_question_tokens: int = 400,
        max_history_tokens: int = 2000,
    ) -> None:
        """
        Configure the condenser.

        :param chat_generator: Task model; its settings bound temperature, length, time and retries.
        :param prompt_dir: Prompt with the variables `history` (utterances with `role` and `text`) and `message`.
        :param max_question_tokens: Longest question, well below the embedder's window; what is longer is cut.
        :param max_history_tokens: How much of the chat before the last message the model sees. The last message is
            always given whole.
        :raises ValueError: If a number is below 1.
        :raises ConfigurationError: If the prompt is missing or broken.
        """
        if max_question_tokens < 1 or max_history_tokens < 1:
            msg = f"need at least 1 token, got {max_question_tokens=} and {max_history_tokens=}"
            raise ValueError(msg)
        self.chat_generator = chat_generator
        self.prompt_dir = prompt_dir
        self.max_question_tokens = max_question_tokens
        self.max_history_tokens = max_history_tokens
        self._prompt = LocalePrompt(prompt_dir, provides=("history", "message"))
        self._counter = TekkenTokenCounter()

    async def warm_up_async(self) -> None:
        """Load tokenizer and language models, open the model's client."""
        await asyncio.gather(self._counter.warm_up_async(), load_languages())
        await open_model(self.chat_generator)

    async def close_async(self) -> None:
        """Close the model's client."""
        await close_model(self.chat_generator)

    @component.output_types(question=str)
    def run(self, messages: list[ChatMessage], turn: TurnContext) -> dict[str, str]:
        """Refuse to run: the model is asked asynchronously."""
        raise async_only(self)

    @component.output_types(question=str)
    async def run_async(self, messages: list[ChatMessage], turn: TurnContext) -> dict[str, str]:
        """
        Condense a chat.

        :param messages: The limited chat, oldest first.
        :param turn: Gives the locale where the chat's language cannot be told.
        :returns: `question`: one line in the language of the user's question, never blank.
        :raises EmptyCondensationError: If the model gave no question.
        :raises ModelUnavailableError: If the model is down or slow, after the generator's own retries.
        """
        try:
            return {"question": await self.condense(messages, turn)}
        except EmptyCondensationError:
            BLANK_CONDENSATIONS.inc()
            raise

    async def condense(self, messages: list[ChatMessage], turn: TurnContext) -> str:
        """Do the same without counting a blank question, for a caller that may not need the result."""
        reply = await reply_text(self.chat_generator, self._render(messages, turn))
        question = clean_question(reply)
        if not question:
            msg = f"the condenser gave no question ({len(reply)} characters of something else)"
            raise EmptyCondensationError(msg)
        cut = self._counter.cut(question, self.max_question_tokens)
        if cut != question:
            CUT_CONDENSATIONS.inc()
            logger.warning("condensed question cut to {tokens} tokens", tokens=self.max_question_tokens)
        return cut

    def _render(self, messages: list[ChatMessage], turn: TurnContext) -> list[ChatMessage]:
        message = last_user_text(messages)
        last = max((i for i, said in enumerate(messages) if said.is_from(ChatRole.USER)), default=0)
        history = transcript(messages[:last], max_tokens=self.max_history_tokens, counter=self._counter)
        return self._prompt.messages(detect_locale(message, turn.locale), history=history, message=as_data(message))
