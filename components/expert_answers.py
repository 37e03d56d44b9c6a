"""Bring the experts' answers back into the chat."""

from typing import Any

from haystack import Document, component

from components.async_only import async_only
from components.fail_open import fail_open
from components.question_desk import QuestionDesk
from contracts.turn import TurnContext


@component
class ExpertAnswers:
    """
    Puts what experts answered in this thread before the documents that were found.

    ### Usage example

    ```python
    from components.expert_answers import ExpertAnswers
    from components.question_desk import QuestionDesk
    from components.turn_queue import TurnQueue

    desk = QuestionDesk(TurnQueue("nats://127.0.0.1:4222", data_dir="/var/lib/hayrecall"))
    answers = ExpertAnswers(desk, max_answers=2)
    assert answers.max_answers == 2
    ```
    """

    def __init__(self, desk: QuestionDesk, *, max_answers: int = 3, timeout_seconds: float = 1.0) -> None:
        """
        Configure; nothing is opened here.

        :param desk: Keeps the questions and their answers.
        :param max_answers: Most answers to offer, the newest ones; at least 1.
        :param timeout_seconds: Longest wait, above 0; after it the turn goes on without them.
        :raises ValueError: If a setting is out of range.
        """
        if max_answers < 1 or timeout_seconds <= 0:
            msg = f"need max_answers >= 1 and timeout_seconds > 0, got {max_answers=} and {timeout_seconds=}"
            raise ValueError(msg)
        self.desk = desk
        self.max_answers = max_answers
        self.timeout_seconds = timeout_seconds

    async def warm_up_async(self) -> None:
        """Connect the desk."""
        await self.desk.open()

    async def close_async(self) -> None:
        """Close the desk."""
        await self.desk.close()

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document], turn: TurnContext) -> dict[str, Any]:
        """
        Refuse to block.

        :param documents: Not looked at.
        :param turn: Not looked at.
        :raises NotImplementedError: Always.
        """
        raise async_only(self)

    @component.output_types(documents=list[Document])
    async def run_async(self, documents: list[Document], turn: TurnContext) -> dict[str, Any]:
        """
        Offer the answers beside the documents.

        :param documents: What was found, best first.
        :param turn: Whose thread.
        :returns: `documents`: the experts' answers, the newest first, then what was found.
        """
        answers = await fail_open("expert", self._answers(turn), [], timeout_seconds=self.timeout_seconds)
        return {"documents": [*answers, *documents]}

    async def _answers(self, turn: TurnContext) -> list[Document]:
        answered = [
            (question, question.answer) for question in await self.desk.of_thread(turn) if question.answer is not None
        ]
        return [
            Document(
                id=str(question.id),
                content=f"{question.question}\n{answer.text}",
                score=1.0,
                meta={
                    "source": f"expert:{question.id}",
                    "title": f"{answer.expert}, {answer.said_at:%Y-%m-%d}",
                    "expert": answer.expert,
                },
            )
            for question, answer in answered[: -self.max_answers - 1 : -1]
        ]
