"""Consistent copies of a data folder, for backup."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from hayrecall.local.engine.durability import sync_tree

_CHUNK_BYTES = 1024 * 1024
_NOT_COPIED = {".lock", ".snapshots"}


def copy_folder(root: Path, target: Path) -> None:
    """
    Copy a data folder that nobody writes to meanwhile; the copy serves as a data folder.

    Holes stay holes: a shard preallocates far more than it uses. The copy appears under its name when it is complete.

    :param root: Data folder, flushed.
    :param target: Where the copy goes; must not exist.
    :raises OSError: If the disk is full or fails; what was copied is removed then.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        shutil.copytree(
            root,
            draft,
            ignore=lambda folder, names: _NOT_COPIED & set(names) if Path(folder) == root else set(),
            copy_function=_copy_file,
        )
        sync_tree(draft)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def describe(copy: Path) -> dict[str, str | int]:
    """
    Describe a copy.

    :param copy: Its folder.
    :returns: Qdrant's `SnapshotDescription`; `size` is the space it takes on disk.
    """
    files = [path.stat() for path in copy.rglob("*") if path.is_file()]
    return {
        "name": copy.name,
        "creation_time": datetime.fromtimestamp(copy.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        "size": sum(file.st_blocks * 512 for file in files),
    }


def _copy_file(source: str, target: str) -> None:
    size = os.stat(source).st_size
    with open(source, "rb", buffering=0) as reading, open(target, "wb", buffering=0) as writing:
        writing.truncate(size)
        end = 0
        while end < size:
            try:
                start = os.lseek(reading.fileno(), end, os.SEEK_DATA)
            except OSError:
                break  # a hole up to the end
            end = os.lseek(reading.fileno(), start, os.SEEK_HOLE)
            writing.seek(start)
            reading.seek(start)
            while (left := end - reading.tell()) > 0:
                writing.write(reading.read(min(left, _CHUNK_BYTES)))


def remove(copy: Path) -> None:
    """
    Delete a copy.

    :param copy: Its folder.
    """
    shutil.rmtree(copy)
