"""`hayrecall serve` and `hayrecall writer` as children."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from contracts.errors import ConfigurationError
from hayrecall.local.child import Child

_REFUSED = 2  # exit code of a command whose configuration is wrong
_READY_LINE = re.compile(r"^ready(?: (http\S+))?$", re.MULTILINE)


class ApplicationPart(Child):
    """A command of ours that prints a line `ready` or `ready http://HOST:PORT`."""

    def __init__(
        self,
        name: str,
        command: str,
        *,
        log_file: Path,
        environment: Mapping[str, str],
        inherited_descriptors: Sequence[int] = (),
    ) -> None:
        """
        Describe the process.

        :param name: What people read.
        :param command: The command after `hayrecall`.
        :param log_file: Where its output goes.
        :param environment: Its settings.
        :param inherited_descriptors: File descriptors that stay open in it.
        """
        super().__init__(name, log_file, environment=environment, inherited_descriptors=inherited_descriptors)
        self.command = command

    def is_ready(self) -> bool:
        """
        Ask once whether it can be used.

        :raises ConfigurationError: If it refused its configuration.
        :raises PartFailedError: If it has ended for another reason.
        """
        if self.exit_code == _REFUSED:
            raise ConfigurationError(self.last_log_line().removeprefix("hayrecall: "))
        return super().is_ready()

    def _prepare(self) -> list[str]:
        return [sys.executable, "-m", "hayrecall", self.command]

    def _check_ready(self) -> bool:
        line = _READY_LINE.search(self.output())
        if line is None:
            return False
        if line.group(1):
            self.url = line.group(1)
            # With HAYRECALL_PORT=0, a restart must come back where clients have found it.
            self.environment["HAYRECALL_PORT"] = str(urlsplit(self.url).port)
        return True
