"""Tell questions about the assistant itself from all others."""

from haystack import component
from haystack.dataclasses import ChatMessage

from components.async_only import async_only
from components.chat_transcript import abridge, as_data, last_user_text
from components.fail_open import fail_open
from components.language import detect_locale, load_languages
from components.locale_prompt import LocalePrompt
from components.model_call import AsyncChatGenerator, close_model, open_model, structured_reply
from contracts.errors import UnreadableModelOutputError
from contracts.turn import TurnContext

_STAGE = "gate"
_SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["meta", "normal"]}},
    "required": ["label"],
    "additionalProperties": False,
}
_SHOWN_CHARACTERS = 2000  # documents in the middle of a message do not tell what kind of question it is


@component
class MetaQuestionGate:
    """
    Sorts a turn: `meta` asks about the assistant itself (who it is, what it can do, how it works), else `normal`.

    A gate that fails, or gives another label, lets the turn pass as normal; both are counted.

    ### Usage example

    ```python
    import asyncio
    from datetime import UTC, datetime

    from haystack.components.generators.chat import MockChatGenerator
    from haystack.dataclasses import ChatMessage

    from components.meta_question_gate import MetaQuestionGate
    from contracts.turn import Agent, TurnContext

    model = MockChatGenerator(responses=['{"label": "meta"}'])
    gate = MetaQuestionGate(model, prompt_dir="pipelines/rag/prompts/gate")
    turn = TurnContext(tenant_id="t", run_id="r", agent=Agent("rag"), locale="en", said_at=datetime.now(UTC))

    verdict = asyncio.run(gate.run_async([ChatMessage.from_user("What can you do?")], turn))
    assert verdict == {"verdict": "meta"}
    ```
    """

    def __init__(
        self, chat_generator: AsyncChatGenerator, *, prompt_dir: str, timeout_seconds: float | None = None
    ) -> None:
        """
        Configure the gate.

        :param chat_generator: Task model.
        :param prompt_dir: Prompt with the variable `message`.
        :param timeout_seconds: Longest wait for the verdict, above 0; None leaves it to the generator's own timeout.
        :raises ConfigurationError: If the prompt is missing or broken.
        """
        self.chat_generator = chat_generator
        self.prompt_dir = prompt_dir
        self.timeout_seconds = timeout_seconds
        self._prompt = LocalePrompt(prompt_dir, provides=("message",))

    async def warm_up_async(self) -> None:
        """Load the language models, open the model's client."""
        await load_languages()
        await open_model(self.chat_generator)

    async def close_async(self) -> None:
        """Close the model's client."""
        await close_model(self.chat_generator)

    @component.output_types(verdict=str)
    def run(self, messages: list[ChatMessage], turn: TurnContext) -> dict[str, str]:
        """Refuse to run: the model is asked asynchronously."""
        raise async_only(self)

    @component.output_types(verdict=str)
    async def run_async(self, messages: list[ChatMessage], turn: TurnContext) -> dict[str, str]:
        """
        Sort a turn by the user's last message.

        :param messages: The limited chat.
        :param turn: Gives the locale where the message's language cannot be told.
        :returns: `verdict`: `meta` or `normal`.
        """
        asked = self._ask(last_user_text(messages), turn)
        return {"verdict": await fail_open(_STAGE, asked, "normal", timeout_seconds=self.timeout_seconds)}

    async def _ask(self, message: str, turn: TurnContext) -> str:
        shown = as_data(abridge(message, _SHOWN_CHARACTERS))
        prompt = self._prompt.messages(detect_locale(message, turn.locale), message=shown)
        reply = await structured_reply(self.chat_generator, prompt, schema_name=_STAGE, schema=_SCHEMA)
        label = reply.get("label")
        if label not in ("meta", "normal"):
            msg = "the gate answered with an unknown label"
            raise UnreadableModelOutputError(msg)
        return str(label)
