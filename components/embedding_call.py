"""Ask an embedder for vectors, with errors that say who is to blame."""

import math
import time
from collections.abc import Sequence

import openai
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder

from components.metrics import STAGE_SECONDS
from components.model_call import STAGE_HEADER
from components.tls import sharing_tls
from contracts.errors import (
    ConfigurationError,
    EmbedderUnavailableError,
    HayrecallError,
    RejectedRequestError,
    UnreadableModelOutputError,
)

OpenAIEmbedder = OpenAITextEmbedder | OpenAIDocumentEmbedder

_STAGE = "embed"
_REJECTED = {400, 413, 422}


async def open_embedder(embedder: OpenAIEmbedder) -> None:
    """
    Open the embedder's client on the serving event loop; does nothing when it is open.

    :param embedder: Haystack embedder for an OpenAI endpoint.
    """
    with sharing_tls(embedder):
        await embedder.warm_up_async()


async def embed(
    embedder: OpenAIEmbedder, texts: Sequence[str], *, dimension: int | None = None
) -> list[tuple[float, ...]]:
    """
    Embed several texts in one request.

    Which side of an asymmetric model a text is on says the embedder's own `prefix` ("query: " or "passage: " for the
    E5 family): every backend understands it, where `input_type` is known to a few only.

    :param embedder: Haystack embedder for an OpenAI endpoint; its settings bound time and retries.
    :param texts: Texts within the model's window, none of them blank; nothing is sent for no texts.
    :param dimension: Length that the vectors must have; None for any.
    :returns: One vector for each text, in their order.
    :raises EmbedderUnavailableError: On no connection, timeout, 429, 5xx, and on 401, 403 and 404.
    :raises RejectedRequestError: If the endpoint rejects this request, as for a text that is too long.
    :raises UnreadableModelOutputError: If the answer is not one vector of finite numbers for each text.
    :raises ConfigurationError: If the vectors have another length than `dimension`.
    """
    if not texts:
        return []
    await open_embedder(embedder)
    client = embedder.async_client
    if client is None:
        msg = "the embedder was closed while it was asked; this happens while the process stops"
        raise EmbedderUnavailableError(msg)
    started = time.perf_counter()
    try:
        # The client builds its typed answer number by number, which takes longer than all the rest of the call.
        response = await client.embeddings.with_raw_response.create(
            model=embedder.model,
            input=[_encodable(f"{embedder.prefix}{text}{embedder.suffix}") for text in texts],
            encoding_format="float",
            dimensions=openai.omit if embedder.dimensions is None else embedder.dimensions,
            extra_headers={STAGE_HEADER: _STAGE},
        )
        rows = sorted(response.http_response.json()["data"], key=lambda row: row["index"])
        vectors = [tuple(map(float, row["embedding"])) for row in rows]
    except openai.OpenAIError as error:
        raise _embedder_error(error) from error
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        # A 200 whose body is no list of embeddings: a proxy's HTML page, no data.
        msg = "the embedding endpoint answered with something that is no list of embeddings"
        raise UnreadableModelOutputError(msg) from error
    finally:
        STAGE_SECONDS.labels(stage=_STAGE).observe(time.perf_counter() - started)
    _check(vectors, len(texts), dimension)
    return vectors


def _encodable(text: str) -> str:
    """Replace what cannot travel as UTF-8 or ends a C string: lone surrogates and NUL."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")


def _check(vectors: list[tuple[float, ...]], count: int, dimension: int | None) -> None:
    if len(vectors) != count:
        msg = f"the embedding endpoint answered {count} texts with {len(vectors)} vectors"
        raise UnreadableModelOutputError(msg)
    if not all(vector and all(map(math.isfinite, vector)) and any(vector) for vector in vectors):
        msg = "the embedding endpoint answered with a vector that is empty, zero, or holds something not finite"
        raise UnreadableModelOutputError(msg)
    wrong = {len(vector) for vector in vectors} - {dimension}
    if dimension is not None and wrong:
        msg = (
            f"the embedding model's vectors have {wrong.pop()} numbers, and HAYRECALL_EMBEDDING_DIMENSION says "
            f"{dimension}; set it to what the model gives, and ingest again into new collections"
        )
        raise ConfigurationError(msg)


def _embedder_error(error: openai.OpenAIError) -> HayrecallError:
    """Translate a client's error; without the backend's own text, which may quote the user's."""
    if isinstance(error, openai.APITimeoutError):
        return EmbedderUnavailableError("the embedding endpoint did not answer in time")
    if isinstance(error, openai.APIConnectionError):
        return EmbedderUnavailableError("the embedding endpoint does not answer; check HAYRECALL_EMBEDDING_BASE_URL")
    if isinstance(error, openai.APIStatusError) and error.status_code in _REJECTED:
        return RejectedRequestError(f"the embedding endpoint rejected the request with {error.status_code}")
    status = error.status_code if isinstance(error, openai.APIStatusError) else type(error).__name__
    return EmbedderUnavailableError(f"the embedding endpoint answered {status}")
