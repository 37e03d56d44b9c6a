"""Everything around a writer: a nats-server, the Qdrant engine, the scripted models, and turns that people said."""

import asyncio
import contextlib
import multiprocessing
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from components.dead_letters import DeadLetter, DeadLetterQueue
from components.jetstream import JetStreamConnection
from components.memory_record import MemoryRecord
from components.memory_scope import Scope
from components.memory_store import MemoryStore
from contracts.errors import QueueUnavailableError
from contracts.payloads import ConversationTurn
from contracts.queue import DEAD_STREAM, TURNS_STREAM, turn_subject
from contracts.settings import Settings
from contracts.turn import Agent, TurnContext
from tests.scripted_model_server import ScriptedModelServer
from writer.process import WriterProcess, run

KEYS = {"HAYRECALL_LLM_API_KEY": "unused", "HAYRECALL_EMBEDDING_API_KEY": "unused"}
QUICK = {"writer_retry_seconds": (0.05, 0.1), "writer_ack_wait_seconds": 5, "writer_grace_seconds": 3}


def repeat_facts(body: dict[str, Any]) -> dict[str, Any]:
    """Answer an extraction with one fact for each word like `fact123` in what was said."""
    words = re.findall(r"\bfact\w+", body["messages"][-1]["content"])
    return {"facts": [{"text": word, "about": "user"} for word in dict.fromkeys(words)]}


_forkserver = multiprocessing.get_context("forkserver")  # imports the writer once, then forks in no time
_forkserver.set_forkserver_preload(["tests.writer_preload"])


def _work(main: Callable[[Settings], int], settings: Settings, environment: dict[str, str], log: Path) -> None:
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ |= environment
    sys.exit(main(settings))


class WriterChild:
    """A writer, or another worker, as a process of its own, whose log is empty at the start."""

    def __init__(
        self,
        settings: Settings,
        environment: dict[str, str],
        log: Path,
        main: Callable[[Settings], int] = run,
    ) -> None:
        self.log = log
        log.write_text("")
        self.process = _forkserver.Process(target=_work, args=(main, settings, environment, log), daemon=True)
        self.process.start()

    @property
    def pid(self) -> int:
        return int(self.process.pid or 0)

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive()

    @property
    def is_ready(self) -> bool:
        return "ready" in self.log.read_text().splitlines()

    async def ready(self, *, seconds: float = 40) -> None:
        async def said_so() -> bool:
            assert self.is_alive, self.log.read_text()[-3000:]
            return self.is_ready

        await eventually(said_so, seconds=seconds)

    def signal(self, number: signal.Signals) -> None:
        if self.is_alive:
            os.kill(self.pid, number)

    def stop(self) -> int | None:
        self.signal(signal.SIGTERM)
        self.process.join(20)
        return self.process.exitcode

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.join(20)


