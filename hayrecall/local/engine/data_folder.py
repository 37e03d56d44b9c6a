"""The folder that holds the collections, and who may use it."""

import re
import shutil
import sys
from http import HTTPStatus
from pathlib import Path
from uuid import uuid4

from hayrecall.local.engine.collection import Collection
from hayrecall.local.engine.folder_lock import FolderLock
from hayrecall.local.engine.refusals import EngineError, refuse
from hayrecall.local.engine.schema import Schema

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_DELETED = ".deleted-"
_MIB = 1024 * 1024
LEAST_FREE_BYTES = 256 * _MIB


class DataFolder:
    """
    The collections of one folder, owned by one process.

    A collection whose shard cannot be loaded answers with its failure and keeps no other from working. A folder
    without a definition is what a crash left of a creation, and is removed.
    """

    def __init__(self, root: Path, *, least_free_bytes: int = LEAST_FREE_BYTES) -> None:
        """
        Remember the folder; nothing is opened here.

        :param root: Folder, made when needed.
        :param least_free_bytes: Space that must be free for a write that needs more. Edge writes into mapped files,
            and a process that writes to such a file on a full disk is killed.
        """
        self.root = root
        self.least_free_bytes = least_free_bytes
        self._lock = FolderLock(root / ".lock")
        self._collections: dict[str, Collection] = {}
        self._unloadable: dict[str, str] = {}

    def open(self) -> None:
        """
        Take the folder and load its collections.

        :raises FolderInUseError: If another process owns the folder.
        """
        self._lock.acquire()
        for folder in sorted(path for path in self.root.iterdir() if path.is_dir()):
            is_named = _NAME.fullmatch(folder.name) is not None
            if is_named and Collection.exists_in(folder):
                self._load(folder)
            elif is_named or folder.name.startswith(_DELETED):
                shutil.rmtree(folder)

    def close(self) -> None:
        """Flush and close the collections, then give the folder back."""
        for collection in self._collections.values():
            collection.close()
        self._collections.clear()
        self._lock.release()

    def flush(self) -> None:
        """Flush each collection that was written to."""
        for collection in self._collections.values():
            collection.flush()

    def optimize(self) -> None:
        """Rewrite each collection without what was deleted, and index it: minutes in which nothing else here runs."""
        for collection in self._collections.values():
            collection.optimize()

    @property
    def names(self) -> list[str]:
        """Names of the collections, the unloadable ones too."""
        return sorted([*self._collections, *self._unloadable])

    def collection(self, name: str) -> Collection:
        """
        Give a collection.

        :param name: Its name.
        :returns: The open collection.
        :raises EngineError: With 404 if there is none, 500 if it could not be loaded.
        """
        if name in self._unloadable:
            message = f"Service internal error: collection `{name}` cannot be loaded: {self._unloadable[name]}"
            raise EngineError(HTTPStatus.INTERNAL_SERVER_ERROR, message)
        if name not in self._collections:
            raise EngineError(HTTPStatus.NOT_FOUND, f"Not found: Collection `{name}` doesn't exist!")
        return self._collections[name]

    def create(self, name: str, schema: Schema) -> None:
        """
        Create a collection.

        :param name: Letters, digits, `_`, `-` and `.`.
        :param schema: What it will store.
        :raises EngineError: With 409 if it exists, 507 if the disk is full.
        """
        if not _NAME.fullmatch(name):
            refuse(f"collection name {name!r}: letters, digits, `_`, `-` and `.` are allowed, at most 128")
        if name in self.names:
            raise EngineError(HTTPStatus.CONFLICT, f"Wrong input: Collection `{name}` already exists!")
        self.require_space()
        folder = self.root / name
        try:
            self._collections[name] = Collection.create(folder, schema)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def delete(self, name: str) -> bool:
        """
        Delete a collection and its files.

        :param name: Its name.
        :returns: False if there is none.
        """
        if name not in self.names:
            return False
        collection = self._collections.pop(name, None)
        self._unloadable.pop(name, None)
        if collection is not None:
            collection.close()  # before its files move: closing flushes to where they were
        doomed = (self.root / name).rename(self.root / f"{_DELETED}{uuid4().hex}")
        shutil.rmtree(doomed, ignore_errors=True)
        return True

    def require_space(self) -> None:
        """
        Refuse to grow on a disk that is nearly full.

        :raises EngineError: With 507 and a sentence that says what to do.
        """
        free = shutil.disk_usage(self.root).free
        if free < self.least_free_bytes:
            message = (
                f"Service internal error: No space left on device: {free // _MIB} MiB are free where the data folder "
                f"is, {self.least_free_bytes // _MIB} MiB must be. Nothing was changed; free some space and try again."
            )
            raise EngineError(HTTPStatus.INSUFFICIENT_STORAGE, message)

    def _load(self, folder: Path) -> None:
        try:
            self._collections[folder.name] = Collection.load(folder)
        except (EngineError, OSError, ValueError) as failure:
            self._unloadable[folder.name] = str(failure)
            sys.stderr.write(f"collection {folder.name} cannot be loaded: {failure}\n")
