"""The answer to a chat request in OpenAI's shapes, with the run's outcome as one more field."""

import time
from collections.abc import Mapping
from typing import Any

from fastapi_openai_compat import ChatCompletion, Choice, Message  # type: ignore[import-untyped]

from hayrecall.server.citations import source_event
from hayrecall.server.ending import Ending
from hayrecall.server.errors import ApiError


class _Chunk(ChatCompletion):  # type: ignore[misc]
    """A chunk without the empty fields of other kinds of answers."""

    def model_dump_json(self, **_: Any) -> str:
        return str(super().model_dump_json(exclude_unset=True))


class _Done(ChatCompletion):  # type: ignore[misc]
    """Ends a stream: hayhooks writes `data: ` and what this gives."""

    def model_dump_json(self, **_: Any) -> str:
        return "[DONE]"


class ChatReply:
    """Makes the pieces of one answer; they share an id."""

    def __init__(self, run_id: str, model: str, *, with_usage: bool) -> None:
        """
        Name the answer.

        :param run_id: The run that it comes from.
        :param model: The model's served name.
        :param with_usage: Whether the client asked for token counts.
        """
        self._run_id = run_id
        self._with_usage = with_usage
        self._name = {"id": f"chatcmpl-{run_id}", "created": int(time.time()), "model": model}
        self._begun = False

    def delta(self, text: str) -> ChatCompletion:
        """Give a chunk with the next text; the first one says whose it is."""
        delta = Message.model_construct(_fields_set={"content"}, content=text)
        if not self._begun:
            self._begun = True
            delta = Message(role="assistant", content=text)
        return self._chunk([Choice(index=0, delta=delta, finish_reason=None)])

    def source(self, source: Mapping[str, Any]) -> ChatCompletion:
        """Give a chunk that shows Open WebUI a source; without choices, it does no harm to anybody else."""
        return self._chunk([], event=source_event(source))

    def finish(self, ending: Ending) -> ChatCompletion:
        """Give the chunk that tells why the text ends."""
        nothing = Message.model_construct(_fields_set=set())
        return self._chunk([Choice(index=0, delta=nothing, finish_reason=ending.finish_reason)])

    def closing(self, ending: Ending) -> ChatCompletion:
        """Give the last chunk before the end of the stream: what the run came to, and the usage if asked for."""
        usage = {"usage": ending.usage} if self._with_usage and ending.usage else {}
        return self._chunk([], hayrecall=ending.public(self._run_id), **usage)

    def failure(self, error: ApiError) -> ChatCompletion:
        """Give the chunk that tells of a failure after the first text; clients raise it as an API error."""
        return self._chunk([], **error.body())

    def done(self) -> ChatCompletion:
        """Give the end of the stream."""
        return _Done(object="chat.completion.chunk", choices=[], **self._name)

    def plain(self, text: str, ending: Ending) -> ChatCompletion:
        """Give the whole answer at once."""
        choice = Choice(index=0, message=Message(role="assistant", content=text), finish_reason=ending.finish_reason)
        return ChatCompletion(
            object="chat.completion",
            choices=[choice],
            usage=ending.usage,
            hayrecall=ending.public(self._run_id),
            **self._name,
        )

    def _chunk(self, choices: list[Choice], **more: Any) -> ChatCompletion:
        return _Chunk(object="chat.completion.chunk", choices=choices, **self._name, **more)