class WriterWorld:
    """Runs writers in this process, says turns, and looks at what became of them."""

    def __init__(self, model_server: ScriptedModelServer, nats_url: str, qdrant_url: str, data_dir: Path) -> None:
        self.model_server = model_server
        self.model_server.default("extract", repeat_facts)
        self.nats_url = nats_url
        self.qdrant_url = qdrant_url
        self.data_dir = data_dir
        self.connection = JetStreamConnection(nats_url)
        self.dead_letters = DeadLetterQueue(self.connection)
        self.memory_store = MemoryStore(qdrant_url)
        self._children: list[WriterChild] = []

    async def open(self) -> None:
        assert await self.connection.open(patience_seconds=10)
        # What other tests left on the shared server.
        await self.connection.purge(TURNS_STREAM, "turns.>")
        await self.connection.purge(DEAD_STREAM, "dead.>")

    async def close(self) -> None:
        for child in self._children:
            child.kill()
        await self.connection.close()
        await self.memory_store.close()

    def settings(self, **changes: Any) -> Settings:
        addresses = {
            "nats_url": self.nats_url,
            "qdrant_url": self.qdrant_url,
            "llm_base_url": self.model_server.url,
            "embedding_base_url": self.model_server.url,
            "data_dir": self.data_dir,
        }
        return Settings(_env_file=None, **addresses | QUICK | changes)

    @asynccontextmanager
    async def writer(self, *, ports_file: Path | None = None, **changes: Any) -> AsyncIterator[WriterProcess]:
        process = WriterProcess(self.settings(**changes), ports_file)
        running = asyncio.create_task(process.run())

        async def ready() -> bool:
            return process.is_ready or running.done()

        try:
            await eventually(ready, seconds=60)
            yield process
        finally:
            process.stop()
            await running

    def spawn(self, name: str = "writer", **changes: Any) -> WriterChild:
        """Start a writer process."""
        child = WriterChild(self.settings(**changes), KEYS, self.data_dir / f"{name}.log")
        self._children.append(child)
        return child

    async def say(
        self, user_id: str, question: str, *, answer: str | None = "Sure.", **changes: Any
    ) -> ConversationTurn:
        """Publish a turn as the chat does."""
        said = turn(user_id, question, answer=answer, **changes)
        await self.publish(user_id, said.model_dump_json().encode(), run_id=str(said.run_id))
        return said

    async def publish(self, user_id: str, body: bytes, *, run_id: str | None = None, **headers: str) -> dict[str, Any]:
        """Publish, and while NATS is away, insist."""
        names = {"Nats-Msg-Id": run_id or str(uuid4()), "Nats-Expected-Stream": TURNS_STREAM}
        while True:
            with contextlib.suppress(QueueUnavailableError):
                return await self.connection.publish(turn_subject("default", user_id), body, names | headers)
            await self.connection.wait_available()

    async def memories(self, user_id: str) -> list[MemoryRecord]:
        """Give what is stored of a user, the oldest first, superseded memories included."""
        found, _ = await self.memory_store.list(Scope("default", user_id=user_id), limit=1000, include_superseded=True)
        return found[::-1]

    async def texts(self, user_id: str) -> list[str]:
        return [memory.text for memory in await self.memories(user_id)]

    async def wait_for_texts(self, user_id: str, texts: list[str], *, seconds: float = 30) -> None:
        async def stored() -> bool:
            return await self.texts(user_id) == texts

        try:
            await eventually(stored, seconds=seconds)
        except pytest.fail.Exception:
            assert await self.texts(user_id) == texts

    async def wait_for_dead_letter(self, run_id: str, *, seconds: float = 30) -> DeadLetter:
        async def found() -> DeadLetter | None:
            return next((letter for letter in await self.dead_letters.list() if letter.run_id == run_id), None)

        return await eventually(found, seconds=seconds)

    async def queued(self, user_id: str | None = None) -> int:
        """Count the turns of a user (or all) that are not dealt with."""
        if user_id is None:
            return int((await self.connection.stream_info(TURNS_STREAM))["state"]["messages"])
        pattern = "turns.*." + turn_subject("default", user_id).partition(".")[2]
        return len(await self.connection.read_subject(TURNS_STREAM, pattern, limit=1000))

    async def drained(self, *, seconds: float = 40) -> None:
        async def empty() -> bool:
            return await self.queued() == 0

        await eventually(empty, seconds=seconds)


def turn(user_id: str, question: str, *, answer: str | None = "Sure.", **changes: Any) -> ConversationTurn:
    said = TurnContext(
        tenant_id="default",
        run_id=str(uuid4()),
        agent=Agent("rag", "Documents", "Answers from documents"),
        locale="en",
        said_at=datetime.now(UTC),
        user_id=user_id,
    )
    return ConversationTurn.of(said, question, answer).model_copy(update=changes)


async def eventually(condition: Callable[[], Awaitable[Any]], *, seconds: float = 10) -> Any:
    """Wait until a condition gives something true."""
    deadline = time.monotonic() + seconds
    while not (result := await condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {condition.__qualname__}")
        await asyncio.sleep(0.02)
    return result
