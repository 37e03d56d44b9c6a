"""Embed what people write into the memory API, unless it is longer than the embedder can see."""

from components.embedding_call import OpenAIEmbedder, embed
from components.token_counter import TekkenTokenCounter
from contracts.turn import Vector
from hayrecall.server.errors import ApiError
from hayrecall.server.services import Services

_COUNTER = TekkenTokenCounter()


async def embedded_query(services: Services, text: str) -> Vector:
    """
    Embed what is looked for.

    :raises ApiError: 422, if it is longer than the embedder's window.
    """
    return await _embedded(services, services.query_embedder, text)


async def embedded_memory(services: Services, text: str) -> Vector:
    """
    Embed the text of a memory.

    :raises ApiError: 422, if it is longer than the embedder's window.
    """
    return await _embedded(services, services.memory_embedder, text)


async def _embedded(services: Services, embedder: OpenAIEmbedder, text: str) -> Vector:
    window = services.settings.embedding_window_tokens
    length = _COUNTER.count_text(text)
    if length > window:
        message = f"The text has {length} tokens; the embedder takes {window}."
        raise ApiError(422, "text_too_long", message)
    (vector,) = await embed(embedder, [text], dimension=services.settings.embedding_dimension)
    return Vector(vector)
