"""Serves one pipeline of the manifest as an OpenAI model."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

from fastapi_openai_compat import ChatCompletion  # type: ignore[import-untyped]
from hayhooks import BasePipelineWrapper
from haystack.core.errors import PipelineRuntimeError

from components.language import detect_locale
from components.pipeline_file import LoadedPipeline
from contracts.errors import ConfigurationError
from contracts.manifest import PipelineEntry
from contracts.turn import TurnContext
from hayrecall.server.chat_reply import ChatReply
from hayrecall.server.chat_request import ChatRequest
from hayrecall.server.chat_run import ChatRun
from hayrecall.server.citations import is_open_webui
from hayrecall.server.client_hints import client_locale, client_thread, client_time_zone
from hayrecall.server.errors import ApiError, described
from hayrecall.server.request_context import RequestContext, current_request
from hayrecall.server.run_watch import RunWatch
from hayrecall.server.services import Services

_TASK_HEADER = "X-OpenWebUI-Task"


@dataclass(frozen=True)
class ServedPipeline:
    """A pipeline of the manifest, loaded, and what the server offers it."""

    entry: PipelineEntry
    loaded: LoadedPipeline
    services: Services
    tasks: LoadedPipeline | None = None  # what answers a client's background tasks


class ChatPipelineWrapper(BasePipelineWrapper):  # type: ignore[misc]
    """
    Runs its pipeline for each chat request, streamed or plain.

    `pipelines/<name>/pipeline_wrapper.py` subclasses it; what a subclass may change is the HTTP shape, never the turn.
    """

    skip_mcp = True
    skip_a2a = True

    def __init__(self, served: ServedPipeline | None = None) -> None:
        """
        Keep what is served.

        :param served: The loaded pipeline; stock hayhooks gives none.
        """
        super().__init__()
        self.served = served

    def setup(self) -> None:
        """
        Show hayhooks the pipeline.

        :raises ConfigurationError: Under stock hayhooks, which asks nobody for a key.
        """
        if self.served is None:
            msg = "this pipeline needs API keys, a queue and a memory; start it with `hayrecall serve`"
            raise ConfigurationError(msg)
        self.pipeline = self.served.loaded.pipeline

    async def run_chat_completion_async(
        self,
        model: str,
        messages: list[dict[str, Any]],  # noqa: ARG002 - hayhooks fixes the signature; the body holds them too
        body: dict[str, Any],
    ) -> ChatCompletion | AsyncGenerator[ChatCompletion, None]:
        """Answer a chat request; what fails before the first text has its own HTTP status."""
        served = self._served
        request = current_request()
        asked = await asyncio.to_thread(ChatRequest.read, body, vision=served.entry.vision)  # may take a second
        turn = await self._turn(request, asked, body)
        run = ChatRun(self._pipeline(request), turn, usage=asked.usage)
        watch = RunWatch(run, served.services.half_turns)
        request.at_end.append(watch.end)
        reply = ChatReply(turn.run_id, model, with_usage=asked.usage)
        texts = run.texts(asked.messages, asked.generation_kwargs)
        try:
            first = await anext(texts, "")
            await served.services.queue.intent_written(turn.run_id)
            watch.speaks()
            if asked.stream:
                return self._streamed(reply, watch, texts, first, events=is_open_webui(request.headers))
            text = first + "".join([piece async for piece in texts])
        except PipelineRuntimeError as error:
            watch.failed(error)
            raise described(error) from error
        return reply.plain(text, run.ending)

    @property
    def _served(self) -> ServedPipeline:
        if self.served is None:
            raise LookupError
        return self.served

    async def _turn(self, request: RequestContext, asked: ChatRequest, body: dict[str, Any]) -> TurnContext:
        served, headers = self._served, request.headers
        who = served.services.identities.identify(request.key, headers, body.get("user"))
        learning = True
        if who.user_id is not None:
            learning = (await served.services.queue.user_state(who.tenant_id, who.user_id)).learning
        zone = client_time_zone(headers)
        thread_id, message_id = client_thread(headers, body)
        return TurnContext(
            tenant_id=who.tenant_id,
            user_id=who.user_id,
            groups=who.groups,
            run_id=str(uuid4()),
            thread_id=thread_id,
            message_id=message_id or str(uuid4()),
            agent=served.entry.agent,
            locale=detect_locale(asked.last_text, client_locale(headers) or served.entry.locale),
            said_at=datetime.now(ZoneInfo(zone) if zone else UTC),
            time_zone=zone or "UTC",
            learning=learning,
        )

    def _pipeline(self, request: RequestContext) -> LoadedPipeline:
        """Give the pipeline that runs: a client's background task never retrieves, and never remembers."""
        if not request.headers.get(_TASK_HEADER, "").strip():
            return self._served.loaded
        if self._served.tasks is None:
            raise ApiError(400, "no_task_model", "The manifest serves no `tasks` that could do a background task.")
        return self._served.tasks

    @staticmethod
    async def _streamed(
        reply: ChatReply, watch: RunWatch, texts: AsyncGenerator[str, None], first: str, *, events: bool
    ) -> AsyncGenerator[ChatCompletion, None]:
        try:
            yield reply.delta(first)
            async for text in texts:
                yield reply.delta(text)
        except PipelineRuntimeError as error:
            watch.failed(error)
            yield reply.failure(described(error))
        else:
            for source in watch.run.ending.sources if events else ():
                yield reply.source(source)
            yield reply.finish(watch.run.ending)
            yield reply.closing(watch.run.ending)
        yield reply.done()
