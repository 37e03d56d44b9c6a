"""A part of ours that runs as `python -m …` and tells where it listens in a ports file."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from hayrecall.local.child import Child


class PythonPart(Child):
    """
    A module that takes `--port` and `--ports-file` and writes `{"url": …, "pid": …}` there when it answers requests.

    A restart listens at the same address, which others have been told.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        *,
        ports_file: Path,
        log_file: Path,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
        inherited_descriptors: Sequence[int] = (),
    ) -> None:
        """
        Describe the part.

        :param name: What people read.
        :param module: Module to run.
        :param arguments: Its arguments beside the two above.
        :param ports_file: Where it tells its address; what a killed run left there is deleted at the start.
        :param log_file: Where its output goes.
        :param port: Port to listen on; 0 = any free one.
        :param environment: Variables beside our own ones; secrets belong here, as anybody can read command lines.
        :param inherited_descriptors: File descriptors that stay open in it.
        """
        super().__init__(name, log_file, environment=environment, inherited_descriptors=inherited_descriptors)
        self.module = module
        self.arguments = list(arguments)
        self.ports_file = ports_file
        self.port = port
        self.announcement: dict[str, object] = {}

    def _prepare(self) -> list[str]:
        self.ports_file.parent.mkdir(parents=True, exist_ok=True)
        self.ports_file.unlink(missing_ok=True)
        place = ["--port", str(self.port), "--ports-file", str(self.ports_file)]
        return [sys.executable, "-m", self.module, *self.arguments, *place]

    def _check_ready(self) -> bool:
        try:
            announcement: dict[str, object] = json.loads(self.ports_file.read_text())
        except (FileNotFoundError, ValueError):
            return False
        self.announcement = announcement
        self.url = str(announcement["url"])
        self.port = urlsplit(self.url).port or 0
        return True
