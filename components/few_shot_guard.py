"""Keep an assistant to the questions that it is meant for."""

from collections.abc import Sequence

from haystack import component

from components.async_only import async_only
from components.chat_transcript import as_data
from components.fail_open import fail_open
from components.locale_prompt import LocalePrompt
from components.model_call import AsyncChatGenerator, close_model, open_model, structured_reply
from contracts.errors import FewShotRejectedError, UnreadableModelOutputError

_STAGE = "few_shot_guard"
_SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["accept", "block"]}, "reason": {"type": "string"}},
    "required": ["verdict", "reason"],
    "additionalProperties": False,
}


@component
class FewShotGuard:
    """
    Judges from examples of questions to accept and to block whether the assistant is meant to answer a question.

    Without examples every question is accepted, and no model is asked. A guard that fails or cannot be read accepts;
    both are counted.

    ### Usage example

    ```python
    import asyncio

    from haystack.components.generators.chat import MockChatGenerator

    from components.few_shot_guard import FewShotGuard
    from contracts.errors import FewShotRejectedError

    guard = FewShotGuard(
        MockChatGenerator(['{"verdict": "block", "reason": "Not about work."}']),
        prompt_dir="pipelines/rag/prompts/few_shot",
        allow=["How many vacation days do I have?"],
        block=["Write me a poem."],
    )
    try:
        asyncio.run(guard.run_async(question="Sing a song!", locale="en"))
    except FewShotRejectedError as refusal:
        assert refusal.reason == "Not about work."
    ```
    """

    def __init__(
        self,
        chat_generator: AsyncChatGenerator | None = None,
        *,
        prompt_dir: str,
        allow: Sequence[str] = (),
        block: Sequence[str] = (),
        name: str = "",
        description: str = "",
        timeout_seconds: float | None = None,
    ) -> None:
        """
        Configure the guard.

        :param chat_generator: Task model; needed as soon as there are examples.
        :param prompt_dir: Prompt with the variables `name`, `description`, `allow`, `block` and `question`.
        :param allow: Questions to accept.
        :param block: Questions to block.
        :param name: The assistant's name.
        :param description: What it is for.
        :param timeout_seconds: Longest wait for the verdict, above 0; None leaves it to the generator's own timeout.
        :raises ValueError: If there are examples and no generator.
        :raises ConfigurationError: If the prompt is missing or broken.
        """
        if (allow or block) and chat_generator is None:
            msg = "examples need a chat_generator that judges by them"
            raise ValueError(msg)
        self.chat_generator = chat_generator
        self.prompt_dir = prompt_dir
        self.allow = list(allow)
        self.block = list(block)
        self.name = name
        self.description = description
        self.timeout_seconds = timeout_seconds
        self._prompt = LocalePrompt(prompt_dir, provides=("name", "description", "allow", "block", "question"))

    async def warm_up_async(self) -> None:
        """Open the model's client."""
        if self.chat_generator:
            await open_model(self.chat_generator)

    async def close_async(self) -> None:
        """Close the model's client."""
        if self.chat_generator:
            await close_model(self.chat_generator)

    @component.output_types(accepted=bool)
    def run(self, question: str, locale: str) -> dict[str, bool]:
        """Refuse to run: the model is asked asynchronously."""
        raise async_only(self)

    @component.output_types(accepted=bool)
    async def run_async(self, question: str, locale: str) -> dict[str, bool]:
        """
        Judge a question.

        :param question: The condensed question.
        :param locale: Language of the prompt and of the reason.
        :returns: `accepted`: always true.
        :raises FewShotRejectedError: If the question is blocked.
        """
        if self.chat_generator and (self.allow or self.block):
            asked = self._reason_to_block(self.chat_generator, question, locale)
            reason = await fail_open(_STAGE, asked, None, timeout_seconds=self.timeout_seconds)
            if reason is not None:
                msg = "the few-shot guard blocked the question"
                raise FewShotRejectedError(msg, reason=reason, question=question)
        return {"accepted": True}

    async def _reason_to_block(self, model: AsyncChatGenerator, question: str, locale: str) -> str | None:
        prompt = self._prompt.messages(
            locale,
            name=self.name,
            description=self.description,
            allow=self.allow,
            block=self.block,
            question=as_data(question),
        )
        reply = await structured_reply(model, prompt, schema_name=_STAGE, schema=_SCHEMA)
        match reply.get("verdict"):
            case "accept":
                return None
            case "block":
                return str(reply.get("reason") or "")
        msg = "the few-shot guard answered with an unknown verdict"
        raise UnreadableModelOutputError(msg)
