"""A question that went, or may go, to the experts; what `hayrecall_questions` holds."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from contracts.payloads import AgentIdentity, NotBlank
from contracts.queue import token
from contracts.turn import Locale

# consent: the user has not said yet whether the experts may be asked
State = Literal["consent", "open", "answered", "declined"]
Status = Literal["open", "answered", "declined", "expired"]


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ExpertReply(_Stored):
    """What an expert wrote, and the follow-up question that it led to, if it did not answer."""

    expert: NotBlank
    text: NotBlank
    said_at: AwareDatetime
    follow_up: str = ""


class ExpertQuestion(_Stored):
    """
    The condensed question of a turn, on its way to the experts and back.

    The client's raw message is never part of it. The answer is the last reply's text, verbatim.
    """

    version: Literal[1] = 1
    id: UUID
    tenant_id: NotBlank
    user_id: NotBlank
    thread_id: NotBlank
    question: NotBlank
    agent: AgentIdentity
    locale: Locale
    state: State = "consent"
    asked_at: AwareDatetime
    deadline: AwareDatetime
    experts: tuple[str, ...] = ()
    replies: tuple[ExpertReply, ...] = ()
    remembered: bool = Field(False, description="Whether the answer is in the organization's memory")

    @property
    def key(self) -> str:
        """The key in the bucket: found by user, by thread, and through a wildcard by id."""
        return f"{thread_pattern(self.tenant_id, self.user_id, self.thread_id)}{self.id}"

    @property
    def answer(self) -> ExpertReply | None:
        """The reply that answers; None as long as there is none."""
        return self.replies[-1] if self.state == "answered" else None

    def status(self, now: datetime) -> Status:
        """Give what the API tells: an open question is expired from its deadline on, whatever process looks at it."""
        if self.state in ("answered", "declined"):
            return self.state
        return "expired" if now >= self.deadline else "open"


def thread_pattern(tenant_id: str, user_id: str, thread_id: str) -> str:
    """Give the beginning of the keys of a thread's questions."""
    return f"{token(tenant_id)}.{token(user_id)}.{token(thread_id)}."
