"""`hayrecall ingest-worker`."""

from pathlib import Path
from typing import Annotated

import typer


def ingest_worker(
    ports_file: Annotated[
        Path | None, typer.Option(help="Write the address of health and metrics there; see HAYRECALL_INGEST_PORT.")
    ] = None,
) -> None:
    """
    Do the jobs that `hayrecall ingest --queue` hands in, until SIGTERM or Ctrl-C.

    Uses the running `hayrecall up` of HAYRECALL_DATA_DIR if there is one; else it needs HAYRECALL_NATS_URL,
    HAYRECALL_QDRANT_URL and HAYRECALL_EMBEDDING_BASE_URL. Prints `ready`. Any number may run at the same time, on any
    machines, with the same manifest; each works on HAYRECALL_INGEST_CONCURRENCY files at a time. What a worker had in
    hand when it died goes to another one after HAYRECALL_WRITER_ACK_WAIT_SECONDS.
    """
    from hayrecall.local.ingest_worker import work  # noqa: PLC0415

    raise SystemExit(work(ports_file))
