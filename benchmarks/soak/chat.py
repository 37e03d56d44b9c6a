"""
Whether a turn is lost or stored twice while the chat process is killed and NATS goes away.

`python -m benchmarks.soak.chat [kills | outage | frozen …]`: 20 people chat without a pause while the server that
answers them gets `kill -9` at 15 random points, and is started again on the same folder. `outage`: NATS is killed too,
in every second round before the chat, and comes back after it. `frozen`: instead, NATS stands still and goes on. In the
end every answer that a client saw to its end is on the queue once, whole; every question that it saw the beginning of
an answer to, at least that. Ends with exit code 1 unless everything that must be 0 is 0.
"""

import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.report import arguments, show, write
from components.jetstream import JetStreamConnection
from hayrecall.local.nats_server import NatsServer
from hayrecall.local.python_part import PythonPart
from tests.chat_process import ChatProcess
from tests.chatters import Chatters, script
from tests.scripted_model_server import ScriptedModelServer

MOST_TALKS = 60  # between two harms
TALK_SECONDS = 0.5  # about

Harm = Callable[[NatsServer], Any]


def _nothing(nats: NatsServer) -> None:
    """Leave NATS alone."""


def _signal(nats: NatsServer, number: signal.Signals) -> None:
    if nats.pid is None:
        raise SystemExit("nats-server ended by itself")
    os.kill(nats.pid, number)


def _freeze(nats: NatsServer) -> None:
    _signal(nats, signal.SIGSTOP)


def _thaw(nats: NatsServer) -> None:
    _signal(nats, signal.SIGCONT)


# What is done to NATS in every second round, before the chat is killed, and after it is back.
SCENARIOS: dict[str, tuple[Harm, Harm]] = {
    "kills": (_nothing, _nothing),
    "outage": (NatsServer.kill, NatsServer.start),
    "frozen": (_freeze, _thaw),
}


async def soak(scenario: str, directory: Path, options: Any) -> dict[str, Any]:
    harm, heal = SCENARIOS[scenario]
    begun = time.monotonic()
    models = ScriptedModelServer().start()
    script(models, gap_seconds=0.05)
    async with AsyncExitStack() as opened:
        opened.callback(models.stop)
        nats = opened.enter_context(NatsServer(directory / "nats"))
        engine = opened.enter_context(_engine(directory))
        chat = await opened.enter_async_context(
            ChatProcess(
                directory,
                nats_url=nats.url,
                qdrant_url=engine.url,
                llm_base_url=models.url,
                embedding_base_url=models.url,
            )
        )
        await chat.start()
        people = Chatters(chat.url, chat.key, options.users)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(people.chat())
            for number in range(options.kills):
                await people.more(random.randint(0, MOST_TALKS))
                if number % 2:
                    harm(nats)
                    await people.more(random.randint(0, MOST_TALKS))
                await asyncio.sleep(random.uniform(0, TALK_SECONDS))
                await chat.kill()
                await chat.start()
                if number % 2:
                    await people.more(random.randint(0, MOST_TALKS))
                    heal(nats)
            people.stop()
        connection = JetStreamConnection(nats.url)
        await connection.open(patience_seconds=30)
        opened.push_async_callback(connection.close)
        await people.verdict(connection, seconds=60)
        code = await chat.stop()
        verdict = await people.verdict(connection, seconds=0)
    return asdict(verdict) | {
        "refused": people.refused,
        "exit_code": code,
        "seconds": round(time.monotonic() - begun, 1),
        "faults": verdict.faults,
    }


def _engine(directory: Path) -> PythonPart:
    return PythonPart(
        "Qdrant engine",
        "hayrecall.local.engine",
        ["--dir", str(directory / "engine")],
        ports_file=directory / "engine.json",
        log_file=directory / "engine.log",
    )


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], help="default: all")
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--seed", type=int, default=None, help="for the moments of the kills")
    options = parser.parse_args()
    random.seed(options.seed)
    rows = {}
    for scenario in options.scenarios or list(SCENARIOS):
        with tempfile.TemporaryDirectory(prefix="hayrecall-soak-") as folder:
            rows[scenario] = asyncio.run(soak(scenario, Path(folder), options))
        show(f"{options.users} people, the chat killed {options.kills} times", rows)
    write(options.json, {"users": options.users, "kills": options.kills, "scenarios": rows})
    return 1 if any(row["faults"] or row["exit_code"] for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
