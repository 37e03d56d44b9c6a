"""OpenAI's embeddings API over the model: routes, request bodies, answers and errors in OpenAI's shape."""

import asyncio
import base64
import contextlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, Field, StrictStr, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hayrecall.local.bounded_body import read_body
from hayrecall.local.embedder.encoder import Encoder, Kind, Tokens, Vectors
from hayrecall.local.embedder.lanes import Lanes

MODEL = "multilingual-e5-small"
_LARGEST_BODY_BYTES = 16 * 1024 * 1024
_MOST_TEXTS = 2048
_HALF_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class EmbeddingRequest(BaseModel):
    """
    Body of a request for embeddings; fields that other backends know are accepted and have no effect.

    :param input: One text or several.
    :param model: `multilingual-e5-small`; `query` or `passage` in the name says what the texts are.
    :param encoding_format: Numbers, or base64 of little-endian 32-bit floats.
    :param dimensions: Length of the vectors, if given 384.
    :param input_type: `query` for what is searched with, `passage` (or `document`) for what is searched for.
    """

    input: StrictStr | Annotated[list[StrictStr], Field(min_length=1, max_length=_MOST_TEXTS)]
    model: str = MODEL
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    input_type: Literal["query", "passage", "document"] | None = None

    @property
    def texts(self) -> list[str]:
        """All texts."""
        return [self.input] if isinstance(self.input, str) else self.input

    @property
    def kind(self) -> Kind | None:
        """What the texts are; None when nothing says so: then they carry their prefix themselves."""
        said = self.input_type or self.model
        if said.endswith("query"):
            return "query"
        return "passage" if said.endswith(("passage", "document")) else None


class EmbeddingApi:
    """Answers OpenAI's embeddings API from one model."""

    def __init__(self, encoder: Encoder) -> None:
        """
        Serve a model.

        :param encoder: The model.
        """
        self._encoder = encoder
        self._lanes = Lanes(encoder)

    def app(self) -> Starlette:
        """
        Build the application.

        :returns: ASGI application.
        """
        return Starlette(
            routes=[
                Route("/healthz", self._health),
                Route("/v1/models", self._models),
                Route("/v1/embeddings", self._embed, methods=["POST"]),
            ],
            lifespan=self._running,
            exception_handlers={HTTPException: _refuse, ValidationError: _refuse_body},
        )

    @asynccontextmanager
    async def _running(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self._lanes.close()

    async def _health(self, _: Request) -> Response:
        return _respond({"status": "ok", "model": MODEL, "dimension": self._encoder.dimension})

    async def _models(self, _: Request) -> Response:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "hayrecall"}
        return _respond({"object": "list", "data": [model]})

    async def _embed(self, request: Request) -> Response:
        body = _parse(await _body(request))
        if MODEL not in body.model:
            raise HTTPException(HTTPStatus.NOT_FOUND, f"The model `{body.model}` does not exist; there is `{MODEL}`.")
        if body.dimensions not in {None, self._encoder.dimension}:
            message = f"`dimensions` must be {self._encoder.dimension}."
            raise HTTPException(HTTPStatus.BAD_REQUEST, message)
        tokens = await asyncio.to_thread(self._encoder.tokenize, body.texts, body.kind)
        vectors = await self._lanes.encode(tokens)
        return _respond(_answer(vectors, tokens, body.encoding_format))


def _answer(vectors: Vectors, tokens: Tokens, encoding_format: str) -> dict[str, Any]:
    stored = vectors.astype("<f4")
    if encoding_format == "base64":
        embeddings: list[Any] = [base64.b64encode(vector.tobytes()).decode() for vector in stored]
    else:
        embeddings = list(stored)
    return {
        "object": "list",
        "model": MODEL,
        "data": [
            {"object": "embedding", "index": index, "embedding": embedding}
            for index, embedding in enumerate(embeddings)
        ],
        "usage": {"prompt_tokens": tokens.total, "total_tokens": tokens.total},
    }


async def _body(request: Request) -> bytes:
    body = await read_body(request, largest_bytes=_LARGEST_BODY_BYTES)
    if body is None:
        message = f"The request is larger than {_LARGEST_BODY_BYTES} bytes."
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
    return body


def _parse(body: bytes) -> EmbeddingRequest:
    try:
        return EmbeddingRequest.model_validate_json(body)
    except ValidationError:
        if _HALF_SURROGATE.search(body) is None:
            raise
    # Half a surrogate pair is no character, but Python's clients send it; a refusal would keep a text from memory.
    with contextlib.suppress(ValueError):
        body = json.dumps(json.loads(body), ensure_ascii=False).encode("utf-8", "replace")
    return EmbeddingRequest.model_validate_json(body)


async def _refuse(_: Request, failure: Exception) -> Response:
    status = failure.status_code if isinstance(failure, HTTPException) else HTTPStatus.BAD_REQUEST
    message = failure.detail if isinstance(failure, HTTPException) else str(failure)
    code = "model_not_found" if message.startswith("The model") else None
    return _error(status, message, code)


async def _refuse_body(_: Request, failure: Exception) -> Response:
    errors = failure.errors(include_url=False) if isinstance(failure, ValidationError) else []
    message = "; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in errors[:3])
    return _error(HTTPStatus.BAD_REQUEST, message, None)


def _error(status: int, message: str, code: str | None) -> Response:
    return _respond({"error": {"message": message, "type": "invalid_request_error", "code": code}}, status)


def _respond(answer: Any, status: int = HTTPStatus.OK) -> Response:
    return Response(orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY), status, media_type="application/json")
