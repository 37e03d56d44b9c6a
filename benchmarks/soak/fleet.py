"""Writer processes that store effects instead of memories: the consuming half as it is, without models and Qdrant."""

import asyncio
import multiprocessing
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.soak.effects import EffectLog
from components.body_store import BodyStore
from components.bucket import Bucket
from components.jetstream import JetStreamConnection
from components.user_states import UserStates
from contracts.errors import QueueUnavailableError
from contracts.queue import DONE_BUCKET, PLANS_BUCKET
from writer.alerts import Alerts
from writer.attempts import AttemptLog
from writer.consumer import Consumer
from writer.dead_letters import DeadLetters
from writer.delivery import RetryPolicy
from writer.metrics import WORK
from writer.plans import RunLedger
from writer.streams import PartitionPulls
from writer.turn_applier import TurnApplier
from writer.turn_handler import TurnHandler

_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload(["benchmarks.soak.fleet"])


@dataclass(frozen=True)
class FleetSettings:
    """How the writers of a run are set."""

    url: str
    directory: Path
    replicas: int = 1
    concurrency: int = 16
    ack_wait_seconds: float = 3
    handler_seconds: tuple[float, float] = (0, 0)


def _write(settings: FleetSettings, number: int) -> None:
    log = os.open(settings.directory / f"writer-{number}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    asyncio.run(_consume(settings, settings.directory / f"ready-{number}"))
    sys.exit(0)


async def _consume(settings: FleetSettings, ready: Path) -> None:
    effects = EffectLog(settings.directory / "effects.db", handler_seconds=settings.handler_seconds)
    connection = JetStreamConnection(settings.url, replicas=settings.replicas)
    pulls = PartitionPulls(connection, ack_wait_seconds=settings.ack_wait_seconds)
    while True:
        with suppress(QueueUnavailableError):
            await connection.open(patience_seconds=10)
            await pulls.open()
            break
        await asyncio.sleep(0.2)
    dead_letters = DeadLetters(connection, Alerts(None))
    plans = Bucket(connection, PLANS_BUCKET)
    applier = TurnApplier(
        ledger=RunLedger(plans=plans, done=Bucket(connection, DONE_BUCKET)),
        users=UserStates(connection),
        memorizer=effects,
        memories=effects,
        dead_letters=dead_letters,
    )
    consumer = Consumer(
        pulls=pulls,
        handler=TurnHandler(bodies=BodyStore(connection), applier=applier),
        attempts=AttemptLog(plans),
        dead_letters=dead_letters,
        policy=RetryPolicy(),
        metrics=WORK,
        concurrency=settings.concurrency,
        ack_wait_seconds=settings.ack_wait_seconds,
        grace_seconds=5,
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop)
    ready.touch()  # noqa: ASYNC240 - one call
    await consumer.run()
    await connection.close()
    effects.close()


class Fleet:
    """Several writers, each of which can be killed, replaced, frozen and thawed."""

    def __init__(self, settings: FleetSettings, size: int) -> None:
        self._settings = settings
        self._writers: list[Any] = [self._start(number) for number in range(size)]

    def _start(self, number: int) -> Any:
        (self._settings.directory / f"ready-{number}").unlink(missing_ok=True)
        writer = _forkserver.Process(target=_write, args=(self._settings, number), daemon=True)
        writer.start()
        return writer

    async def ready(self) -> None:
        deadline = time.monotonic() + 120
        while not all((self._settings.directory / f"ready-{n}").exists() for n in range(len(self._writers))):
            if time.monotonic() > deadline:
                raise SystemExit("the writers did not start")
            await asyncio.sleep(0.02)

    def replace(self, number: int) -> None:
        """Kill a writer with SIGKILL and start another one."""
        os.kill(self._writers[number].pid, signal.SIGKILL)
        self._writers[number].join()
        self._writers[number] = self._start(number)

    def signal(self, number: int, what: signal.Signals) -> None:
        os.kill(self._writers[number].pid, what)

    def stop(self) -> list[int]:
        for writer in self._writers:
            if writer.is_alive():
                os.kill(writer.pid, signal.SIGTERM)
        for writer in self._writers:
            writer.join(20)
        return [writer.exitcode for writer in self._writers]
