"""A chat's messages as clients really send them, read into Haystack's; texts are never interpreted."""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from haystack.dataclasses import ChatMessage, ChatRole, ImageContent, TextContent, ToolCall

from hayrecall.server.errors import ApiError
from hayrecall.server.text import cleaned, cleaned_json

_DATA_URL = re.compile(r"data:(image/[a-z0-9.+-]+)(?:;[^;,]*)*;base64,(.*)", re.DOTALL | re.IGNORECASE)
_TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_IMAGE_PARTS = ("image_url", "input_image")
_ROLES = {
    "system": ChatRole.SYSTEM,
    "developer": ChatRole.SYSTEM,
    "user": ChatRole.USER,
    "assistant": ChatRole.ASSISTANT,
    "tool": ChatRole.TOOL,
    "function": ChatRole.TOOL,
}


class ClientMessage(ChatMessage):
    """
    A message that no component changes, and that Haystack's copy at every hop hands on as it is.

    Copying thousands of them would hold up everybody else's chat.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Give the message itself."""
        return self


def read_messages(messages: Sequence[Any], *, vision: bool) -> list[ChatMessage]:
    """
    Read the `messages` of a request.

    Blank turns stay where they are (the pipeline drops them), but for the last user turn, which must hold text. A
    tool's call and its results are kept as a whole or not at all, because no backend takes halves.

    :param messages: As in the JSON body.
    :param vision: Keep images of user turns; otherwise they are dropped.
    :raises ApiError: 400 `empty_message` for no or a blank last user turn, 400 with a reason for what cannot be read.
    """
    read = list(_read(messages, vision=vision))
    users = [message for message in read if message.is_from(ChatRole.USER)]
    if not users or not any(text.strip() for text in users[-1].texts):
        raise ApiError(400, "empty_message", "The last user message holds no text.")
    return read


def _read(messages: Sequence[Any], *, vision: bool) -> Iterator[ChatMessage]:
    index = 0
    while index < len(messages):
        message = messages[index]
        place = f"messages.{index}"
        role = _role(message, place)
        index += 1
        if role is ChatRole.TOOL:
            continue  # a result without its call
        text, images = _content(message, place)
        if role is ChatRole.SYSTEM:
            yield ClientMessage.from_system(text)
        elif role is ChatRole.USER:
            parts: list[TextContent | str | ImageContent] = [text] if text or not (images and vision) else []
            yield ClientMessage.from_user(content_parts=[*parts, *(images if vision else [])])
        else:
            calls = _tool_calls(message)
            results = _results(messages[index : index + len(calls)])
            if calls and set(results) == {call.id for call in calls}:
                yield ClientMessage.from_assistant(text or None, tool_calls=calls)
                for call in calls:
                    yield ClientMessage.from_tool(_content(results[call.id or ""], place)[0], origin=call)
                index += len(calls)
            else:
                yield ClientMessage.from_assistant(text)


def _role(message: Any, place: str) -> ChatRole:
    role = message.get("role") if isinstance(message, Mapping) else None
    if not isinstance(role, str) or role not in _ROLES:
        raise ApiError(400, "invalid_request", f"`{place}.role` must be one of {', '.join(_ROLES)}.")
    return _ROLES[role]


def _content(message: Mapping[str, Any], place: str) -> tuple[str, list[ImageContent]]:
    """Give the text of a message, and its images."""
    content = message.get("content")
    if content is None:
        return "", []
    if isinstance(content, str):
        return cleaned(content), []
    if not isinstance(content, list):
        raise ApiError(400, "invalid_request", f"`{place}.content` must be a text or a list of parts.")
    texts: list[str] = []
    images: list[ImageContent] = []
    for number, part in enumerate(content):
        inner = f"{place}.content.{number}"
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind in _TEXT_PARTS and isinstance(part.get(_TEXT_PARTS[kind]), str):
            texts.append(cleaned(part[_TEXT_PARTS[kind]]))
        elif kind in _IMAGE_PARTS:
            images.append(_image(part, inner))
        else:
            raise ApiError(400, "unsupported_content", f"`{inner}` is no part that is understood here: text or image.")
    return "\n".join(texts), images


def _image(part: Mapping[str, Any], place: str) -> ImageContent:
    """Take an image that is in the request; nothing is ever fetched for a client."""
    source = part.get("image_url")
    url = source.get("url") if isinstance(source, Mapping) else source
    found = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
    if not found:
        raise ApiError(400, "unsupported_image", f"`{place}`: send the image itself, as a base64 `data:image/…` URL.")
    data = re.sub(r"\s", "", found[2])
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(400, "unsupported_image", f"`{place}` is not valid base64.") from None
    return ImageContent(data, mime_type=found[1].lower(), validation=False)


def _tool_calls(message: Mapping[str, Any]) -> list[ToolCall]:
    calls = message.get("tool_calls")
    read = []
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(call.get("id"), str):
            return []
        try:
            arguments = cleaned_json(json.loads(function.get("arguments") or "{}"))
        except (TypeError, ValueError, RecursionError):
            return []
        if not isinstance(function.get("name"), str) or not isinstance(arguments, dict):
            return []
        read.append(ToolCall(cleaned(function["name"]), arguments, id=cleaned(call["id"])))
    return read


def _results(messages: Sequence[Any]) -> dict[str, Mapping[str, Any]]:
    return {
        cleaned(message["tool_call_id"]): message
        for message in messages
        if isinstance(message, Mapping)
        and message.get("role") == "tool"
        and isinstance(message.get("tool_call_id"), str)
    }
