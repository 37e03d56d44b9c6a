"""What writers did, in one SQLite file that all of them write to, so that a checker can tell what went wrong."""

import asyncio
import random
import sqlite3
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from uuid import uuid5

from components.memory_scope import Scope
from contracts.payloads import ConversationTurn, WritePlan


class EffectLog:
    """
    Stands where the writer pipeline and the memory store stand: "plans" for a set time, and stores one effect a run.

    Like the memory store, it leaves an effect that is there already as it is.
    """

    def __init__(self, path: Path, *, handler_seconds: tuple[float, float] = (0, 0)) -> None:
        self._handler_seconds = handler_seconds
        self._database = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=OFF")  # processes are killed here, not the machine
        self._database.execute("CREATE TABLE IF NOT EXISTS starts (run TEXT, user TEXT, place INTEGER, at REAL)")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS effects (id TEXT PRIMARY KEY, run TEXT, user TEXT, place INTEGER, at REAL)"
        )

    def close(self) -> None:
        self._database.close()

    async def plan(self, turn: ConversationTurn) -> WritePlan:
        place = int(turn.question.rpartition(" ")[2])
        row = (str(turn.run_id), turn.user_id, place, time.monotonic())
        self._database.execute("INSERT INTO starts VALUES (?, ?, ?, ?)", row)
        await asyncio.sleep(random.uniform(*self._handler_seconds))
        return WritePlan(run_id=turn.run_id, facts=(), decisions=())

    async def write(self, turn: ConversationTurn, plan: WritePlan) -> int:
        place = int(turn.question.rpartition(" ")[2])
        row = (str(uuid5(plan.run_id, "0")), str(turn.run_id), turn.user_id, place, time.monotonic())
        self._database.execute("INSERT OR IGNORE INTO effects VALUES (?, ?, ?, ?, ?)", row)
        return 1

    async def has_run(self, scope: Scope, run_id: str) -> bool:  # noqa: ARG002
        return self._database.execute("SELECT 1 FROM effects WHERE run = ?", (run_id,)).fetchone() is not None

    async def delete_run(self, scope: Scope, run_id: str) -> None:  # noqa: ARG002
        self._database.execute("DELETE FROM effects WHERE run = ?", (run_id,))

    async def delete_all(self, scope: Scope) -> None:
        self._database.execute("DELETE FROM effects WHERE user = ?", (scope.user_id,))

    def count(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM effects").fetchone()[0])

    def verdict(self, published: dict[str, str]) -> "Verdict":
        """
        Judge.

        :param published: User of each run that was published.
        """
        effects = self._database.execute("SELECT run, user, place, at FROM effects ORDER BY at").fetchall()
        starts = self._database.execute("SELECT run, user, place, at FROM starts ORDER BY at").fetchall()
        done: dict[tuple[str, int], float] = {(user, place): at for _, user, place, at in effects}
        places: dict[str, list[int]] = defaultdict(list)
        for _, user, place, _ in effects:
            places[user].append(place)
        runs = [run for run, _, _, _ in effects]
        overlaps = [
            (user, place) for _, user, place, at in starts if place and done.get((user, place - 1), float("inf")) > at
        ]
        return Verdict(
            published=len(published),
            missing=len(published.keys() - set(runs)),
            duplicates=len(runs) - len(set(runs)),
            order_violations=sum(later < earlier for found in places.values() for earlier, later in pairwise(found)),
            overlaps=len(overlaps),
            handled_again=len(starts) - len({run for run, _, _, _ in starts}),
        )

    def effect_times(self) -> dict[str, float]:
        return dict(self._database.execute("SELECT run, at FROM effects").fetchall())


@dataclass(frozen=True)
class Verdict:
    """What must be 0, and how often a killed or frozen writer's work was begun again, which may be anything."""

    published: int
    missing: int
    duplicates: int
    order_violations: int
    overlaps: int
    handled_again: int

    @property
    def faults(self) -> int:
        return self.missing + self.duplicates + self.order_violations + self.overlaps
