"""
One owner for a data folder.

Not `hayrecall.local.file_lock`: its errors are Haystack's, whose import would double the engine's start and memory.
"""

import fcntl
import os
from pathlib import Path


class FolderInUseError(Exception):
    """Another process serves the folder; the message names it."""


class FolderLock:
    """A lock that the kernel takes back when its process ends, however that comes."""

    def __init__(self, path: Path) -> None:
        """
        Remember the file.

        :param path: Lock file; made when needed, holds the owner's process id.
        """
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """
        Take the lock.

        :raises FolderInUseError: If another process has it.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode().strip()
            os.close(descriptor)
            message = f"{self._path.parent} is in use by process {owner}"
            raise FolderInUseError(message) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
