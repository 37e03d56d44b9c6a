"""Writes that are on disk, not only in the kernel's memory."""

import asyncio
import os
from pathlib import Path


class GroupCommit:
    """
    Puts a shard's log on disk once for all writers that wait at that moment.

    Edge appends each write to the log before it applies it and replays the log at its next start, but leaves it to
    the kernel when the log reaches the disk: a crash of the process loses nothing, a power cut could. A synced log
    costs a fraction of a flush of the whole shard, and unlike the flush it does not hold Python's lock.
    """

    def __init__(self, log_folder: Path) -> None:
        """
        Remember the folder.

        :param log_folder: Folder of the shard's write-ahead log.
        """
        self._folder = log_folder
        self._known: set[str] = set()
        self._running: asyncio.Task[None] | None = None
        self._waiting: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """
        Wait until all that was written before this call is on disk.

        :raises OSError: If the disk fails.
        """
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._sync_after(self._running))
        await asyncio.shield(self._waiting)

    async def _sync_after(self, earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None:
            await asyncio.wait([earlier])
        # Who comes from here on may have written after the sync began, and waits for the next one.
        self._running, self._waiting = self._waiting, None
        await asyncio.to_thread(self._sync)

    def _sync(self) -> None:
        names = set(os.listdir(self._folder))
        for name in names:
            _sync_path(self._folder / name)
        if names != self._known:
            _sync_path(self._folder)
            self._known = names


def sync_tree(root: Path) -> None:
    """
    Put a folder and all in it on disk.

    :param root: The folder.
    """
    for folder, _, names in os.walk(root):
        for name in names:
            _sync_path(Path(folder, name))
        _sync_path(Path(folder))


def _sync_path(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return  # a part of the log that was no longer needed
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
