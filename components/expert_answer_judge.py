"""Judge whether an expert's reply answers the question."""

from typing import Any, Self

from haystack.core.serialization import default_from_dict, default_to_dict

from components.fail_open import fail_open
from components.locale_prompt import LocalePrompt
from components.model_call import AsyncChatGenerator, structured_reply
from contracts.errors import UnreadableModelOutputError
from contracts.expert_questions import ExpertQuestion

_STAGE = "expert"
_SCHEMA = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["answered", "incomplete"]},
        "follow_up": {"type": "string"},
    },
    "required": ["verdict", "follow_up"],
    "additionalProperties": False,
}


class ExpertAnswerJudge:
    """
    Asks the task model whether a reply answers the question, and if not, what to ask the expert next.

    Whatever it cannot read counts as answered: an expert's words are never thrown away because of a model.

    ### Usage example

    ```python
    from haystack.components.generators.chat import MockChatGenerator

    from components.expert_answer_judge import ExpertAnswerJudge

    judge = ExpertAnswerJudge(MockChatGenerator(), prompt_dir="pipelines/expert-rag/prompts/judge")
    assert judge.timeout_seconds == 20
    ```
    """

    def __init__(self, chat_generator: AsyncChatGenerator, *, prompt_dir: str, timeout_seconds: float = 20.0) -> None:
        """
        Configure; nothing is opened here.

        :param chat_generator: The task model.
        :param prompt_dir: Prompt with the variables `question` and `replies`.
        :param timeout_seconds: Longest wait for the model, above 0.
        :raises ValueError: If `timeout_seconds` is not above 0.
        :raises ConfigurationError: If the prompt is not whole.
        """
        if timeout_seconds <= 0:
            msg = f"need timeout_seconds > 0, got {timeout_seconds=}"
            raise ValueError(msg)
        self.chat_generator = chat_generator
        self.prompt_dir = prompt_dir
        self.timeout_seconds = timeout_seconds
        self._prompt = LocalePrompt(prompt_dir)

    def to_dict(self) -> dict[str, Any]:
        """Serialize the settings."""
        return default_to_dict(
            self,
            chat_generator=self.chat_generator,
            prompt_dir=self.prompt_dir,
            timeout_seconds=self.timeout_seconds,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Build from what `to_dict` gave."""
        return default_from_dict(cls, data)

    async def missing(self, question: ExpertQuestion, text: str) -> str:
        """
        Tell what a reply leaves open.

        :param question: With the replies so far.
        :param text: The new reply.
        :returns: A follow-up question to the expert; empty if the reply answers.
        """
        return await fail_open(_STAGE, self._ask(question, text), "", timeout_seconds=self.timeout_seconds)

    async def _ask(self, question: ExpertQuestion, text: str) -> str:
        replies = [*(reply.text for reply in question.replies), text]
        prompt = self._prompt.messages(question.locale, question=question.question, replies=replies)
        answer = await structured_reply(self.chat_generator, prompt, schema_name="judgement", schema=_SCHEMA)
        verdict, follow_up = answer.get("verdict"), answer.get("follow_up", "")
        if verdict not in ("answered", "incomplete") or not isinstance(follow_up, str):
            msg = "the model's judgement is neither answered nor incomplete"
            raise UnreadableModelOutputError(msg)
        return follow_up.strip() if verdict == "incomplete" else ""
