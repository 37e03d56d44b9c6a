"""One collection: a shard of Edge, what it stores, and how its writes get on disk."""

import shutil
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import qdrant_edge as edge
from qdrant_client.http import models

from hayrecall.local.engine import indexes
from hayrecall.local.engine.durability import GroupCommit, sync_tree
from hayrecall.local.engine.refusals import EngineError, edge_call
from hayrecall.local.engine.schema import Schema

_DEFINITION = "collection.json"
_SHARD = "shard"
_OLD_LOG = "wal.old"


class Collection:
    """A folder with a shard and, written last, the definition; only the event loop's thread may use it."""

    def __init__(self, folder: Path, shard: edge.EdgeShard, schema: Schema) -> None:
        """
        Hold an open shard; see `create` and `load`.

        :param folder: The collection's folder.
        :param shard: Open shard.
        :param schema: What it stores.
        """
        self.folder = folder
        self.schema = schema
        self.shard = shard
        self.disk = GroupCommit(folder / _SHARD / "wal")
        self._operations = 0
        self._has_unflushed = False
        self._failure: str | None = None

    @classmethod
    def create(cls, folder: Path, schema: Schema) -> Self:
        """
        Make a new, empty collection; it counts from the moment its definition is written.

        :param folder: Folder that does not exist.
        :param schema: What it will store.
        :returns: The open collection.
        :raises EngineError: If Edge refuses.
        """
        config = schema.edge_config()
        (folder / _SHARD).mkdir(parents=True)
        with edge_call():
            shard = edge.EdgeShard.create(str(folder / _SHARD), config)
            shard.flush()
        draft = folder / f"{_DEFINITION}.draft"
        draft.write_text(schema.request.model_dump_json(exclude_none=True), encoding="utf-8")
        sync_tree(folder)
        draft.replace(folder / _DEFINITION)
        return cls(folder, shard, schema)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """
        Open a collection that was created before.

        :param folder: Its folder.
        :returns: The open collection.
        :raises EngineError: If Edge cannot load it.
        """
        text = (folder / _DEFINITION).read_text(encoding="utf-8")
        schema = Schema(models.CreateCollection.model_validate_json(text))
        with edge_call():
            return cls(folder, edge.EdgeShard.load(str(folder / _SHARD)), schema)

    @staticmethod
    def exists_in(folder: Path) -> bool:
        """
        Tell whether a folder holds a collection that was created to the end.

        :param folder: Folder to look into.
        :returns: False for what a crash left of a creation.
        """
        return (folder / _DEFINITION).exists()

    def apply(self, operation: edge.UpdateOperation) -> int:
        """
        Write, so that every later read sees it; `disk.wait()` then puts it on disk.

        :param operation: Checked operation.
        :returns: Number of the operation.
        :raises EngineError: If a point does not exist, or Edge failed; after a panic the collection is closed.
        """
        if self._failure is not None:
            raise EngineError(HTTPStatus.INTERNAL_SERVER_ERROR, self._failure)
        self._has_unflushed = True
        try:
            with edge_call():
                self.shard.update(operation)
        except EngineError as failure:
            if failure.status == HTTPStatus.INTERNAL_SERVER_ERROR:
                self._failure = f"Service internal error: a write failed, restart the engine: {failure.message}"
            raise
        self._operations += 1
        return self._operations

    def flush(self) -> None:
        """Bring the shard's files up to date, so that the log is short and the next start quick."""
        if self._has_unflushed:
            with edge_call():
                self.shard.flush()
            self._has_unflushed = False

    def optimize(self) -> None:
        """
        Merge and index the segments without what was deleted, and begin a new log: the old one holds deleted texts.

        Edge holds Python's lock to the end, so never while serving.
        """
        with edge_call():
            self.shard.optimize()
            self.shard.flush()
            self.shard.close()
        log, old = self.folder / _SHARD / "wal", self.folder / _SHARD / _OLD_LOG
        sync_tree(self.folder)
        shutil.rmtree(old, ignore_errors=True)
        log.rename(old)
        with edge_call():
            self.shard = edge.EdgeShard.load(str(self.folder / _SHARD))
        self.disk = GroupCommit(log)
        self._has_unflushed = False
        shutil.rmtree(old, ignore_errors=True)

    def close(self) -> None:
        """Flush and release the files."""
        self.flush()
        with edge_call():
            self.shard.close()

    def info(self) -> dict[str, Any]:
        """
        Describe the collection.

        :returns: Qdrant's `CollectionInfo`.
        """
        with edge_call():
            shard = self.shard.info()
        return {
            "status": "green" if self._failure is None else "red",
            "optimizer_status": "ok",
            "indexed_vectors_count": shard.indexed_vectors_count,
            "points_count": shard.points_count,
            "segments_count": shard.segments_count,
            "config": self.schema.describe(),
            "payload_schema": indexes.describe(shard.payload_schema),
        }
