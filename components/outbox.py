"""Where turns wait on this host's disk while NATS is away, and what is known of answers that are being written."""

import asyncio
import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from components.process_mark import ProcessMark
from contracts.errors import QueueUnavailableError

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS turns(
    id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT UNIQUE NOT NULL, subject TEXT NOT NULL,
    headers TEXT NOT NULL, body BLOB NOT NULL, unsure INTEGER NOT NULL, added REAL NOT NULL);
CREATE INDEX IF NOT EXISTS turns_by_subject ON turns(subject, id);
CREATE TABLE IF NOT EXISTS intents(
    run_id TEXT PRIMARY KEY NOT NULL, subject TEXT NOT NULL, headers TEXT NOT NULL, body BLOB NOT NULL,
    unsure INTEGER NOT NULL, process TEXT NOT NULL, added REAL NOT NULL);
"""
_COLUMNS = "run_id, subject, headers, body, unsure"


@dataclass(frozen=True)
class OutboxRow:
    """
    A message that has yet to reach NATS.

    `unsure`: written while nobody could tell whether its user had switched learning off, so ask before sending.
    """

    run_id: str
    subject: str
    headers: Mapping[str, str]
    body: bytes
    unsure: bool = False


class Outbox:
    """
    A SQLite file that all server processes of a host share.

    A row is on the disk when the call returns, and its bytes are overwritten when it goes (`secure_delete`). SQLite
    works in a thread of its own; only `has_turns`, a point query of microseconds, runs where it is called.
    """

    def __init__(self, directory: Path) -> None:
        """
        Open the file, and create it when needed.

        :param directory: A folder that outlives the process: on an ephemeral disk, what waits dies with it.
        :raises QueueUnavailableError: If the folder cannot be used.
        """
        self.directory = directory
        self._leadership: int | None = None
        self._settled: set[str] = set()
        self._being_written: dict[str, asyncio.Event] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="outbox")
        with _outage():
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._mark = ProcessMark(directory)
            self._writes = self._connect(patience_seconds=5)
            self._writes.executescript(_SCHEMA)
            self._reads = self._connect(patience_seconds=0.05)  # it is the event loop that waits

    async def close(self) -> None:
        """Finish what is being written, and close."""
        await asyncio.to_thread(self._thread.shutdown)
        self._writes.close()
        self._reads.close()
        self._mark.release()
        if self._leadership is not None:
            os.close(self._leadership)
            self._leadership = None

    # --- turns -------------------------------------------------------------------------------------------------------

    def has_turns(self, subject: str) -> bool:
        """Tell whether turns of this user wait here; a later one must queue up behind them."""
        with _outage():
            query = "SELECT 1 FROM turns WHERE subject = ? LIMIT 1"
            return self._reads.execute(query, (subject,)).fetchone() is not None

    async def add_turn(self, row: OutboxRow) -> None:
        """Keep a turn; its intent is done with. A run that waits already is not added again."""

        def write(database: sqlite3.Connection) -> None:
            values = (row.run_id, row.subject, json.dumps(dict(row.headers)), row.body, row.unsure, time.time())
            database.execute(f"INSERT OR IGNORE INTO turns({_COLUMNS}, added) VALUES (?, ?, ?, ?, ?, ?)", values)  # noqa: S608
            database.execute("DELETE FROM intents WHERE run_id = ?", (row.run_id,))

        await self._write(write)

    async def subjects(self, limit: int = 1000) -> list[str]:
        """List users whose turns wait, the longest waiting first."""
        query = "SELECT subject FROM turns GROUP BY subject ORDER BY min(id) LIMIT ?"
        return [subject for (subject,) in await self._read(query, limit)]

    async def turns_of(self, subject: str, limit: int = 100) -> list[OutboxRow]:
        """Read a user's waiting turns in their order."""
        query = f"SELECT {_COLUMNS} FROM turns WHERE subject = ? ORDER BY id LIMIT ?"  # noqa: S608
        return [_row(*columns) for columns in await self._read(query, subject, limit)]

    async def remove_turn(self, run_id: str) -> None:
        """Drop a turn that has arrived."""
        await self._write(lambda database: database.execute("DELETE FROM turns WHERE run_id = ?", (run_id,)))

    async def depth(self) -> tuple[int, float]:
        """Give how many turns wait, and since how many seconds the oldest one does."""
        count, oldest = (await self._read("SELECT count(*), min(added) FROM turns"))[0]
        return count, max(0.0, time.time() - oldest) if count else 0.0

    # --- intents -----------------------------------------------------------------------------------------------------

    async def add_intent(self, row: OutboxRow) -> None:
        """Keep the question of an answer that this process is about to write."""
        values = (
            row.run_id,
            row.subject,
            json.dumps(dict(row.headers)),
            row.body,
            row.unsure,
            self._mark.name,
            time.time(),
        )
        written = self._being_written[row.run_id] = asyncio.Event()
        try:
            await self._write(
                lambda database: database.execute("INSERT OR REPLACE INTO intents VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            )
        finally:
            del self._being_written[row.run_id]
            written.set()

    async def intent_written(self, run_id: str) -> None:
        """Wait while an intent is being written; returns also when the disk did not take it."""
        if written := self._being_written.get(run_id):
            await written.wait()

    async def intent(self, run_id: str) -> OutboxRow | None:
        """Read an intent; None if the turn was stored, or nothing was to be stored."""
        if run_id in self._settled:
            return None
        found = await self._read(f"SELECT {_COLUMNS} FROM intents WHERE run_id = ?", run_id)  # noqa: S608
        return _row(*found[0]) if found else None

    def settle_intent(self, run_id: str) -> None:
        """
        Note that a run's turn is stored, or will not be; its intent goes with the next `drop_settled`.

        A process that dies before that leaves an intent of a turn that is stored: NATS, or the writer, knows the run.
        """
        self._settled.add(run_id)

    async def drop_settled(self) -> None:
        """Drop all intents that are settled, with one write."""
        settled = set(self._settled)
        if settled:
            delete = "DELETE FROM intents WHERE run_id = ?"
            await self._write(lambda database: database.executemany(delete, [(run_id,) for run_id in settled]))
            self._settled -= settled

    async def promote_orphans(self, *, own: bool = False) -> int:
        """
        Make turns, with the question alone, of the intents that dead processes left.

        :param own: Also of those of this process, which is about to end.
        :returns: How many.
        """

        processes = [name for (name,) in await self._read("SELECT DISTINCT process FROM intents")]
        ended = [name for name in processes if (own and name == self._mark.name) or self._mark.is_dead(name)]

        def write(database: sqlite3.Connection) -> int:
            count = 0
            for name in ended:
                count += database.execute(
                    f"INSERT OR IGNORE INTO turns({_COLUMNS}, added)"  # noqa: S608
                    f" SELECT {_COLUMNS}, added FROM intents WHERE process = ? ORDER BY added",
                    (name,),
                ).rowcount
                database.execute("DELETE FROM intents WHERE process = ?", (name,))
            return count

        if not ended:
            return 0
        promoted = await self._write(write)
        for name in ended:
            if name != self._mark.name:
                self._mark.forget(name)
        return promoted

    # --- both --------------------------------------------------------------------------------------------------------

    async def erase(self, subject: str) -> int:
        """
        Drop everything of one user, and overwrite it on the disk.

        :returns: How many turns and intents went.
        """

        def write(database: sqlite3.Connection) -> int:
            turns = database.execute("DELETE FROM turns WHERE subject = ?", (subject,)).rowcount
            return turns + database.execute("DELETE FROM intents WHERE subject = ?", (subject,)).rowcount

        erased = await self._write(write)
        await self._run(lambda: self._writes.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
        return erased

    def lead(self) -> bool:
        """Try to be the one process of this host that relays; true from then on, until it ends."""
        if self._leadership is None:
            descriptor = os.open(self.directory / "relay.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return False
            self._leadership = descriptor
        return True

    def _connect(self, *, patience_seconds: float) -> sqlite3.Connection:
        file = self.directory / "outbox.sqlite3"
        database = sqlite3.connect(file, timeout=patience_seconds, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
            database.execute(f"PRAGMA {pragma}")
        return database

    async def _run(self, work: Callable[[], T]) -> T:
        with _outage():
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _read(self, query: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
        return await self._run(lambda: self._writes.execute(query, values).fetchall())

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def transaction() -> T:
            self._writes.execute("BEGIN IMMEDIATE")
            try:
                result = work(self._writes)
            except BaseException:
                self._writes.execute("ROLLBACK")
                raise
            self._writes.execute("COMMIT")
            return result

        return await self._run(transaction)


@contextlib.contextmanager
def _outage() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        msg = f"the outbox on disk cannot be used, check its folder and the free space: {error!r}"
        raise QueueUnavailableError(msg) from error


def _row(run_id: str, subject: str, headers: str, body: bytes, unsure: int) -> OutboxRow:
    return OutboxRow(run_id, subject, json.loads(headers), body, bool(unsure))
