"""One remembered thing, in the format that mem0 keeps in Qdrant."""

import hashlib
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, Self, cast
from uuid import UUID, uuid5

from haystack import Document

from components.memory_scope import Scope
from contracts.turn import Locale

Source = Literal["turn", "expert", "edit"]


@dataclass(frozen=True, kw_only=True)
class MemoryRecord:
    """
    A memory with where it came from and whether it still holds.

    `stated_at` is when it was said, `created_at` when it was first stored; both carry a time zone. `statement` is the
    condensed question that the text was taken from: it is stored with the memory and erased with it.
    """

    id: str
    text: str
    created_at: datetime
    stated_at: datetime
    locale: Locale
    source: Source = "turn"
    statement: str = ""
    vector: tuple[float, ...] = field(default=(), repr=False)
    agent_id: str | None = None
    thread_id: str | None = None
    message_id: str | None = None
    run_id: str | None = None
    updated_at: datetime | None = None
    superseded_by: str | None = None
    superseded_at: datetime | None = None

    @property
    def status(self) -> Literal["current", "superseded"]:
        """Whether it still holds; a keyword, because filters need one that is always there."""
        return "superseded" if self.superseded_by else "current"

    @property
    def etag(self) -> str:
        """Tag of this very version of the memory; without the quotes of the HTTP header."""
        version = "\n".join((self.id, self.text, (self.updated_at or self.created_at).isoformat(), self.status))
        return hashlib.sha256(version.encode()).hexdigest()[:32]

    def edited(self, text: str, vector: tuple[float, ...], at: datetime) -> Self:
        """
        Give the version that replaces this one under the same id.

        :param text: What holds now; a person wrote it, so no statement stands behind it.
        :param vector: Embedding of `text`.
        :param at: Time of the edit, with a time zone.
        """
        return replace(self, text=text, vector=vector, source="edit", statement="", stated_at=at, updated_at=at)

    def kept_as_history(self, at: datetime) -> Self:
        """
        Give the copy of this version that stays behind when it is edited.

        :param at: Time of the edit, with a time zone.
        :returns: A superseded record; its id follows from the version, so a repeated edit makes no second copy.
        """
        return replace(self, id=str(uuid5(UUID(self.id), self.etag)), superseded_by=self.id, superseded_at=at)

    def public(self) -> dict[str, Any]:
        """
        Give the shape of the memory API and of exports.

        :returns: JSON-ready fields; `superseded_at` is there only where the memory was superseded.
        """
        shown: dict[str, Any] = {
            "id": self.id,
            "text": self.text,
            "created_at": self.created_at.isoformat(),
            "stated_at": self.stated_at.isoformat(),
            "agent_id": self.agent_id,
            "thread_id": self.thread_id,
            "run_id": self.run_id,
            "source": self.source,
            "superseded_by": self.superseded_by,
        }
        if self.superseded_at:
            shown["superseded_at"] = self.superseded_at.isoformat()
        return shown

    def payload(self, scope: Scope) -> dict[str, Any]:
        """
        Give what Qdrant holds beside the vectors: our fields, and those that stock mem0 reads.

        :param scope: The owner, written as tokens.
        """
        updated_at = self.updated_at or self.created_at
        return {
            "tenant_id": scope.tenant_token,
            scope.owner_field: scope.owner_token,
            "user_id": scope.mem0_user_id,
            "agent_id": self.agent_id,
            "thread_id": self.thread_id,
            "message_id": self.message_id,
            "run_id": self.run_id,
            "locale": self.locale,
            "data": self.text,
            "hash": hashlib.md5(self.text.encode(), usedforsecurity=False).hexdigest(),
            "attributed_to": "user",
            "created_at": self.created_at.isoformat(),
            "updated_at": updated_at.isoformat(),
            "stated_at": self.stated_at.isoformat(),
            "status": self.status,
            "superseded_by": self.superseded_by,
            "superseded_at": self.superseded_at.isoformat() if self.superseded_at else None,
            "statement": self.statement,
            "source": self.source,
        }

    @classmethod
    def from_payload(cls, memory_id: str, payload: dict[str, Any], vector: tuple[float, ...] = ()) -> Self:
        """Read back what `payload` wrote."""
        times = {
            name: datetime.fromisoformat(payload[name]) if payload.get(name) else None
            for name in ("created_at", "updated_at", "stated_at", "superseded_at")
        }
        plain: dict[str, Any] = {name: payload.get(name) for name in _PLAIN_FIELDS}
        return cls(
            id=memory_id,
            text=payload["data"],
            vector=vector,
            created_at=cast(datetime, times["created_at"]),
            updated_at=times["updated_at"],
            stated_at=cast(datetime, times["stated_at"]),
            superseded_at=times["superseded_at"],
            **plain,
        )

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """Read what a search of the store found."""
        return cls.from_payload(document.id, {**document.meta, "data": document.content})


_PLAIN_FIELDS = (
    "locale",
    "source",
    "statement",
    "agent_id",
    "thread_id",
    "message_id",
    "run_id",
    "superseded_by",
)
