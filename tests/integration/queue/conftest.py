"""A nats-server that a test may freeze, kill and restart, and turns to publish."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from components.jetstream import JetStreamConnection
from components.turn_queue import TurnQueue
from contracts.payloads import ConversationTurn
from contracts.turn import Agent, TurnContext
from hayrecall.local.nats_server import NatsServer
from tests.conftest import wait_until


class Nats:
    """The server of one test."""

    def __init__(self, directory: Path) -> None:
        self.server = NatsServer(directory)
        self.server.start()
        self.url = self.server.url
        self.directory = directory

    def freeze(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)
        wait_until(lambda: Path(f"/proc/{self.server.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")

    def thaw(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.server.kill()

    def restart(self) -> None:
        self.server.start()


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Nats]:
    nats = Nats(tmp_path / "nats")
    yield nats
    if nats.server.pid:
        nats.thaw()
    nats.server.stop()


@pytest.fixture
async def open_queue(nats: Nats, tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[TurnQueue]]]:
    """Open a queue; what was opened is closed after the test."""
    opened: list[TurnQueue] = []

    async def open_queue(data_dir: str = "data", **settings: Any) -> TurnQueue:
        queue = TurnQueue(nats.url, tmp_path / data_dir, **settings)
        await queue.open()
        opened.append(queue)
        return queue

    yield open_queue
    for queue in opened:
        await queue.close()


@pytest.fixture
async def queue(open_queue: Callable[..., Awaitable[TurnQueue]]) -> TurnQueue:
    return await open_queue()


@pytest.fixture
async def stream(nats: Nats) -> AsyncIterator[JetStreamConnection]:
    """A connection of the test's own, to look at what is stored."""
    connection = JetStreamConnection(nats.url)
    await connection.open()
    yield connection
    await connection.close()


def context(user_id: str | None = "ann", tenant_id: str = "acme", **changes: Any) -> TurnContext:
    fields: dict[str, Any] = {
        "tenant_id": tenant_id,
        "run_id": str(uuid4()),
        "agent": Agent("rag", "RAG", "Answers from documents"),
        "locale": "de",
        "said_at": datetime.now(UTC),
        "user_id": user_id,
        "time_zone": "Europe/Zurich",
        "thread_id": "chat-1",
        "message_id": "m-1",
    }
    return TurnContext(**fields | changes)


def turn(
    question: str, answer: str | None = "Gerne.", user_id: str = "ann", tenant_id: str = "acme"
) -> ConversationTurn:
    return ConversationTurn.of(context(user_id, tenant_id), question, answer)


async def questions(queue: TurnQueue, user_id: str = "ann", tenant_id: str = "acme", limit: int = 500) -> list[str]:
    """Give what waits for the writer, in NATS and in the outbox."""
    return [turn.question for turn in await queue.pending(tenant_id, user_id, limit)]


async def eventually(condition: Callable[[], Awaitable[Any]], *, seconds: float = 10) -> Any:
    """Wait until a condition gives something true."""
    deadline = time.monotonic() + seconds
    while not (result := await condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {condition.__doc__ or condition}")
        await asyncio.sleep(0.02)
    return result


async def relayed(queue: TurnQueue) -> None:
    """Wait until nothing waits in the outbox, and everything is in NATS."""

    async def empty() -> bool:
        """The outbox is empty."""
        return (await queue.ready())["nats"] and (await queue._parts.outbox.depth())[0] == 0

    await eventually(empty, seconds=30)
