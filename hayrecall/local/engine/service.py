"""The engine as its HTTP side sees it: reads at once, writes in turn, both durable and held for a copy."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4

from qdrant_client.http import models

from hayrecall.local.engine import indexes, snapshots
from hayrecall.local.engine.data_folder import DataFolder
from hayrecall.local.engine.refusals import EngineError
from hayrecall.local.engine.schema import Schema
from hayrecall.local.engine.writes import Write

_FLUSH_SECONDS = 5.0


class Service:
    """Runs what changes an open data folder; see the package's note on threads."""

    def __init__(self, folder: DataFolder) -> None:
        """
        Serve a folder.

        :param folder: Open data folder.
        """
        self.folder = folder
        self._writing = asyncio.Lock()
        self._copies = folder.root / ".snapshots"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Flush now and then, and close the folder at the end."""
        flushing = asyncio.create_task(self._keep_flushed())
        try:
            yield
        finally:
            flushing.cancel()
            await asyncio.gather(flushing, return_exceptions=True)
            self.folder.close()

    async def create(self, name: str, request: models.CreateCollection) -> bool:
        """Create a collection; it is on disk when this returns."""
        async with self._writing:
            self.folder.create(name, Schema(request))
        return True

    async def delete(self, name: str) -> bool:
        """Delete a collection; false if there is none."""
        async with self._writing:
            return self.folder.delete(name)

    async def write(self, name: str, changes: Sequence[Write], *, wait: bool, grows: bool) -> list[dict[str, Any]]:
        """
        Apply changes one after the other.

        :param name: Collection.
        :param changes: Checked changes.
        :param wait: Return only when they are on disk.
        :param grows: Refuse on a disk that is nearly full.
        :returns: Qdrant's `UpdateResult` for each.
        :raises EngineError: If a change names a point that does not exist; the ones before it stay.
        """
        collection = self.folder.collection(name)
        async with self._writing:
            if grows:
                self.folder.require_space()
            numbers = [change.apply(collection) for change in changes]
        if wait:
            await collection.disk.wait()
        status = "completed" if wait else "acknowledged"
        return [{"operation_id": number, "status": status} for number in numbers]

    async def create_index(self, name: str, request: models.CreateFieldIndex, *, wait: bool) -> dict[str, Any]:
        """Create a payload index."""
        return (await self.write(name, [Write(indexes.create(request))], wait=wait, grows=True))[0]

    async def delete_index(self, name: str, field: str, *, wait: bool) -> dict[str, Any]:
        """Delete a payload index."""
        return (await self.write(name, [Write(indexes.delete(field))], wait=wait, grows=False))[0]

    async def copy(self) -> dict[str, Any]:
        """
        Copy all collections as they are at one moment; writes wait meanwhile, reads do not.

        :returns: Qdrant's `SnapshotDescription`; `name` is a folder in `.snapshots` of the data folder.
        """
        async with self._writing:
            self.folder.require_space()
            self.folder.flush()
            target = self._copies / f"full-{datetime.now(UTC):%Y-%m-%d-%H-%M-%S}-{uuid4().hex[:8]}"
            await asyncio.to_thread(snapshots.copy_folder, self.folder.root, target)
        return snapshots.describe(target)

    def copies(self) -> list[dict[str, Any]]:
        """List the copies, oldest first."""
        return [snapshots.describe(path) for path in self._complete_copies()]

    async def delete_copy(self, name: str) -> bool:
        """Delete a copy."""
        for path in self._complete_copies():
            if path.name == name:
                await asyncio.to_thread(snapshots.remove, path)
                return True
        raise EngineError(HTTPStatus.NOT_FOUND, f"Not found: Full storage snapshot {name} not found")

    def _complete_copies(self) -> list[Path]:
        return sorted(self._copies.glob("full-*")) if self._copies.exists() else []

    async def _keep_flushed(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            async with self._writing:
                try:
                    self.folder.flush()
                except EngineError as failure:
                    sys.stderr.write(f"flush failed, will be tried again: {failure}\n")
