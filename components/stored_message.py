"""A message as a stream of NATS keeps it."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self


@dataclass(frozen=True)
class StoredMessage:
    """A message as a stream keeps it; `sequence` is its place in the stream, and the revision of a bucket's key."""

    subject: str
    sequence: int
    stored_at: datetime
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def from_direct_get(cls, headers: Mapping[str, str], body: bytes) -> Self:
        """
        Read the reply to a direct get.

        :param headers: The message's own, with those that NATS adds.
        :param body: The message's own.
        """
        return cls(
            subject=headers["Nats-Subject"],
            sequence=int(headers["Nats-Sequence"]),
            stored_at=datetime.fromisoformat(headers["Nats-Time-Stamp"]),
            headers=headers,
            body=body,
        )

    @classmethod
    def from_api(cls, message: Mapping[str, Any]) -> Self:
        """
        Read the `message` of an answer to STREAM.MSG.GET.

        :param message: JSON, headers and body in base64.
        """
        return cls(
            subject=message["subject"],
            sequence=message["seq"],
            stored_at=datetime.fromisoformat(message["time"]),
            headers=_headers(base64.b64decode(message.get("hdrs", ""))),
            body=base64.b64decode(message.get("data", "")),
        )


def _headers(block: bytes) -> dict[str, str]:
    lines = block.decode(errors="replace").split("\r\n")[1:]
    return {name: value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
