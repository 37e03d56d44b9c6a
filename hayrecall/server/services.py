"""What the routes and the served pipelines share: opened together, closed together."""

from dataclasses import dataclass
from typing import Self

from haystack.components.embedders import OpenAITextEmbedder
from haystack.utils import Secret

from components.memory_store import MemoryStore
from components.signed_links import SignedLinks, link_secret
from components.turn_queue import TurnQueue
from contracts.errors import ConfigurationError
from contracts.manifest import Manifest
from contracts.settings import Settings
from hayrecall.server.api_keys import ApiKeys
from hayrecall.server.half_turns import HalfTurns
from hayrecall.server.identity import Identities

_EMBEDDING_SECONDS = 10


@dataclass(frozen=True)
class Services:
    """The parts that the server itself talks to, beside those that its pipelines hold."""

    settings: Settings
    keys: ApiKeys
    identities: Identities
    queue: TurnQueue
    memories: MemoryStore
    query_embedder: OpenAITextEmbedder
    memory_embedder: OpenAITextEmbedder
    links: SignedLinks
    half_turns: HalfTurns

    @classmethod
    def build(cls, settings: Settings, manifest: Manifest) -> Self:
        """
        Make everything from the settings; nothing is opened.

        :param settings: Addresses and secrets.
        :param manifest: Tells what the embedder wants in front of queries and of what is stored.
        :raises ConfigurationError: If an address is missing.
        """
        if settings.nats_url is None or settings.qdrant_url is None or settings.api_keys_file is None:
            msg = "set HAYRECALL_NATS_URL and HAYRECALL_QDRANT_URL, or use `hayrecall up`"
            raise ConfigurationError(msg)
        secret = settings.link_secret.get_secret_value() if settings.link_secret else None
        qdrant_key = settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None
        queue = TurnQueue(settings.nats_url, data_dir=str(settings.data_dir), replicas=settings.nats_replicas)
        return cls(
            settings=settings,
            keys=ApiKeys(settings.api_keys_file),
            identities=Identities(settings.openwebui_jwt_secret),
            queue=queue,
            memories=MemoryStore(
                settings.qdrant_url,
                api_key=Secret.from_token(qdrant_key) if qdrant_key else None,
                dimension=settings.embedding_dimension,
            ),
            query_embedder=_embedder(settings, _shared(manifest, "embedding_query_prefix")),
            memory_embedder=_embedder(settings, _shared(manifest, "embedding_passage_prefix")),
            links=SignedLinks(link_secret(secret, settings.data_dir)),
            half_turns=HalfTurns(queue),
        )

    async def open_queue(self) -> None:
        """Connect to NATS; when it is down, turns wait on the disk."""
        await self.queue.open()

    async def close(self) -> None:
        """Store what broken-off requests left, then close."""
        await self.half_turns.settled()
        await self.queue.close()
        await self.memories.close()
        await self.query_embedder.close_async()
        await self.memory_embedder.close_async()


def _shared(manifest: Manifest, name: str) -> str:
    """Give a text that all pipelines share."""
    return str(next(iter(manifest.entries.values())).values.get(f"vars.{name}", ""))


def _embedder(settings: Settings, prefix: str) -> OpenAITextEmbedder:
    return OpenAITextEmbedder(
        api_key=Secret.from_env_var("HAYRECALL_EMBEDDING_API_KEY", strict=False),
        api_base_url=settings.embedding_base_url,
        model=settings.embedding_model,
        prefix=prefix,
        timeout=_EMBEDDING_SECONDS,
        max_retries=1,
    )
