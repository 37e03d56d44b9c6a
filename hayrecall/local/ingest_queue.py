"""Hand files in to the queue from the command line, and show how far the workers are."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from components.ingest_jobs import IngestJobs
from contracts.errors import ConfigurationError
from contracts.ingest_entry import ingest_entry
from contracts.ingest_queue import ingest_streams
from contracts.settings import Settings
from hayrecall.local.console import Console
from hayrecall.local.data_folder import DataFolder
from hayrecall.local.document_files import document_files
from hayrecall.local.ingest_display import IngestDisplay
from hayrecall.local.ingest_submission import IngestSubmission
from hayrecall.local.instance import connected
from hayrecall.local.queue_connection import queue_connection


def submit(
    settings: Settings,
    paths: Sequence[Path],
    *,
    groups: Sequence[str],
    tenant: str,
    collection: str | None = None,
    wait: bool = True,
) -> int:
    """
    Hand in files and the files in folders as jobs; show progress until they have ended.

    :param settings: Settings as they were loaded.
    :param paths: Files and folders.
    :param groups: Groups that may read them; none for everyone in the tenant.
    :param tenant: The tenant that they belong to.
    :param collection: Collection that takes them; None for that of the manifest's `ingest`.
    :param wait: Return when the jobs have ended, not already when they are durable.
    :returns: Exit code: 0, or 1 if nothing at all could be read.
    :raises ConfigurationError: If a path is not there, or holds no file of a known type, if no assistant searches
        the collection, or if there is no queue.
    :raises QueueUnavailableError: If NATS does not answer; handing in again makes one job of each file.
    """
    files = document_files(paths)
    ingest_entry(settings, collection)
    with queue_settings(settings) as reached:
        some = asyncio.run(_submit_all(reached, files, groups, tenant, collection, wait=wait))
    return 0 if some else 1


@contextmanager
def queue_settings(settings: Settings) -> Iterator[Settings]:
    """
    Give settings with the addresses that lead to the queue: those that are set, or of the running `hayrecall up`.

    :param settings: Settings as they were loaded.
    :raises ConfigurationError: If neither is there: a queue of one command's own would end with it.
    """
    if DataFolder(settings.data_dir).running() is None and settings.nats_url is None:
        msg = "there is no queue: set HAYRECALL_NATS_URL, or start `hayrecall up` with the same HAYRECALL_DATA_DIR"
        raise ConfigurationError(msg)
    with connected(settings, ["nats"]) as reached:
        yield reached


async def _submit_all(
    settings: Settings,
    files: Sequence[Path],
    groups: Sequence[str],
    tenant: str,
    collection: str | None,
    *,
    wait: bool,
) -> bool:
    """Tell whether anything could be read, or may be read by workers later."""
    streams = ingest_streams(replicas=settings.nats_replicas)
    async with queue_connection(settings, further_streams=streams) as connection:
        jobs = IngestJobs(connection)
        with IngestDisplay({file: file.stat().st_size for file in files}) as display:
            submission = IngestSubmission(jobs, display, tenant=tenant)
            following = asyncio.create_task(submission.follow(await jobs.last_revision()))
            try:
                await submission.hand_in(files, groups, collection)
                if wait:
                    await following
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            outcomes = list(submission.outcomes.values())
            if wait:
                display.summarize(outcomes)
            else:
                Console().tell(f"{len(submission.waiting)} jobs on the queue, {len(outcomes)} files done")
    return bool(submission.waiting) or any(outcome.status != "skipped" for outcome in outcomes)
