"""`hayrecall ingest`."""

from typing import Annotated

import typer


def ingest(
    paths: Annotated[list[str], typer.Argument(metavar="PATH…", help="Files and folders; with --remove: sources.")],
    *,
    group: Annotated[list[str] | None, typer.Option(help="Group that may read them; several if repeated.")] = None,
    tenant: Annotated[str, typer.Option(help="Tenant that they belong to.")] = "default",
    collection: Annotated[
        str | None, typer.Option(help="Collection that an assistant searches; default: the one of `ingest`.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Delete these documents instead.")] = False,
    queue: Annotated[
        bool, typer.Option("--queue", help="Leave the work to `hayrecall ingest-worker`, on this or other machines.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="With --queue: follow the jobs to their end, or return at once.")
    ] = True,
) -> None:
    """
    Store documents (txt, md, html, pdf, docx, csv, json), so that questions about them can be answered.

    Without --collection they go where the manifest's `ingest` says; an assistant with its own documents has another.
    Without --group everyone in the tenant may read them. What is stored already is left as it is, a changed file
    replaces its old version, and a run that was broken off goes on where it stopped. Uses the running instance of
    HAYRECALL_DATA_DIR if there is one.

    With --queue each file becomes a job on NATS that any number of workers share; the same file twice is one job, and
    of several versions of a file the last one handed in counts. Ending the command does not end the jobs.
    """
    from pathlib import Path  # noqa: PLC0415

    from hayrecall.local.environment import export_dotenv  # noqa: PLC0415

    export_dotenv()
    from contracts.settings import Settings  # noqa: PLC0415
    from hayrecall.local import ingest as command  # noqa: PLC0415
    from hayrecall.local import ingest_queue  # noqa: PLC0415

    if queue and remove:
        msg = "--remove does its work at once: leave out --queue"
        raise typer.BadParameter(msg)
    settings = Settings.load()
    if remove:
        raise SystemExit(command.remove(settings, paths, tenant=tenant, collection=collection))
    files = [Path(path) for path in paths]
    if queue:
        raise SystemExit(
            ingest_queue.submit(settings, files, groups=group or [], tenant=tenant, collection=collection, wait=wait)
        )
    raise SystemExit(command.ingest(settings, files, groups=group or [], tenant=tenant, collection=collection))
