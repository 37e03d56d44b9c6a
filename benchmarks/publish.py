"""
What the queue costs a turn: recording the intent, publishing, reading what is pending; and with NATS killed or frozen.

A real nats-server (three with `--cluster`) syncs every write to the disk; turns have 2 kB.
"""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.report import arguments, percentile, show, write
from components.turn_queue import TurnQueue
from contracts.payloads import ConversationTurn
from contracts.turn import Agent, TurnContext
from hayrecall.local.nats_cluster import start_cluster
from hayrecall.local.nats_server import NatsServer

USERS = 500
ANSWER = "Der Kurs beginnt im Herbst und dauert zwei Wochen. " * 36

Row = dict[str, Any]


def context(number: int) -> TurnContext:
    return TurnContext(
        tenant_id="acme",
        run_id=str(uuid4()),
        agent=Agent("rag"),
        locale="de",
        said_at=datetime.now(UTC),
        user_id=f"user {number % USERS}",
    )


def turn(number: int) -> ConversationTurn:
    return ConversationTurn.of(context(number), "Wann beginnt der Kurs?", ANSWER)


async def times(calls: int, call: Callable[[int], Awaitable[object]], *, at_once: int = 1) -> Row:
    """Time calls, and give percentiles in milliseconds and the rate."""
    milliseconds: list[float] = []
    numbers = iter(range(calls))

    async def caller() -> None:
        for number in numbers:
            start = time.perf_counter()
            await call(number)
            milliseconds.append((time.perf_counter() - start) * 1000)

    start = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(at_once)))
    return {
        "p50 ms": round(percentile(milliseconds, 0.5), 2),
        "p99 ms": round(percentile(milliseconds, 0.99), 2),
        "max ms": round(max(milliseconds), 2),
        "per second": round(calls / (time.perf_counter() - start)),
    }


async def measure(servers: list[NatsServer], data_dir: Path, calls: int) -> dict[str, Row]:
    queue = TurnQueue(",".join(server.url for server in servers), data_dir, replicas=len(servers))
    await queue.open()
    await relay(queue)
    for number in range(100):  # warm up
        await queue.publish(turn(number))

    async def intent_and_publish(number: int) -> None:
        asked = context(number)
        await queue.record_intent(asked, "Wann beginnt der Kurs?")
        await queue.publish(ConversationTurn.of(asked, "Wann beginnt der Kurs?", ANSWER))

    rows = {
        "record the intent": await times(calls, lambda number: queue.record_intent(context(number), "Wann?")),
        "publish": await times(calls, lambda number: queue.publish(turn(number))),
        "intent and publish": await times(calls, intent_and_publish),
        "publish, 50 at once": await times(calls, lambda number: queue.publish(turn(number)), at_once=50),
        "read pending, none": await times(calls, lambda _: queue.pending("acme", "nobody")),
        "read pending, some": await times(calls, lambda number: queue.pending("acme", f"user {number % USERS}")),
        "read the user's state": await times(calls, lambda number: queue.user_state("acme", f"user {number % USERS}")),
    }
    for server in servers:
        os.kill(server.pid or 0, signal.SIGSTOP)
    rows["NATS frozen, first turn"] = await times(1, lambda number: queue.publish(turn(number)))
    rows["NATS frozen, next turns"] = await times(calls, lambda number: queue.publish(turn(number)))
    rows["NATS frozen, read pending"] = await times(calls, lambda number: queue.pending("acme", f"user {number}"))
    for server in servers:
        os.kill(server.pid or 0, signal.SIGCONT)
    rows["thawed, relay them all"] = await relay(queue)
    for server in servers:
        server.kill()
    rows["NATS killed"] = await times(calls, lambda number: queue.publish(turn(number)))
    for server in servers:
        server.launch()
    rows["restarted, relay them all"] = await relay(queue)
    await queue.close()
    return rows


async def relay(queue: TurnQueue) -> Row:
    """Wait until the outbox is empty, and give the rate."""
    start = time.perf_counter()
    waiting = calls = -1.0
    while waiting:
        if (await queue.ready())["nats"]:
            waiting = (await queue.depth())["outbox"]
            calls = max(calls, waiting)
        await asyncio.sleep(0.01)
    seconds = time.perf_counter() - start
    return {"per second": round(calls / seconds), "max ms": round(seconds * 1000)}


@contextmanager
def one_server(folder: Path) -> Iterator[list[NatsServer]]:
    with NatsServer(folder) as server:
        yield [server]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--calls", type=int, default=1000, help="calls for each figure")
    parser.add_argument("--cluster", action="store_true", help="three servers, three replicas")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="folder on the disk to measure; default: a temporary one"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hayrecall-bench-", dir=options.data) as name:
        folder = Path(name)
        running = start_cluster(3, folder / "nats") if options.cluster else one_server(folder / "nats")
        with running as servers:
            rows = asyncio.run(measure(servers, folder / "data", options.calls))
    show("Three servers, three replicas" if options.cluster else "One server", rows)
    write(options.json, {"cluster": options.cluster, "calls": options.calls, "figures": rows})


if __name__ == "__main__":
    main()
