"""A chat request as clients send it, read into what a pipeline takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from haystack.dataclasses import ChatMessage, ChatRole

from hayrecall.server.chat_messages import read_messages
from hayrecall.server.errors import ApiError
from hayrecall.server.text import cleaned, cleaned_json

# What is handed on to the model that answers: name, type, least and greatest value.
_NUMBERS: dict[str, tuple[type, float, float]] = {
    "temperature": (float, 0, 2),
    "top_p": (float, 0, 1),
    "presence_penalty": (float, -2, 2),
    "frequency_penalty": (float, -2, 2),
    "max_tokens": (int, 1, 2**31),
    "max_completion_tokens": (int, 1, 2**31),
    "seed": (int, -(2**63), 2**63 - 1),
}
_MOST_STOPS = 4


@dataclass(frozen=True)
class ChatRequest:
    """
    What a client asks for.

    `generation_kwargs` are the sampling settings for the answer; `usage` tells whether token counts were asked for.
    """

    messages: list[ChatMessage]
    stream: bool = False
    usage: bool = False
    generation_kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def last_text(self) -> str:
        """The text of the last user turn."""
        return next("\n".join(m.texts) for m in reversed(self.messages) if m.is_from(ChatRole.USER))

    @classmethod
    def read(cls, body: Mapping[str, Any], *, vision: bool) -> "ChatRequest":
        """
        Read a request; fields that mean nothing here (`tools`, `logprobs`, a client's own) are passed over.

        :param body: The JSON body, as a mapping.
        :param vision: Whether the answer model takes images; they are dropped otherwise.
        :raises ApiError: 400, if something in it cannot be honoured.
        """
        answers = body.get("n")
        if answers is not None and (isinstance(answers, bool) or answers != 1):
            raise ApiError(400, "unsupported_n", "`n`: there is one answer to a request.")
        stream = bool(body.get("stream"))
        options = body.get("stream_options") or {}
        usage = not stream or (isinstance(options, Mapping) and options.get("include_usage") is True)
        messages = read_messages(body["messages"], vision=vision)
        return cls(messages, stream=stream, usage=usage, generation_kwargs=_generation_kwargs(body))


def _generation_kwargs(body: Mapping[str, Any]) -> dict[str, Any]:
    kwargs: dict[str, Any] = {}
    for name, (kind, least, most) in _NUMBERS.items():
        value = body.get(name)
        if value is None:
            continue
        wrong = isinstance(value, bool) or not isinstance(value, int if kind is int else int | float)
        if wrong or not least <= value <= most:
            wanted = "a whole number" if kind is int else "a number"
            raise ApiError(400, "invalid_request", f"`{name}` must be {wanted} from {least} to {most}.")
        kwargs[name] = value
    if "max_completion_tokens" in kwargs:
        kwargs.pop("max_tokens", None)
    if body.get("stop") is not None:
        kwargs["stop"] = _stops(body["stop"])
    if isinstance(body.get("response_format"), Mapping):
        try:
            kwargs["response_format"] = cleaned_json(body["response_format"])
        except ValueError as error:
            raise ApiError(400, "invalid_request", f"`response_format`: {error}.") from None
    return kwargs


def _stops(value: Any) -> list[str]:
    stops = [value] if isinstance(value, str) else value
    if isinstance(stops, list) and all(isinstance(stop, str) for stop in stops):
        stops = [cleaned(stop) for stop in stops]
    if not isinstance(stops, list) or len(stops) > _MOST_STOPS or not all(isinstance(s, str) and s for s in stops):
        raise ApiError(400, "invalid_request", f"`stop` must be a text, or a list of up to {_MOST_STOPS} texts.")
    return stops
