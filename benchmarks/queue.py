"""
How many turns the writers take off the queue a second, and how long a turn waits for its write.

One and three writers; one nats-server, and a cluster of three with three replicas; handlers of 0 and 50 ms; every write
synced to the disk beside NATS's default (which loses confirmed writes in a power cut). Handlers store an effect in
SQLite instead of asking models. Last, what taking one user's quick turns together would save: measured, not built.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.report import arguments, percentile, show, write
from benchmarks.soak.effects import EffectLog
from benchmarks.soak.fleet import Fleet, FleetSettings
from benchmarks.soak.load import Load
from components.jetstream import JetStreamConnection
from hayrecall.local.nats_cluster import start_cluster
from hayrecall.local.nats_server import NatsServer

USERS = 500
DEFAULT_SYNC = "2m"
QUICK_TURNS, QUICK_GAP, MODEL = 4, 1.0, 2.0  # turns in a row, seconds between them, seconds of an extraction
WINDOWS = (0, 2, 5, 10)  # seconds to wait for a user's next turn

Row = dict[str, Any]


@contextmanager
def nats(directory: Path, replicas: int, sync_interval: str) -> Iterator[list[NatsServer]]:
    if replicas == 1:
        with NatsServer(directory / "nats", sync_interval=sync_interval) as server:
            yield [server]
        return
    with start_cluster(replicas, directory / "cluster", sync_interval=sync_interval) as servers:
        yield servers


class Bench:
    """A queue, its writers and their effects, for one row of the table."""

    def __init__(self, servers: list[NatsServer], directory: Path, replicas: int, handler: float, writers: int) -> None:
        self._servers = servers
        self._settings = FleetSettings(
            url=",".join(server.url for server in servers),
            directory=directory,
            replicas=replicas,
            ack_wait_seconds=30,
            handler_seconds=(handler, handler),
        )
        self._writers = writers

    async def run(self, turns: int) -> Row:
        effects = EffectLog(self._settings.directory / "effects.db")
        connection = JetStreamConnection(self._settings.url, replicas=self._settings.replicas)
        await connection.open(patience_seconds=60)
        load = Load(connection, USERS)
        await load.publish(turns)  # the queue is full before anybody takes from it
        fleet = Fleet(self._settings, self._writers)
        await fleet.ready()
        before = effects.count()
        begun = time.monotonic()
        await load.drained(seconds=600)
        throughput = (turns - before) / (time.monotonic() - begun)
        waits = await self._waits(Load(connection, USERS), effects)
        cpu_before, idle_from = self._cpu_seconds(), time.monotonic()
        await asyncio.sleep(10)
        idle = (self._cpu_seconds() - cpu_before) / (time.monotonic() - idle_from) * 100
        fleet.stop()
        await connection.close()
        effects.close()
        return {
            "turns/s": round(throughput),
            "wait p50 ms": round(percentile(waits, 0.5) * 1000, 1),
            "wait p99 ms": round(percentile(waits, 0.99) * 1000, 1),
            "idle NATS CPU %": round(idle, 1),
        }

    @staticmethod
    async def _waits(load: Load, effects: EffectLog) -> list[float]:
        """Publish slowly, and give the seconds from each confirmation to the effect."""
        await load.publish(150, per_second=20)
        await load.drained(seconds=60)
        done = effects.effect_times()
        return [max(0.0, done[run] - at) for run, at in load.times.items()]

    def _cpu_seconds(self) -> float:
        ticks = 0
        for server in self._servers:
            fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def measure(options: Any) -> dict[str, Row]:
    rows = {}
    for replicas in (1, 3):
        for sync in ("always", DEFAULT_SYNC):
            for writers in (1, 3):
                for handler in (0.0, 0.05) if sync == "always" else (0.0,):
                    name = f"R{replicas}, sync {sync}, {writers} writers, {handler * 1000:.0f} ms"
                    with (
                        tempfile.TemporaryDirectory(prefix="hayrecall-queue-") as folder,
                        nats(Path(folder), replicas, sync) as servers,
                    ):
                        bench = Bench(servers, Path(folder), replicas, handler, writers)
                        rows[name] = asyncio.run(bench.run(options.turns))
                    print(name, rows[name], file=sys.stderr, flush=True)
    return rows


async def quick_turns(server: NatsServer, directory: Path, users: int) -> dict[str, Row]:
    """
    Let users say several things in quick succession; count the extractions, and how many would have done.

    As built, each turn is one extraction. Taken together, one covers what its user said until it begins; with a window,
    it begins only that long after the last turn. A window of 0 s waits for nothing: it takes what is there.
    """
    settings = FleetSettings(
        url=server.url, directory=directory, concurrency=64, ack_wait_seconds=30, handler_seconds=(MODEL, MODEL)
    )
    effects = EffectLog(directory / "effects.db")
    connection = JetStreamConnection(server.url)
    await connection.open(patience_seconds=30)
    fleet = Fleet(settings, 1)
    await fleet.ready()
    load = Load(connection, users)
    for _ in range(QUICK_TURNS):
        await load.publish(users)
        await asyncio.sleep(QUICK_GAP)
    await load.drained(seconds=600)
    fleet.stop()
    await connection.close()
    done = effects.effect_times()
    effects.close()
    waits = [done[run] - at for run, at in load.times.items()]
    rows: dict[str, Row] = {
        "as built": {"extractions": len(done), "saved %": 0, "wait p50 s": round(percentile(waits, 0.5), 1)}
    }
    said: dict[str, list[float]] = defaultdict(list)
    for run, user in load.published.items():
        said[user].append(load.times[run])
    for window in WINDOWS:
        ends = [end for times in said.values() for end in _taken_together(sorted(times), window)]
        calls = len({(user, end) for user, times in said.items() for end, _ in _taken_together(sorted(times), window)})
        rows[f"window {window} s"] = {
            "extractions": calls,
            "saved %": round(100 * (1 - calls / len(load.published))),
            "wait p50 s": round(percentile([end - at for end, at in ends], 0.5), 1),
        }
    return rows


def _taken_together(said: list[float], window: float) -> Iterator[tuple[float, float]]:
    """Give, for each turn of one user, when its extraction would end, and when it was said."""
    free, waiting = 0.0, said
    while waiting:
        begins = max(waiting[0] + window, free)
        while (latest := max(at for at in waiting if at <= begins)) + window > begins:
            begins = latest + window
        free = begins + MODEL
        yield from ((free, at) for at in waiting if at <= begins)
        waiting = [at for at in waiting if at > begins]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, default=1500)
    parser.add_argument("--quick-users", type=int, default=64)
    options = parser.parse_args()
    rows = measure(options)
    with tempfile.TemporaryDirectory(prefix="hayrecall-queue-") as folder, NatsServer(Path(folder) / "nats") as server:
        quick = asyncio.run(quick_turns(server, Path(folder), options.quick_users))
    show(f"{options.turns} turns of {USERS} users", rows)
    show(f"{QUICK_TURNS} turns of a user, {QUICK_GAP:g} s apart, taken together", quick)
    write(options.json, {"turns": options.turns, "users": USERS, "queue": rows, "taken together": quick})


if __name__ == "__main__":
    main()
