"""The ingest pipeline for each collection that jobs name."""

import asyncio

from components.document_ingestor import DocumentIngestor
from components.pipeline_file import load_pipeline
from contracts.errors import ConfigurationError, PayloadError
from contracts.ingest_entry import ingest_entry
from contracts.settings import Settings


class Ingestors:
    """Loads and opens the pipeline of a collection with the first job that names it."""

    def __init__(self, settings: Settings) -> None:
        """
        Load the pipeline of the manifest's own collection; nothing is opened here.

        :param settings: All settings.
        :raises ConfigurationError: If settings or pipeline files are wrong.
        """
        self._settings = settings
        self._default = DocumentIngestor(load_pipeline(ingest_entry(settings)))
        self._opened: dict[str | None, DocumentIngestor] = {}
        self._opening = asyncio.Lock()

    async def into(self, collection: str | None) -> DocumentIngestor:
        """
        Give what stores documents in a collection.

        :param collection: Its name; None for the manifest's own.
        :raises PayloadError: If no assistant of this worker's manifest searches it.
        :raises StoreUnavailableError: If Qdrant does not answer.
        """
        async with self._opening:
            if collection not in self._opened:
                ingestor = self._default if collection is None else self._load(collection)
                try:
                    await ingestor.open()
                except BaseException:
                    await ingestor.close()
                    raise
                self._opened[collection] = ingestor
            return self._opened[collection]

    async def close(self) -> None:
        """Close what was opened."""
        while self._opened:
            await self._opened.popitem()[1].close()

    def _load(self, collection: str) -> DocumentIngestor:
        try:
            return DocumentIngestor(load_pipeline(ingest_entry(self._settings, collection)))
        except ConfigurationError as error:
            raise PayloadError(str(error)) from error
