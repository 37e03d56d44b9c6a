"""An ingestion worker beside the running instance of this machine, or against the servers that the settings name."""

from pathlib import Path

from contracts.settings import Settings
from hayrecall.local.data_folder import DataFolder
from hayrecall.local.environment import export_dotenv, load_served_settings
from hayrecall.local.instance import connected
from writer.ingest.process import run


def work(ports_file: Path | None) -> int:
    """
    Run a worker until SIGTERM or SIGINT.

    :param ports_file: Where to write `{"url": …}` of health and metrics.
    :returns: Exit code 0.
    :raises ConfigurationError: If settings or pipeline files are wrong, or an address is missing.
    """
    export_dotenv()
    settings = Settings.load()
    if DataFolder(settings.data_dir).running() is None:
        return run(load_served_settings("ingest-worker"), ports_file=ports_file)
    with connected(settings, []) as reached:
        return run(reached, ports_file=ports_file)
