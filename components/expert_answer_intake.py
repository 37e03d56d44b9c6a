"""Take in what an expert answers."""

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import uuid5

from haystack import component, logging
from haystack.components.embedders import OpenAITextEmbedder
from pydantic import Field

from components.async_only import async_only
from components.embedding_call import embed, open_embedder
from components.expert_answer_judge import ExpertAnswerJudge
from components.expert_channel import ExpertChannel
from components.memory_record import MemoryRecord
from components.memory_scope import Scope
from components.memory_store import MemoryStore
from components.model_call import close_model, open_model
from components.question_desk import Kept, QuestionDesk
from contracts.errors import HayrecallError, TransientError
from contracts.expert_questions import ExpertQuestion, ExpertReply

logger = logging.getLogger(__name__)

_TRIES = 5


class NotTakenError(HayrecallError):
    """The reply was not taken; `status` is that of the question, or `missing`, `empty`, `too_long`, `not_named`."""

    def __init__(self, status: str) -> None:
        """Keep why."""
        super().__init__(f"an expert's reply was not taken: {status}")
        self.status = status


@component
class ExpertAnswerIntake:
    """
    Judges an expert's reply, asks on where it does not answer, and keeps the answer.

    The answer is kept with its question first; that alone is what the user waits for. Then it goes into the
    organization's memory, verbatim and with its author: where that fails, `remember_rest` makes up for it later.

    ### Usage example

    ```python
    from haystack.components.embedders import OpenAITextEmbedder
    from haystack.components.generators.chat import MockChatGenerator
    from haystack.utils import Secret

    from components.expert_answer_intake import ExpertAnswerIntake
    from components.expert_answer_judge import ExpertAnswerJudge
    from components.expert_channel import ExpertChannel
    from components.memory_store import MemoryStore
    from components.question_desk import QuestionDesk
    from components.turn_queue import TurnQueue

    intake = ExpertAnswerIntake(
        QuestionDesk(TurnQueue("nats://127.0.0.1:4222", data_dir="/var/lib/hayrecall")),
        ExpertAnswerJudge(MockChatGenerator(), prompt_dir="pipelines/expert-rag/prompts/judge"),
        ExpertChannel(experts=["Ann"], prompt_dir="pipelines/expert-rag/prompts/channel"),
        MemoryStore("http://127.0.0.1:6333"),
        OpenAITextEmbedder(api_key=Secret.from_token("unused"), prefix="passage: "),
        max_follow_ups=2,
    )
    assert intake.max_follow_ups == 2
    ```
    """

    def __init__(
        self,
        desk: QuestionDesk,
        judge: ExpertAnswerJudge,
        channel: ExpertChannel,
        memory_store: MemoryStore,
        embedder: OpenAITextEmbedder,
        *,
        max_follow_ups: Annotated[int, Field(ge=0, le=10)] = 3,
        max_answer_characters: int = 10_000,
        namespace: str = "",
    ) -> None:
        """
        Configure; nothing is opened here.

        :param desk: Keeps the questions.
        :param judge: Judges replies.
        :param channel: Asks on.
        :param memory_store: Keeps answers for the organization.
        :param embedder: With the model's prefix for passages.
        :param max_follow_ups: Most times to ask on; the reply after that counts as the answer. 0 to 10.
        :param max_answer_characters: Longest reply that is taken, at least 1.
        :param namespace: Part of the organization's memory that answers go to.
        :raises ValueError: If a setting is out of range.
        """
        if max_follow_ups < 0 or max_answer_characters < 1:
            msg = f"need max_follow_ups >= 0 and max_answer_characters >= 1, got {max_follow_ups=} and "
            raise ValueError(msg + f"{max_answer_characters=}")
        self.desk = desk
        self.judge = judge
        self.channel = channel
        self.memory_store = memory_store
        self.embedder = embedder
        self.max_follow_ups = max_follow_ups
        self.max_answer_characters = max_answer_characters
        self.namespace = namespace

    async def warm_up_async(self) -> None:
        """Open what it holds."""
        await self.desk.open()
        await self.memory_store.open()
        await open_embedder(self.embedder)
        await open_model(self.judge.chat_generator)

    async def close_async(self) -> None:
        """Close what it holds."""
        await self.desk.close()
        await self.memory_store.close()
        await self.embedder.close_async()
        await close_model(self.judge.chat_generator)

    @component.output_types(status=str, follow_up=str)
    def run(self, tenant_id: str, question_id: str, expert: str, text: str) -> dict[str, Any]:
        """
        Refuse to block.

        :raises NotImplementedError: Always.
        """
        raise async_only(self)

    @component.output_types(status=str, follow_up=str)
    async def run_async(self, tenant_id: str, question_id: str, expert: str, text: str) -> dict[str, Any]:
        """
        Take one reply.

        :param tenant_id: Tenant of the expert.
        :param question_id: The question.
        :param expert: Who answers, by the name that the settings give them.
        :param text: The reply.
        :returns: `status`: `answered`, or `open` where the reply led to the question `follow_up`.
        :raises NotTakenError: If the question is not open, or the reply is blank, too long or by nobody who was named.
        :raises QueueUnavailableError: If it could not be kept.
        """
        if not text.strip():
            raise NotTakenError("empty")
        if len(text) > self.max_answer_characters:
            raise NotTakenError("too_long")
        for _ in range(_TRIES):
            kept = await self._open(tenant_id, question_id, expert)
            question = kept.question
            asked_on = len(question.replies)
            missing = await self.judge.missing(question, text) if asked_on < self.max_follow_ups else ""
            reply = ExpertReply(expert=expert, text=text, said_at=datetime.now(UTC), follow_up=missing)
            state = "open" if missing else "answered"
            changed = await self.desk.change(kept, replies=(*question.replies, reply), state=state)
            if changed is not None:
                await self._follow(changed)
                return {"status": state, "follow_up": missing}
        raise NotTakenError("open")  # somebody else was quicker each time

    async def _open(self, tenant_id: str, question_id: str, expert: str) -> Kept:
        kept = await self.desk.find(tenant_id, question_id)
        if kept is None or kept.question.state == "consent":
            raise NotTakenError("missing")
        if (status := kept.question.status(datetime.now(UTC))) != "open":
            raise NotTakenError(status)
        if expert not in kept.question.experts:
            raise NotTakenError("not_named")
        return kept

    async def _follow(self, kept: Kept) -> None:
        """Do what comes after a reply was kept: a failure here loses nothing that the expert wrote."""
        question = kept.question
        try:
            if question.state == "answered":
                await self._remember(kept)
            else:
                left = (question.deadline - datetime.now(UTC)).total_seconds()
                await self.channel.send(question, seconds_left=left)
        except TransientError as error:
            logger.warning("an expert's reply is kept, but what follows failed: {reason}", reason=str(error))

    async def remember_rest(self) -> int:
        """
        Bring answers into the organization's memory that could not be at once.

        :returns: How many.
        :raises TransientError: If a part is down still.
        """
        rest = await self.desk.not_remembered()
        for question in rest:
            kept = await self.desk.find(question.tenant_id, str(question.id))
            if kept is not None:
                await self._remember(kept)
        return len(rest)

    async def _remember(self, kept: Kept) -> None:
        question, answer = kept.question, kept.question.answer
        if answer is None:
            return
        (vector,) = await embed(self.embedder, [f"{question.question}\n{answer.text}"])
        record = MemoryRecord(
            id=str(uuid5(question.id, "answer")),  # again is the same record
            text=_signed(answer),
            statement=question.question,
            vector=vector,
            created_at=datetime.now(UTC),
            stated_at=answer.said_at,
            locale=question.locale,
            source="expert",
            agent_id=question.agent.id,
            run_id=str(question.id),
        )
        await self.memory_store.apply(Scope(question.tenant_id, organization_namespace=self.namespace), [record], [])
        await self.desk.change(kept, remembered=True)


def _signed(answer: ExpertReply) -> str:
    """Give the answer verbatim, with who said it and when."""
    return f"{answer.text}\n({answer.expert}, {answer.said_at:%Y-%m-%d})"


def public(question: ExpertQuestion) -> dict[str, Any]:
    """Give what the API shows of a question."""
    answer = question.answer
    return {
        "id": str(question.id),
        "object": "question",
        "status": question.status(datetime.now(UTC)),
        "question": question.question,
        "asked_at": question.asked_at.isoformat(),
        "deadline": question.deadline.isoformat(),
        "follow_up": question.replies[-1].follow_up or None if question.replies else None,
        "answer": answer and {"text": answer.text, "expert": answer.expert, "answered_at": answer.said_at.isoformat()},
    }
