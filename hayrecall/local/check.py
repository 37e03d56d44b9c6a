"""What a start would refuse, said without starting."""

from components.pipeline_file import load_pipeline
from contracts.manifest import Manifest
from contracts.settings import Settings
from hayrecall.local.parts import PARTS

_ANY_ADDRESS = "http://127.0.0.1"


def check() -> int:
    """
    Check settings, manifest and every pipeline file, and print what is served.

    :returns: Exit code 0.
    :raises ConfigurationError: If anything is wrong; the message names file, line and what to change.
    """
    settings = Settings.load()
    # `up` fills in what is not set; to find out whether a pipeline is sound, any address will do.
    unset = {part.setting: _ANY_ADDRESS for part in PARTS.values() if getattr(settings, part.setting) is None}
    settings = settings.model_copy(update=unset)
    manifest = Manifest.load(settings)
    manifest.run_by("writer")  # without one, no writer starts
    for entry in manifest.entries.values():
        load_pipeline(entry)
    print(f"{settings.manifest}: all {len(manifest.entries)} pipelines are valid")  # noqa: T201 - what the command is for
    for name, entry in manifest.served().items():
        print(f"  {name}: {entry.file}")  # noqa: T201
    return 0
