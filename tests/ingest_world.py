"""Everything around ingestion workers: a queue of their own, the Qdrant engine, the scripted embedder."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from components.document_access import in_tenant
from components.document_index import DocumentIndex
from components.ingest_jobs import IngestJobs
from components.jetstream import JetStreamConnection
from contracts.ingest_queue import (
    INGEST_DEAD_STREAM,
    INGEST_FILES_BUCKET,
    INGEST_STREAM,
    IngestJob,
    IngestResult,
    ingest_consumer,
    ingest_streams,
    source_key,
)
from contracts.settings import Settings
from tests.scripted_model_server import ScriptedModelServer
from tests.writer_world import KEYS, QUICK, WriterChild, eventually
from writer.ingest.ingestors import Ingestors
from writer.ingest.job_handler import JobHandler
from writer.ingest.process import IngestWorkerProcess, run
from writer.streams import Delivery, Pulls


class IngestWorld:
    """Hands documents in, runs workers as processes, and looks at what became of the documents."""

    def __init__(self, model_server: ScriptedModelServer, nats_url: str, qdrant_url: str, folder: Path) -> None:
        self.model_server = model_server
        self.folder = folder
        self.tenant = f"tenant-{uuid.uuid4()}"
        self.connection = JetStreamConnection(nats_url, further_streams=ingest_streams())
        self.jobs = IngestJobs(self.connection)
        self.index = DocumentIndex(qdrant_url)
        self._addresses = {
            "nats_url": nats_url,
            "qdrant_url": qdrant_url,
            "embedding_base_url": model_server.url,
            "data_dir": folder / "data",
        }
        self._workers: list[WriterChild] = []

    async def open(self) -> None:
        assert await self.connection.open(patience_seconds=10)
        left_by_others = (
            (INGEST_STREAM, "ingest.job.>"),
            (INGEST_DEAD_STREAM, "ingest.dead.>"),
            (f"OBJ_{INGEST_FILES_BUCKET}", f"$O.{INGEST_FILES_BUCKET}.>"),  # the contents of such jobs
        )
        for stream, subject in left_by_others:
            await self.connection.purge(stream, subject)

    async def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        await self.connection.close()
        await self.index.close()

    def settings(self, **changes: Any) -> Settings:
        return Settings(_env_file=None, **self._addresses | QUICK | {"writer_ack_wait_seconds": 2} | changes)

    def spawn(self, **changes: Any) -> WriterChild:
        """Start a worker process."""
        log = self.folder / f"worker-{len(self._workers)}.log"
        worker = WriterChild(self.settings(**changes), KEYS, log, main=run)
        self._workers.append(worker)
        return worker

    async def workers(self, count: int, **changes: Any) -> list[WriterChild]:
        workers = [self.spawn(**changes) for _ in range(count)]
        for worker in workers:
            await worker.ready()
        return workers

    @asynccontextmanager
    async def worker(self, **changes: Any) -> AsyncIterator[str]:
        """Run a worker in this process; gives the address of its health and metrics."""
        ports_file = self.folder / "ports.json"
        process = IngestWorkerProcess(self.settings(ingest_port=0, **changes), ports_file)
        running = asyncio.create_task(process.run())

        async def ready() -> bool:
            return process.is_ready or running.done()

        try:
            await eventually(ready, seconds=60)
            yield json.loads(ports_file.read_text())["url"]
        finally:
            process.stop()
            await running

    @asynccontextmanager
    async def handler(self) -> AsyncIterator[tuple[JobHandler, Delivery]]:
        """A worker's handler without its process, and the next job for it."""
        ingestors = Ingestors(self.settings())
        ack_wait = timedelta(seconds=self.settings().writer_ack_wait_seconds)
        pulls = Pulls(self.connection, INGEST_STREAM, [ingest_consumer(ack_wait=ack_wait)])
        await pulls.open()
        try:
            delivery = await pulls.next(0)
            assert delivery is not None
            yield JobHandler(self.connection, ingestors), delivery
        finally:
            await pulls.close()
            await ingestors.close()

    async def submit(self, source: str, data: bytes, **changes: Any) -> int:
        digest = uuid.uuid5(uuid.NAMESPACE_OID, data.hex()).hex
        job = IngestJob(tenant_id=self.tenant, source=source, content_sha256=digest, **changes)
        return await self.jobs.submit(job, data)

    async def result(self, source: str, sequence: int, *, seconds: float = 30) -> IngestResult:
        """Wait for the end of a job."""

        async def ended() -> IngestResult | None:
            found, _ = await self.jobs.results(self.tenant, after=0)
            result = found.get(source_key(self.tenant, source))
            return result if result is not None and result.sequence >= sequence else None

        return await eventually(ended, seconds=seconds)

    async def passages(self) -> list[str]:
        found = await self.index.find(in_tenant(self.tenant))
        return [str(each.content) for each in sorted(found, key=lambda each: each.meta["position"])]

    async def nothing_left(self, *, seconds: float = 10) -> None:
        """Wait until neither jobs nor files lie on the queue."""

        async def empty() -> bool:
            files = await self.connection.stream_info(f"OBJ_{INGEST_FILES_BUCKET}")
            return await self.jobs.depth() == 0 and files["state"]["messages"] == 0

        await eventually(empty, seconds=seconds)
