"""The `hayrecall` command: one module a command, each of which imports what it needs only when it runs."""

import os
import warnings

import typer

from hayrecall.cli import calibrate, check, deadletters, ingest, ingest_worker, keys, memories, serve, up, writer
from hayrecall.cli.sentences import Sentences

# Libraries report their use to their makers unless told otherwise, and read this when they are imported.
_TELEMETRY = ("HAYSTACK_TELEMETRY_ENABLED", "MEM0_TELEMETRY")

app = typer.Typer(
    name="hayrecall",
    help="Chat over an organization's documents that remembers people.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(up.up)
app.command()(serve.serve)
app.command()(writer.writer)
app.command()(check.check)
app.command()(ingest.ingest)
app.command()(ingest_worker.ingest_worker)
app.command()(calibrate.calibrate)
app.add_typer(keys.app, name="keys")
app.add_typer(deadletters.app, name="deadletters")
app.add_typer(memories.app, name="memories")


def main() -> None:
    """Run the command line."""
    for variable in _TELEMETRY:
        os.environ.setdefault(variable, "False")
    # Qdrant on loopback, or on a network of its own: the operator wrote http:// and knows.
    warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
    with Sentences():
        app()
