"""A lock on a folder that holds as long as any process that inherited it is alive."""

import contextlib
import fcntl
import os
import time
from pathlib import Path

from hayrecall.local.failures import FolderInUseError

_POLL_SECONDS = 0.05


class FileLock:
    """
    `flock` on a file, whose descriptor children inherit: a killed parent's lock ends with its last child.

    So nobody starts a second server on files that the first one is still flushing.
    """

    def __init__(self, path: Path) -> None:
        """
        Remember the file.

        :param path: The lock file; made when needed, never deleted. It names the process that holds the lock.
        """
        self.path = path
        self._descriptor: int | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Give what a child must inherit to share the lock."""
        return () if self._descriptor is None else (self._descriptor,)

    def acquire(self, patience_seconds: float = 0) -> None:
        """
        Take the lock.

        :param patience_seconds: How long the children of a dead holder get to finish. A living holder is not awaited.
        :raises FolderInUseError: If somebody else has it.
        """
        if self._descriptor is not None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + patience_seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = self.holder()
                if _is_alive(holder) or time.monotonic() > deadline:
                    os.close(descriptor)
                    who = f"process {holder}" if holder else "another process"
                    message = f"{self.path.parent} is in use by {who}"
                    raise FolderInUseError(message) from None
                time.sleep(_POLL_SECONDS)
            else:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                self._descriptor = descriptor
                return

    def release(self) -> None:
        """Give the lock back; children that still run keep it until they end."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def is_held(self) -> bool:
        """Tell whether any process has the lock, without taking it for longer than an instant."""
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(descriptor)
        return False

    def holder(self) -> int | None:
        """Give the process id that the file names, dead or alive."""
        try:
            return int(self.path.read_text())
        except (FileNotFoundError, ValueError):
            return None


def _is_alive(process_id: int | None) -> bool:
    if process_id is None:
        return False
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
