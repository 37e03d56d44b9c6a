"""The manifest's ingestion, into the collection that is asked for."""

from dataclasses import replace

from contracts.errors import ConfigurationError
from contracts.manifest import Manifest, PipelineEntry
from contracts.settings import Settings

_COLLECTION = "vars.document_collection"


def ingest_entry(settings: Settings, collection: str | None = None) -> PipelineEntry:
    """
    Give the ingestion into a collection; a name that no assistant searches is a slip of the pen.

    :param settings: Name the manifest.
    :param collection: The collection; None for that of the manifest's `ingest`.
    :raises ConfigurationError: If the manifest is wrong, or no assistant searches the collection.
    """
    manifest = Manifest.load(settings)
    entry = manifest.run_by("ingest")
    if collection is None:
        return entry
    searched = {searching.values.get(_COLLECTION) for searching in (entry, *manifest.served().values())}
    if collection not in searched:
        names = ", ".join(sorted(str(name) for name in searched if name))
        msg = f"no assistant in {settings.manifest} searches the collection `{collection}`; there are: {names}"
        raise ConfigurationError(msg)
    return replace(entry, values={**entry.values, _COLLECTION: collection})
