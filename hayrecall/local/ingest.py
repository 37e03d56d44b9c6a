"""Take files into the index from the command line."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from components.document_ingestor import MIME_TYPES, DocumentIngestor, IngestOutcome
from components.ingest_progress import IngestProgress
from components.pipeline_file import load_pipeline
from contracts.errors import ConfigurationError
from contracts.manifest import Manifest, PipelineEntry
from contracts.settings import Settings
from hayrecall.local.console import Console
from hayrecall.local.ingest_display import IngestDisplay
from hayrecall.local.instance import connected

_FILES_AT_A_TIME = 2
_COLLECTION = "vars.document_collection"


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
    files = list(_files(paths))
    _entry(settings, collection)  # whatever is wrong is told before anything is started
    with connected(settings, ["qdrant", "embedder"]) as reached:
        outcomes = asyncio.run(_ingest_all(_entry(reached, collection), files, groups, tenant))
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
    _entry(settings, collection)
    with connected(settings, ["qdrant", "embedder"]) as reached:
        gone = asyncio.run(_remove_all(_entry(reached, collection), sources, tenant))
    console = Console()
    for source, passages in gone.items():
        console.tell(f"{source}: {passages} passages removed" if passages else f"{source}: there is no such document")
    return 0 if all(gone.values()) else 1


def source_of(path: Path) -> str:
    """
    Name a file, in the same way wherever the command is run from the same folder.

    :param path: The file.
    :returns: Its path from the current folder; for a file elsewhere the whole path.
    """
    whole = path.resolve()
    here = Path.cwd().resolve()
    return (whole.relative_to(here) if whole.is_relative_to(here) else whole).as_posix()


def _entry(settings: Settings, collection: str | None) -> PipelineEntry:
    """Give the ingestion into a collection; a name that no assistant searches is a slip of the pen."""
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


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    seen = set()
    for path in paths:
        if not path.exists():
            msg = f"there is no {path}"
            raise ConfigurationError(msg)
        found = [path] if path.is_file() else sorted(inner for inner in path.rglob("*") if _is_document(inner, path))
        if not found:
            msg = f"{path} holds no file of a type that can be read: {', '.join(MIME_TYPES)}"
            raise ConfigurationError(msg)
        for file in found:
            if (source := source_of(file)) not in seen:
                seen.add(source)
                yield file


def _is_document(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.is_file() and not hidden and path.suffix.lower() in MIME_TYPES


async def _ingest_all(
    entry: PipelineEntry, files: Sequence[Path], groups: Sequence[str], tenant: str
) -> list[IngestOutcome]:
    ingestor = DocumentIngestor(load_pipeline(entry))
    limit = asyncio.Semaphore(_FILES_AT_A_TIME)
    with IngestDisplay({file: file.stat().st_size for file in files}) as display:
        await ingestor.open()
        try:

            async def ingest_one(file: Path) -> IngestOutcome:
                async with limit:
                    return await _ingest_file(ingestor, file, display, groups, tenant)

            async with asyncio.TaskGroup() as tasks:
                started = [tasks.create_task(ingest_one(file)) for file in files]
            outcomes = [task.result() for task in started]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
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


async def _remove_all(entry: PipelineEntry, sources: Sequence[str], tenant: str) -> dict[str, int]:
    ingestor = DocumentIngestor(load_pipeline(entry))
    await ingestor.open()
    try:
        return {source: await ingestor.delete(tenant, source) for source in sources}
    finally:
        await ingestor.close()
