"""A model server that says what a test tells it to: OpenAI's chat and embedding API, over real HTTP, by stage."""

import asyncio
import hashlib
import json
import math
import re
import threading
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

DIMENSION = 384


@dataclass(frozen=True)
class Failure:
    """Answer with an HTTP error."""

    status: int
    message: str = "secret-of-the-backend"


@dataclass(frozen=True)
class Stream:
    """Stream these pieces, so many seconds apart; `cut` drops the connection after the last one."""

    pieces: tuple[str, ...]
    gap_seconds: float = 0.0
    cut: bool = False


Reply = str | dict[str, Any] | Failure | Stream | Callable[[dict[str, Any]], Any]


@dataclass
class Call:
    """One request that arrived."""

    stage: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    started_at: float = field(default_factory=time.monotonic)
    ended_at: float | None = None
    cancelled: bool = False

    @property
    def text(self) -> str:
        """Everything in the body, for searching canaries."""
        return json.dumps(self.body, ensure_ascii=False)


def embed(text: str) -> list[float]:
    """Embed a text as a normalised bag of hashed words: equal words are near, other words are not."""
    vector = [0.0] * DIMENSION
    for word in re.findall(r"\w+", re.sub(r"^(query|passage): ", "", text).lower()):
        digest = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest())
        vector[digest % DIMENSION] += 1.0
    norm = math.sqrt(sum(value * value for value in vector))
    if not norm:
        return [1.0, *vector[1:]]
    return [value / norm for value in vector]


DEFAULTS: dict[str, Reply] = {
    "gate": {"label": "normal"},
    "few_shot_guard": {"verdict": "accept", "reason": ""},
    "context_guard": {"verdict": "sufficient", "reason": "", "query": ""},
    "extract": {"facts": []},
    "reconcile": {"decisions": []},
    "condenser": "What is asked?",
    "answer": "This is the answer.",
    "task": "A title",
}


