"""Take files into the index from the command line."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from components.document_ingestor import DocumentIngestor, IngestOutcome
from components.for_each import for_each
from components.ingest_progress import IngestProgress
from components.pipeline_file import load_pipeline
from contracts.ingest_entry import ingest_entry
from contracts.settings import Settings
from hayrecall.local.console import Console
from hayrecall.local.document_files import document_files, source_of
from hayrecall.local.ingest_display import IngestDisplay
from hayrecall.local.instance import connected


def ingest(
    settings: Settings, paths: Sequence[Path], *, groups: Sequence[str], tenant: str, collection: str | None = None
) -> int:
    """
    Store files and the files in folders; tell what became of each that was not stored.

    :param settings: Settings as they were loaded.
    :param paths: Files and folders.
    :param groups: Groups that may read them; none for everyone in the tenant.
    :param tenant: The tenant that they belong to.
    :param collection: Collection that takes them; None for that of the manifest's `ingest`.
    :returns: Exit code: 0, or 1 if nothing at all could be read.
    :raises ConfigurationError: If a path is not there, or holds no file of a known type, or if no assistant searches
        the collection.
    :raises HayrecallError: If a part that is needed does not answer; the next run goes on where this one stopped.
    """
    files = document_files(paths)
    ingest_entry(settings, collection)  # whatever is wrong is told before anything is started
    with connected(settings, ["qdrant", "embedder"]) as reached:
        outcomes = asyncio.run(_ingest_all(reached, collection, files, groups, tenant))
    return 0 if any(outcome.status != "skipped" for outcome in outcomes) else 1


def remove(settings: Settings, sources: Sequence[str], *, tenant: str, collection: str | None = None) -> int:
    """
    Delete documents by their sources.

    :param settings: Settings as they were loaded.
    :param sources: Sources as they were stored.
    :param tenant: The tenant that they belong to.
    :param collection: Collection that holds them; None for that of the manifest's `ingest`.
    :returns: Exit code: 0, or 1 if one of them is not there.
    """
    ingest_entry(settings, collection)
    with connected(settings, ["qdrant", "embedder"]) as reached:
        gone = asyncio.run(_remove_all(reached, collection, sources, tenant))
    console = Console()
    for source, passages in gone.items():
        console.tell(f"{source}: {passages} passages removed" if passages else f"{source}: there is no such document")
    return 0 if all(gone.values()) else 1


async def _ingest_all(
    settings: Settings, collection: str | None, files: Sequence[Path], groups: Sequence[str], tenant: str
) -> list[IngestOutcome]:
    ingestor = DocumentIngestor(load_pipeline(ingest_entry(settings, collection)))
    with IngestDisplay({file: file.stat().st_size for file in files}) as display:
        await ingestor.open()
        try:

            async def ingest_one(file: Path) -> IngestOutcome:
                return await _ingest_file(ingestor, file, display, groups, tenant)

            outcomes = await for_each(ingest_one, files, at_a_time=settings.ingest_concurrency)
        finally:
            await ingestor.close()
        display.summarize(outcomes)
    return outcomes


async def _ingest_file(
    ingestor: DocumentIngestor, file: Path, display: IngestDisplay, groups: Sequence[str], tenant: str
) -> IngestOutcome:
    source = source_of(file)
    try:
        data = await asyncio.to_thread(file.read_bytes)
    except OSError as error:
        outcome = IngestOutcome(source, "skipped", reason=f"it cannot be read: {error.strerror}")
    else:
        progress = IngestProgress(lambda done, passages: display.advance(file, done, passages))
        outcome = await ingestor.ingest(data, source, tenant_id=tenant, groups=groups, progress=progress)
    display.finish(file, outcome)
    return outcome


async def _remove_all(
    settings: Settings, collection: str | None, sources: Sequence[str], tenant: str
) -> dict[str, int]:
    ingestor = DocumentIngestor(load_pipeline(ingest_entry(settings, collection)))
    await ingestor.open()
    try:
        return {source: await ingestor.delete(tenant, source) for source in sources}
    finally:
        await ingestor.close()
