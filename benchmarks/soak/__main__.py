"""
Whether anything is lost, doubled or out of order while writers and NATS are killed and frozen.

`python -m benchmarks.soak [calm | writers | server | cluster …]`: 10,000 turns of 500 users and three writer processes
each. `writers`: seven random `kill -9` of writers, one frozen for 6 s and thawed. `server`: five `kill -9` of
nats-server. `cluster`: three nodes, three replicas, one node killed under load and one more writer killed. Ends with
exit code 1 unless everything that must be 0 is 0.
"""

import asyncio
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import arguments, show, write
from benchmarks.soak.effects import EffectLog
from benchmarks.soak.fleet import Fleet, FleetSettings
from benchmarks.soak.load import Load
from components.jetstream import JetStreamConnection
from contracts.queue import DEAD_STREAM
from hayrecall.local.nats_cluster import start_cluster
from hayrecall.local.nats_server import NatsServer

WRITERS = 3
FROZEN_SECONDS = 6


@dataclass(frozen=True)
class Victims:
    """What may be killed, and for how long turns are published."""

    fleet: Fleet
    servers: list[NatsServer]
    seconds: float


Chaos = Callable[[Victims], Coroutine[Any, Any, None]]


async def calm(victims: Victims) -> None:
    """Leave everything alone."""


async def writers(victims: Victims) -> None:
    """Kill writers at random, freeze one."""
    kills, frozen_after = 7, 3
    for number in range(kills):
        await asyncio.sleep(random.uniform(0.5, 1.5) * max(0.5, (victims.seconds - FROZEN_SECONDS) / kills))
        victims.fleet.replace(random.randrange(WRITERS))
        if number == frozen_after:
            frozen = random.randrange(WRITERS)
            victims.fleet.signal(frozen, signal.SIGSTOP)
            await asyncio.sleep(FROZEN_SECONDS)
            victims.fleet.signal(frozen, signal.SIGCONT)


async def server(victims: Victims) -> None:
    """Kill nats-server five times."""
    for _ in range(5):
        await asyncio.sleep(random.uniform(0.5, 1.5) * victims.seconds / 6)
        victims.servers[0].kill()
        await asyncio.sleep(random.uniform(0.1, 1))
        victims.servers[0].start()


async def cluster(victims: Victims) -> None:
    """Kill a node of three, start it again, kill a writer."""
    await asyncio.sleep(victims.seconds / 4)
    victim = random.choice(victims.servers)
    victim.kill()
    await asyncio.sleep(victims.seconds / 4)
    victim.launch()
    victims.fleet.replace(random.randrange(WRITERS))


SCENARIOS: dict[str, Chaos] = {"calm": calm, "writers": writers, "server": server, "cluster": cluster}


@contextmanager
def nats(scenario: str, directory: Path) -> Iterator[list[NatsServer]]:
    if scenario == "cluster":
        with start_cluster(3, directory / "cluster") as servers:
            yield servers
        return
    with NatsServer(directory / "nats") as single:
        yield [single]


async def soak(scenario: str, servers: list[NatsServer], directory: Path, options: Any) -> dict[str, Any]:
    replicas = 3 if scenario == "cluster" else 1
    settings = FleetSettings(
        url=",".join(each.url for each in servers),
        directory=directory,
        replicas=replicas,
        handler_seconds=(0, 0.02),
    )
    effects = EffectLog(directory / "effects.db")
    connection = JetStreamConnection(settings.url, replicas=replicas)
    await connection.open(patience_seconds=30)
    fleet = Fleet(settings, WRITERS)
    await fleet.ready()
    load = Load(connection, options.users)
    begun = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(load.publish(options.turns, per_second=options.rate))
        tasks.create_task(SCENARIOS[scenario](Victims(fleet, servers, options.turns / options.rate)))
    await load.drained(seconds=600)
    seconds = time.monotonic() - begun
    dead = (await connection.stream_info(DEAD_STREAM))["state"]["messages"]
    codes = fleet.stop()
    await connection.close()
    verdict = effects.verdict(load.published)
    effects.close()
    figures = asdict(verdict) | {"dead_letters": dead, "seconds": round(seconds, 1), "clean_exits": codes.count(0)}
    return figures | {"faults": verdict.faults + dead}


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], help="default: all")
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--rate", type=float, default=250, help="turns published a second")
    parser.add_argument("--seed", type=int, default=None, help="for the moments of the kills")
    options = parser.parse_args()
    random.seed(options.seed)
    rows = {}
    for scenario in options.scenarios or list(SCENARIOS):
        with tempfile.TemporaryDirectory(prefix="hayrecall-soak-") as folder, nats(scenario, Path(folder)) as servers:
            rows[scenario] = asyncio.run(soak(scenario, servers, Path(folder), options))
        show(f"{options.turns} turns, {options.users} users, {WRITERS} writers", rows)
    write(options.json, {"turns": options.turns, "users": options.users, "scenarios": rows})
    return 1 if any(row["faults"] for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
