"""The real parts that the benchmark runs against, and embeddings from them."""

import asyncio
import os
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from haystack.components.embedders import OpenAITextEmbedder
from haystack.utils import Secret

from components.embedding_call import embed
from contracts.settings import Settings
from contracts.turn import Agent, Locale, TurnContext, Vector
from hayrecall.local.instance import connected

BATCH = 32
AT_A_TIME = 4

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def parts() -> Iterator[Settings]:
    """Start the embedded engine and the embedder in a folder of their own, unless the settings name others."""
    warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")  # it is on loopback
    with TemporaryDirectory(prefix="hayrecall-quality-") as folder:
        os.environ |= {"HAYRECALL_DATA_DIR": folder, "HAYRECALL_EMBEDDING_API_KEY": "unused"}
        with connected(Settings(data_dir=Path(folder)), ["qdrant", "embedder"]) as settings:
            yield settings


def embedder(settings: Settings, prefix: str) -> OpenAITextEmbedder:
    return OpenAITextEmbedder(
        api_key=Secret.from_env_var("HAYRECALL_EMBEDDING_API_KEY"),
        model=settings.embedding_model,
        api_base_url=settings.embedding_base_url,
        prefix=prefix,
        timeout=300,
        max_retries=1,
    )


async def vectors(settings: Settings, prefix: str, texts: Sequence[str]) -> list[Vector]:
    """Embed texts, equal ones once."""
    client = embedder(settings, prefix)
    different = list(dict.fromkeys(texts))
    batches = [different[start : start + BATCH] for start in range(0, len(different), BATCH)]
    done = await each(batches, lambda batch: embed(client, batch))
    await client.close_async()
    known = {text: Vector(v) for b, found in zip(batches, done, strict=True) for text, v in zip(b, found, strict=True)}
    return [known[text] for text in texts]


async def each(items: Sequence[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
    """Do the same with all items, a few at a time."""
    limit = asyncio.Semaphore(AT_A_TIME)

    async def one(item: T) -> R:
        async with limit:
            return await work(item)

    return list(await asyncio.gather(*(one(item) for item in items)))


def turn(tenant: str, user: str | None = None, locale: Locale = "en") -> TurnContext:
    return TurnContext(
        tenant_id=tenant,
        user_id=user,
        run_id="quality",
        agent=Agent("quality"),
        locale=locale,
        said_at=datetime.now(UTC),
    )


def percent(hits: Sequence[float | bool]) -> float:
    return round(100 * sum(hits) / len(hits), 1)
