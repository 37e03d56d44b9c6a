"""What one chat turn is about: small frozen values that travel through a pipeline's sockets without being copied."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Self

Locale = Literal["de", "fr", "it", "en"]
LOCALES: tuple[Locale, ...] = ("de", "fr", "it", "en")


class _Shared:
    """A frozen value that Haystack's per-hop deep copy hands on as it is."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


@dataclass(frozen=True)
class Agent(_Shared):
    """The assistant that a turn was said to: its model name, and what the manifest tells about it."""

    id: str
    name: str = ""
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class TurnContext(_Shared):
    """
    Who asks, where and when; made once per request by the server, read by any component.

    Ids are arbitrary strings. `user_id` is None for a request without an identity: no user memory is read or written.
    `said_at` carries a time zone (that of the user, where the client tells it, else UTC).
    """

    tenant_id: str
    run_id: str
    agent: Agent
    locale: Locale
    said_at: datetime
    user_id: str | None = None
    groups: tuple[str, ...] = ()
    thread_id: str | None = None
    message_id: str | None = None
    time_zone: str = "UTC"
    learning: bool = True


@dataclass(frozen=True)
class Vector(_Shared):
    """A dense embedding; empty when the embedder could not be asked."""

    values: tuple[float, ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        """Tell whether there is an embedding."""
        return bool(self.values)