class ScriptedModelServer:
    """Runs in a thread of the test process, so that a test scripts and reads it directly while children call it."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self.reset()
        self._server: uvicorn.Server | None = None
        self.port = 0

    def reset(self) -> None:
        """Forget replies, latencies and the log."""
        self.log: list[Call] = []
        self.latency: dict[str, float] = defaultdict(float)  # seconds before the first byte, by stage
        self.defaults: dict[str, Reply] = dict(DEFAULTS)
        self._scripts: dict[str, deque[Reply]] = defaultdict(deque)

    @property
    def url(self) -> str:
        """The base address, with /v1."""
        return f"http://127.0.0.1:{self.port}/v1"

    def default(self, stage: str, reply: Reply) -> None:
        """Answer a stage with this whenever no scripted reply is left."""
        self.defaults[stage] = reply

    def script(self, stage: str, *replies: Reply) -> None:
        """Answer the next calls of a stage with these, one each."""
        self._scripts[stage].extend(replies)

    def calls(self, stage: str) -> list[Call]:
        """Give the calls of a stage so far."""
        return [call for call in self.log if call.stage == stage]

    def open_calls(self) -> list[Call]:
        """Give the calls that are neither answered nor cut."""
        return [call for call in self.log if call.ended_at is None]

    def start(self) -> "ScriptedModelServer":
        """Listen on a free loopback port."""
        routes = [
            Route("/v1/models", self._models),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/embeddings", self._embeddings, methods=["POST"]),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes, exception_handlers={ClientDisconnect: _gone}),
            host="127.0.0.1",
            port=self.port,
            log_level="error",
            ws="none",
            lifespan="off",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                msg = "the scripted model server did not start"
                raise RuntimeError(msg)
            time.sleep(0.005)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        return self

    def stop(self) -> None:
        """Close every connection and the port; `start` listens on the same port again."""
        if self._server:
            self._server.should_exit = self._server.force_exit = True
            self._thread.join(5)
            self._server = None

    async def _models(self, request: HttpRequest) -> Response:
        self.log.append(call := Call("models", request.url.path, dict(request.headers), {}))
        await asyncio.sleep(self.latency["models"])
        call.ended_at = time.monotonic()
        return JSONResponse({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    async def _read(self, request: HttpRequest, default_stage: str) -> tuple[Call, Any]:
        body = json.loads(await request.body())
        stage = request.headers.get("x-hayrecall-stage", default_stage)
        self.log.append(call := Call(stage, request.url.path, dict(request.headers), body))
        queued = self._scripts[stage]
        reply = queued.popleft() if queued else self.defaults.get(stage, "ok")
        await self._wait(call, request, self.latency[stage])
        while callable(reply):
            reply = reply(body)
        return call, reply

    @staticmethod
    async def _wait(call: Call, request: HttpRequest, seconds: float) -> None:
        """Wait as a model would; note when the caller hangs up meanwhile."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if await request.is_disconnected():
                call.cancelled, call.ended_at = True, time.monotonic()
                return
            await asyncio.sleep(min(left, 0.02))

    async def _embeddings(self, request: HttpRequest) -> Response:
        call, reply = await self._read(request, "embed")
        call.ended_at = time.monotonic()
        if isinstance(reply, Failure):
            return _failure(reply)
        texts = [call.body["input"]] if isinstance(call.body["input"], str) else call.body["input"]
        vectors = reply if isinstance(reply, list) else [embed(text) for text in texts]
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        return JSONResponse({"object": "list", "model": call.body.get("model"), "data": data, "usage": usage})

    async def _chat(self, request: HttpRequest) -> Response:
        call, reply = await self._read(request, "unnamed")
        if isinstance(reply, Failure):
            call.ended_at = time.monotonic()
            return _failure(reply)
        if isinstance(reply, dict):
            reply = json.dumps(reply, ensure_ascii=False)
        if call.body.get("stream"):
            pieces = reply if isinstance(reply, Stream) else Stream(tuple(re.findall(r"\s*\S+", reply) or [reply]))
            return StreamingResponse(self._stream(call, pieces), media_type="text/event-stream")
        if isinstance(reply, Stream):
            deadline = len(reply.pieces) * reply.gap_seconds
            await self._wait(call, request, deadline)
            reply = "".join(reply.pieces)
        call.ended_at = time.monotonic()
        message = {"role": "assistant", "content": reply}
        return JSONResponse(
            {
                "id": "chatcmpl-scripted",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": call.body.get("model", "scripted"),
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": _usage(reply),
            }
        )

    async def _stream(self, call: Call, stream: Stream) -> AsyncIterator[str]:
        def event(choices: list[dict[str, Any]], **more: Any) -> str:
            chunk = {
                "id": "chatcmpl-scripted",
                "object": "chat.completion.chunk",
                "created": int(time.time()),
                "model": call.body.get("model", "scripted"),
                "choices": choices,
            }
            return f"data: {json.dumps({**chunk, **more})}\n\n"

        try:
            for index, piece in enumerate(stream.pieces):
                if index and stream.gap_seconds:
                    await asyncio.sleep(stream.gap_seconds)
                delta = {"content": piece} if index else {"role": "assistant", "content": piece}
                yield event([{"index": 0, "delta": delta, "finish_reason": None}])
            if stream.cut:
                msg = "cut"
                raise ConnectionResetError(msg)
            yield event([{"index": 0, "delta": {}, "finish_reason": "stop"}])
            if (call.body.get("stream_options") or {}).get("include_usage"):
                yield event([], usage=_usage("".join(stream.pieces)))
            yield "data: [DONE]\n\n"
        except (asyncio.CancelledError, GeneratorExit):
            call.cancelled = True
            raise
        finally:
            call.ended_at = time.monotonic()


async def _gone(request: HttpRequest, error: Exception) -> Response:
    """End a request whose caller hung up while it was read; nobody sees the answer."""
    return Response(status_code=499)


def _usage(text: str) -> dict[str, int]:
    words = len(text.split())
    return {"prompt_tokens": 10, "completion_tokens": words, "total_tokens": 10 + words}


def _failure(failure: Failure) -> Response:
    error = {"message": failure.message, "type": "server_error", "code": None}
    return JSONResponse({"error": error}, status_code=failure.status)
