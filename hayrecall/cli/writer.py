"""`hayrecall writer`."""

from pathlib import Path
from typing import Annotated

import typer


def writer(
    ports_file: Annotated[
        Path | None, typer.Option(help="Write the address of health and metrics there; see HAYRECALL_WRITER_PORT.")
    ] = None,
) -> None:
    """
    Run the memory writer only, against the NATS, Qdrant, embedder and models that the settings name.

    Needs HAYRECALL_NATS_URL and HAYRECALL_QDRANT_URL. Prints `ready`. Any number may run at the same time.
    """
    from hayrecall.local.environment import load_served_settings  # noqa: PLC0415

    settings = load_served_settings("writer")
    from writer.process import run  # noqa: PLC0415 - takes long, and is in vain when a setting is wrong

    raise SystemExit(run(settings, ports_file=ports_file))
