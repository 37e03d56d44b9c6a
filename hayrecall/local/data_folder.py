"""The folder of everything that is kept on this machine, which one process at a time works in."""

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hayrecall.local.failures import FolderInUseError, LocalError
from hayrecall.local.file_lock import FileLock

_TRANSFER_SECONDS = 30
_DISK_FAULTS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}


@dataclass(frozen=True)
class RunningInstance:
    """
    What run.json tells about a running `hayrecall up`.

    :param pid: Its process id.
    :param url: Where its server answers.
    :param environment: The `HAYRECALL_…` variables that lead to its parts, keys included.
    """

    pid: int
    url: str
    environment: Mapping[str, str]


class DataFolder:
    """`DATA_DIR`: stores, logs, the lock, the key of the first start, and run.json."""

    def __init__(self, path: Path) -> None:
        """
        Name the folder; nothing is made yet.

        :param path: The folder.
        """
        self.path = path.absolute()
        self.logs = self.path / "logs"
        self.ports = self.path / "ports"
        self.models = self.path / "models"
        self.api_key_file = self.path / "api_key"
        self.run_file = self.path / "run.json"
        self.lock = FileLock(self.path / "lock")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """
        Work alone in the folder for the time of a `with` block; children that inherit the lock prolong it.

        :raises FolderInUseError: If another process works in it.
        :raises LocalError: If it cannot be written to, now or later.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)  # stores and logs hold what users say
            self.lock.acquire(patience_seconds=_TRANSFER_SECONDS)
        except OSError as error:
            message = f"the data folder {self.path} cannot be used: {error.strerror}"
            raise LocalError(message) from error
        except FolderInUseError as error:
            running = self.running()
            where = f" (Hayrecall answers at {running.url})" if running else ""
            message = f"{error}{where}; stop it first, or set HAYRECALL_DATA_DIR to another folder"
            raise FolderInUseError(message) from None
        self.run_file.unlink(missing_ok=True)  # what a killed run left
        try:
            yield
        except OSError as error:
            if error.errno not in _DISK_FAULTS:
                raise
            message = f"{error.filename or self.path}: {error.strerror}"
            raise LocalError(message) from error
        finally:
            self.run_file.unlink(missing_ok=True)
            self.lock.release()

    def announce(self, instance: RunningInstance) -> None:
        """Write run.json, for the commands that work beside a running instance; only its owner may read it."""
        content = {"pid": instance.pid, "url": instance.url, "environment": dict(instance.environment)}
        write_private(self.run_file, json.dumps(content, indent=2) + "\n")

    def running(self) -> RunningInstance | None:
        """Give the instance that works in the folder now; None also for a run.json that a killed one left."""
        if not self.lock.is_held():
            return None
        try:
            content = json.loads(self.run_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return RunningInstance(content["pid"], content["url"], content["environment"])


def write_private(path: Path, text: str) -> None:
    """
    Write a file that only its owner may read, all or nothing.

    :param path: The file.
    :param text: Its content.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    draft.replace(path)
