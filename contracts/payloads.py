"""What travels on the queue and lies in its buckets; versioned, and strict in both directions."""

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from contracts.errors import PayloadError
from contracts.turn import Locale, TurnContext

VERSION: Literal[1] = 1


def _writable(text: str) -> str:
    # A client or a model may send half of a surrogate pair, which UTF-8 cannot carry.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _not_blank(text: str) -> str:
    if not text.strip():
        msg = "must not be blank"
        raise ValueError(msg)
    if text != _writable(text):
        msg = "must be text that UTF-8 can carry"
        raise ValueError(msg)
    return text


NotBlank = Annotated[str, AfterValidator(_not_blank)]


class _Payload(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AgentIdentity(_Payload):
    """The assistant that the turn was said to."""

    id: NotBlank
    name: str = ""
    description: str = ""


class TurnMessage(_Payload):
    """One of the two messages of a turn."""

    role: Literal["user", "assistant"]
    content: NotBlank


class ConversationTurn(_Payload):
    """
    A finished turn to learn from: the condensed question and, unless the turn broke off, the answer.

    The final model input, documents and the client's raw message are never part of it.
    """

    version: Literal[1] = VERSION
    kind: Literal["turn"] = "turn"
    run_id: UUID
    tenant_id: NotBlank
    user_id: NotBlank
    messages: tuple[TurnMessage, ...] = Field(min_length=1, max_length=2)
    agent: AgentIdentity
    locale: Locale
    said_at: AwareDatetime
    time_zone: str = "UTC"
    thread_id: str | None = None
    message_id: str | None = None

    @model_validator(mode="after")
    def _question_then_answer(self) -> Self:
        roles = [message.role for message in self.messages]
        if roles not in (["user"], ["user", "assistant"]):
            msg = "messages must be the question (user) and, if there is one, the answer (assistant)"
            raise ValueError(msg)
        return self

    @classmethod
    def of(cls, context: TurnContext, question: str, answer: str | None = None) -> Self:
        """
        Make the payload of a turn.

        :param context: Who said it, where and when; must have a user.
        :param question: The condensed question.
        :param answer: The answer; None or blank for a half turn.
        :raises ValidationError: If there is no user, the question is blank, or an id cannot be written as UTF-8.
        """
        turn = cls.model_validate(
            {
                "run_id": context.run_id,
                "tenant_id": context.tenant_id,
                "user_id": context.user_id,
                "messages": [TurnMessage(role="user", content=_writable(question))],
                "agent": AgentIdentity(
                    id=context.agent.id, name=context.agent.name, description=context.agent.description
                ),
                "locale": context.locale,
                "said_at": context.said_at,
                "time_zone": _writable(context.time_zone),
                "thread_id": None if context.thread_id is None else _writable(context.thread_id),
                "message_id": None if context.message_id is None else _writable(context.message_id),
            }
        )
        return turn.with_answer(answer)

    def with_answer(self, answer: str | None) -> Self:
        """
        Give the whole turn of a half one.

        :param answer: None or blank leaves it half.
        """
        if answer is None or not answer.strip():
            return self
        reply = TurnMessage(role="assistant", content=_writable(answer))
        return self.model_copy(update={"messages": (self.messages[0], reply)})

    @property
    def question(self) -> str:
        """The condensed question."""
        return self.messages[0].content

    @property
    def answer(self) -> str | None:
        """The answer; None for a half turn."""
        return self.messages[1].content if len(self.messages) > 1 else None


class EraseOrder(_Payload):
    """Takes the place of everything that was queued for a user before it."""

    version: Literal[1] = VERSION
    kind: Literal["erase"] = "erase"
    run_id: UUID
    tenant_id: NotBlank
    user_id: NotBlank
    erased_at: AwareDatetime


class UserState(_Payload):
    """
    What `hayrecall_users` holds about a user: turns said at or before `erased_at` are never stored again.

    `learning` off: nothing new is stored and no memory is read.
    """

    erased_at: AwareDatetime | None = None
    learning: bool = True

    def forgets(self, said_at: datetime) -> bool:
        """Tell whether a turn said at this time was erased."""
        return self.erased_at is not None and said_at <= self.erased_at


class Fact(_Payload):
    """One thing to remember, as extracted from a turn."""

    text: NotBlank
    vector: tuple[float, ...] = Field(repr=False)


class Decision(_Payload):
    """What reconciliation found for one fact; `memory_id` is what it supersedes."""

    fact: int = Field(ge=0)
    action: Literal["add", "supersede", "drop"]
    memory_id: str | None = None


class WritePlan(_Payload):
    """The outcome of extraction and reconciliation, made once per run, so that a redelivery asks no model again."""

    version: Literal[1] = VERSION
    run_id: UUID
    facts: tuple[Fact, ...]
    decisions: tuple[Decision, ...]


_QUEUED: TypeAdapter[ConversationTurn | EraseOrder] = TypeAdapter(
    Annotated[ConversationTurn | EraseOrder, Field(discriminator="kind")]
)


def read_turn(body: bytes | str) -> ConversationTurn | EraseOrder:
    """
    Read a message body of the turns stream.

    :param body: JSON in UTF-8.
    :returns: The turn, or the erase order that stands for it.
    :raises PayloadError: If it is no valid payload of a known version; the message names fields, never their content.
    """
    try:
        return _QUEUED.validate_json(body)
    except ValidationError as error:
        faults = (
            f"{'.'.join(str(part) for part in fault['loc']) or 'body'}: {fault['type']}" for fault in error.errors()
        )
        msg = f"not a queued turn of version {VERSION} ({', '.join(list(faults)[:5])})"
        raise PayloadError(msg) from None
