"""What clients tell about a conversation beside its messages."""

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from starlette.datastructures import Headers

from contracts.turn import LOCALES, Locale
from hayrecall.server.text import cleaned

_LONGEST_ID = 1024  # characters; ids are arbitrary, but no documents


def client_locale(headers: Headers) -> Locale | None:
    """Give the first of our languages that the client says its user reads."""
    ranked = []
    for index, item in enumerate(headers.get("accept-language", "").split(",")):
        tag, _, quality = item.partition(";q=")
        try:
            weight = float(quality or 1)
        except ValueError:
            weight = 0.0
        ranked.append((-weight, index, tag.strip().lower().split("-")[0]))
    return next((language for _, _, language in sorted(ranked) if language in LOCALES), None)


def client_time_zone(headers: Headers) -> str | None:
    """Give the user's time zone, where a client tells it in `X-Time-Zone` by its IANA name."""
    name = headers.get("x-time-zone", "")
    try:
        return ZoneInfo(name).key if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def client_thread(headers: Headers, body: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Give the client's ids of the conversation and of the message."""
    thread = _id(headers.get("x-openwebui-chat-id")) or _id(body.get("chat_id"))
    return thread, _id(headers.get("x-openwebui-message-id"))


def _id(value: Any) -> str | None:
    return cleaned(value).strip()[:_LONGEST_ID] or None if isinstance(value, str) else None
