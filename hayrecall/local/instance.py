"""What commands beside a server use: the running instance of the data folder, or parts of their own for a while."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from contracts.settings import Settings
from hayrecall.local.console import Console
from hayrecall.local.data_folder import DataFolder
from hayrecall.local.local_stack import start_parts
from hayrecall.local.parts import PartName, parts_to_start
from hayrecall.local.supervisor import Supervisor

_STOP_SECONDS = 15


@contextmanager
def connected(settings: Settings, needed: Sequence[PartName]) -> Iterator[Settings]:
    """
    Give settings in which the addresses of the needed parts are set, for the time of a `with` block.

    A part whose address is set is used. For the others: those of the `hayrecall up` that runs in `DATA_DIR` if there
    is one, else they are started and stopped again at the end.

    :param settings: Settings as they were loaded.
    :param needed: The parts that the command uses.
    :returns: The settings to use; the environment holds the same, for the keys that pipelines read there.
    :raises ConfigurationError: If a part cannot be started because it is not installed.
    :raises LocalError: If a part cannot be started.
    """
    running = DataFolder(settings.data_dir).running()
    if running is not None:
        with _environment(running.environment):
            yield Settings.load()
        return
    names = parts_to_start(settings, needed)
    if not names:
        yield settings
        return
    console = Console()
    folder = DataFolder(settings.data_dir)
    supervisor = Supervisor(console.tell)
    with folder.locked():
        try:
            with _environment(start_parts(names, folder, supervisor, console)):
                yield Settings.load()
        finally:
            supervisor.stop(timeout_seconds=_STOP_SECONDS)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
