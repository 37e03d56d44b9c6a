"""Where questions to the experts lie: a bucket of NATS, so that they survive restarts of every process."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Self
from uuid import UUID, uuid4

from haystack.core.serialization import default_from_dict, default_to_dict
from pydantic import Field, ValidationError

from components.bucket import Bucket
from components.turn_queue import TurnQueue
from contracts.errors import PayloadError
from contracts.expert_questions import ExpertQuestion, thread_pattern
from contracts.payloads import AgentIdentity
from contracts.queue import QUESTIONS_BUCKET
from contracts.turn import TurnContext


@dataclass(frozen=True)
class Kept:
    """A question and the revision that a change must be based on."""

    question: ExpertQuestion
    revision: int


class QuestionDesk:
    """
    Keeps the questions that went, or may go, to the experts.

    Only turns with a user and a thread have a place to come back to; the others cannot be escalated.

    ### Usage example

    ```python
    from components.question_desk import QuestionDesk
    from components.turn_queue import TurnQueue

    desk = QuestionDesk(TurnQueue("nats://127.0.0.1:4222", data_dir="/var/lib/hayrecall"), deadline_hours=72)
    assert desk.deadline_hours == 72
    ```
    """

    def __init__(self, turn_queue: TurnQueue, *, deadline_hours: Annotated[float, Field(gt=0, le=8760)] = 72) -> None:
        """
        Configure; nothing is opened here.

        :param turn_queue: Its connection to NATS is used.
        :param deadline_hours: How long the user's consent, and then the experts' answer, is waited for; above 0,
            a year (8,760) at most.
        :raises ValueError: If `deadline_hours` is not above 0.
        """
        if deadline_hours <= 0:
            msg = f"need deadline_hours > 0, got {deadline_hours=}"
            raise ValueError(msg)
        self.turn_queue = turn_queue
        self.deadline_hours = deadline_hours

    def to_dict(self) -> dict[str, Any]:
        """Serialize the settings."""
        return default_to_dict(self, turn_queue=self.turn_queue, deadline_hours=self.deadline_hours)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Build from what `to_dict` gave."""
        return default_from_dict(cls, data)

    async def open(self) -> None:
        """Connect; where NATS does not answer, it is tried on in the background."""
        await self.turn_queue.open()

    async def close(self) -> None:
        """Give the connection back."""
        await self.turn_queue.close()

    async def _bucket(self) -> Bucket:
        return await self.turn_queue.bucket(QUESTIONS_BUCKET)

    async def ask_consent(self, turn: TurnContext, question: str) -> ExpertQuestion:
        """
        Keep a question until its user says whether it may go to the experts.

        :param turn: A turn with a user and a thread.
        :param question: The condensed question.
        :returns: What is kept now.
        :raises ValueError: If the turn has no user or no thread.
        :raises QueueUnavailableError: If NATS did not confirm.
        """
        if turn.user_id is None or turn.thread_id is None:
            msg = "a question without a user or a thread cannot be escalated"
            raise ValueError(msg)
        now = datetime.now(UTC)
        kept = ExpertQuestion(
            id=uuid4(),
            tenant_id=turn.tenant_id,
            user_id=turn.user_id,
            thread_id=turn.thread_id,
            question=question,
            agent=AgentIdentity(id=turn.agent.id, name=turn.agent.name, description=turn.agent.description),
            locale=turn.locale,
            asked_at=now,
            deadline=now + timedelta(hours=self.deadline_hours),
        )
        await (await self._bucket()).create(kept.key, kept.model_dump_json().encode())
        return kept

    async def of_thread(self, turn: TurnContext) -> list[ExpertQuestion]:
        """
        Give the questions of a user's thread, the oldest first.

        :param turn: A turn without a user or a thread has none.
        :raises QueueUnavailableError: If NATS did not answer.
        """
        if turn.user_id is None or turn.thread_id is None:
            return []
        found = await (await self._bucket()).list(f"{thread_pattern(turn.tenant_id, turn.user_id, turn.thread_id)}*")
        return sorted((_read(body) for body in found.values()), key=lambda question: question.asked_at)

    async def find(self, tenant_id: str, question_id: str) -> Kept | None:
        """
        Find a question by its id.

        :param tenant_id: Whose question it must be.
        :param question_id: As the client sent it; anything that is no UUID is not found.
        :returns: The question with its revision; None if this tenant has none of that id.
        :raises QueueUnavailableError: If NATS did not answer.
        """
        try:
            pattern = f"*.*.*.{UUID(question_id)}"
        except ValueError:
            return None
        for key in await (await self._bucket()).list(pattern, limit=1):
            stored = await (await self._bucket()).get(key)
            if stored is not None and (question := _read(stored.body)).tenant_id == tenant_id:
                return Kept(question, stored.sequence)
        return None

    async def not_remembered(self) -> list[ExpertQuestion]:
        """Give the answered questions whose answer is not in the organization's memory yet."""
        found = await (await self._bucket()).list()
        questions = (_read(body) for body in found.values())
        return [question for question in questions if question.state == "answered" and not question.remembered]

    async def change(self, kept: Kept, **changes: Any) -> Kept | None:
        """
        Change a question, unless somebody else did meanwhile.

        :param kept: The question as it was read.
        :param changes: New values of fields.
        :returns: The question as it is now; None if it is another one meanwhile: read it again.
        :raises QueueUnavailableError: If NATS did not confirm.
        """
        changed = kept.question.model_copy(update=changes)
        if not await (await self._bucket()).put(
            changed.key, changed.model_dump_json().encode(), revision=kept.revision
        ):
            return None
        stored = await (await self._bucket()).get(changed.key)
        return None if stored is None else Kept(changed, stored.sequence)


def _read(body: bytes) -> ExpertQuestion:
    try:
        return ExpertQuestion.model_validate_json(body)
    except ValidationError as error:
        msg = f"a kept question is not readable ({error.error_count()} invalid fields)"
        raise PayloadError(msg) from None
