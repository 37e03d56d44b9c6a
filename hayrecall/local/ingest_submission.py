"""The files of one `hayrecall ingest --queue`, from the disk to the end of their jobs."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

from components.document_ingestor import IngestOutcome
from components.for_each import for_each
from components.ingest_jobs import LARGEST_FILE_BYTES, IngestJobs
from contracts.errors import QueueUnavailableError
from contracts.ingest_queue import IngestJob, IngestResult, source_key
from hayrecall.local.console import Console
from hayrecall.local.document_files import source_of
from hayrecall.local.ingest_display import IngestDisplay

_FILES_AT_A_TIME = 4
_LOOK_EVERY_SECONDS = 0.5
_HINT_AFTER_SECONDS = 5.0


class IngestSubmission:
    """Hands files in, and follows their jobs; NATS may go away for a while meanwhile."""

    def __init__(self, jobs: IngestJobs, display: IngestDisplay, *, tenant: str) -> None:
        """
        Prepare.

        :param jobs: The queue.
        :param display: Is told of each file that is done.
        :param tenant: The tenant that the files belong to.
        """
        self.outcomes: dict[Path, IngestOutcome] = {}
        self.waiting: dict[Path, tuple[str, int]] = {}
        self._jobs = jobs
        self._display = display
        self._tenant = tenant
        self._results: dict[str, IngestResult] = {}
        self._all_in = asyncio.Event()

    async def hand_in(self, files: Sequence[Path], groups: Sequence[str], collection: str | None) -> None:
        """
        Make each file a job.

        :param files: The files.
        :param groups: Groups that may read them; none for everyone in the tenant.
        :param collection: Collection that takes them; None for the manifest's own.
        :raises QueueUnavailableError: If NATS does not answer.
        """

        async def hand_in_one(file: Path) -> None:
            await self._hand_in(file, groups, collection)

        await for_each(hand_in_one, files, at_a_time=_FILES_AT_A_TIME)
        self._all_in.set()

    async def follow(self, after: int) -> None:
        """
        Wait until every file is handed in and its job has ended.

        :param after: Revision of the results before the first job was handed in.
        """
        started, hinted = time.monotonic(), False
        while self.waiting or not self._all_in.is_set():
            with contextlib.suppress(QueueUnavailableError):  # the jobs are safe, and the connection is being restored
                results, after = await self._jobs.results(self._tenant, after=after)
                self._results |= results
                self._settle()
                if not hinted and time.monotonic() - started > _HINT_AFTER_SECONDS:
                    hinted = True
                    if not await self._jobs.has_workers():
                        Console().tell("no worker takes jobs; start one or more with `hayrecall ingest-worker`")
            await asyncio.sleep(_LOOK_EVERY_SECONDS)

    async def _hand_in(self, file: Path, groups: Sequence[str], collection: str | None) -> None:
        source = source_of(file)
        try:
            data = await asyncio.to_thread(_content, file, source)
        except OSError as error:
            self._finish(file, IngestOutcome(source, "skipped", reason=f"it cannot be read: {error.strerror}"))
            return
        except ValueError as error:
            self._finish(file, IngestOutcome(source, "skipped", reason=str(error)))
            return
        job = IngestJob(
            tenant_id=self._tenant,
            source=source,
            groups=tuple(sorted(set(groups))),
            collection=collection,
            content_sha256=hashlib.sha256(data).hexdigest(),
        )
        self.waiting[file] = (source_key(self._tenant, source), await self._jobs.submit(job, data))

    def _settle(self) -> None:
        for file, (key, sequence) in list(self.waiting.items()):
            result = self._results.get(key)
            if result is not None and result.sequence >= sequence:
                del self.waiting[file]
                self._finish(file, _outcome(source_of(file), result))

    def _finish(self, file: Path, outcome: IngestOutcome) -> None:
        self.outcomes[file] = outcome
        if outcome.status == "stored":
            self._display.advance(file, outcome.passages, outcome.passages)
        self._display.finish(file, outcome)


def _content(file: Path, source: str) -> bytes:
    if file.stat().st_size > LARGEST_FILE_BYTES:
        msg = f"it is larger than {LARGEST_FILE_BYTES // 2**20} MiB; ingest it without --queue"
        raise ValueError(msg)
    try:
        source.encode()
    except UnicodeEncodeError:
        msg = "its name is not valid Unicode"
        raise ValueError(msg) from None
    return file.read_bytes()


def _outcome(source: str, result: IngestResult) -> IngestOutcome:
    if result.status == "dead":
        return IngestOutcome(source, "skipped", reason=f"it was given up: {result.reason}")
    return IngestOutcome(source, result.status, result.passages, result.reason)
