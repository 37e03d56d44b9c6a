"""Where a listing of memories goes on: newest first, and stable while others write."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self
from uuid import UUID

from components.memory_record import MemoryRecord


@dataclass(frozen=True)
class MemoryCursor:
    """
    The place after a page: the creation time of its last memory, and which memories of that time were shown.

    Unlike an offset, it neither repeats nor skips a memory when others are added or deleted between two pages.
    """

    created_at: datetime
    shown: tuple[str, ...]

    @classmethod
    def after(cls, page: Sequence[MemoryRecord], before: Self | None) -> Self:
        """
        Give the place after a page.

        :param page: What was shown, newest first; not empty.
        :param before: The cursor that the page was read with.
        """
        last = page[-1].created_at
        shown = [record.id for record in page if record.created_at == last]
        if before and before.created_at == last:
            shown = [*before.shown, *shown]
        return cls(last, tuple(shown))

    def dump(self) -> str:
        """Write it as opaque text that needs no escaping in a URL."""
        plain = json.dumps([self.created_at.isoformat(), *self.shown])
        return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")

    @classmethod
    def load(cls, text: str) -> Self:
        """
        Read a cursor that a client sent back.

        :raises ValueError: If it is none of ours.
        """
        try:
            created_at, *shown = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            return cls(datetime.fromisoformat(created_at), tuple(str(UUID(memory_id)) for memory_id in shown))
        except (AttributeError, RecursionError, TypeError, ValueError):  # base64 and JSON raise ValueErrors
            msg = "the cursor is not one that this listing gave"
            raise ValueError(msg) from None
