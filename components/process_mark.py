"""Tell whether another process is still alive, without trusting process ids."""

import fcntl
import os
import uuid
from pathlib import Path


class ProcessMark:
    """
    A locked file that stands for this process for as long as it lives.

    The kernel gives the lock back however a process ends. Process ids cannot tell: they are used again, and containers
    that share a folder do not share them.
    """

    def __init__(self, directory: Path) -> None:
        """
        Make the mark.

        :param directory: Where the marks of all processes lie.
        """
        self._directory = directory
        self.name = uuid.uuid4().hex
        self._descriptor = os.open(self._path(self.name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def is_dead(self, name: str) -> bool:
        """
        Tell whether the process behind a mark has ended.

        :param name: A mark's name.
        """
        if name == self.name:
            return False
        try:
            descriptor = os.open(self._path(name), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    def forget(self, name: str) -> None:
        """
        Remove the mark of a dead process.

        :param name: The mark's name.
        """
        self._path(name).unlink(missing_ok=True)

    def release(self) -> None:
        """Remove the own mark: this process leaves nothing behind."""
        self.forget(self.name)
        os.close(self._descriptor)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.alive"
