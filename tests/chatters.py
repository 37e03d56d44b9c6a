"""People who chat whatever happens to the server, and what must have become of their turns."""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx

from components.jetstream import JetStreamConnection
from contracts.payloads import ConversationTurn, read_turn
from contracts.queue import TURNS_STREAM
from tests.scripted_model_server import ScriptedModelServer, Stream

_TOPIC = re.compile(r"topic-\d+-\d+")
PIECES = 8


@dataclass
class Talk:
    """One question, and how far its client saw the run come."""

    user: str
    topic: str
    run_id: str = ""
    text: str = ""
    done: bool = False

    @property
    def question(self) -> str:
        return f"What is there to know about {self.topic}?"


def answer(topic: str) -> str:
    return "".join(_pieces(topic))


def script(models: ScriptedModelServer, *, gap_seconds: float) -> None:
    """Let the models condense to the question itself, and answer it in pieces."""

    def topic(body: Mapping[str, Any]) -> str:
        return str(_TOPIC.findall(str(body["messages"][-1]["content"]))[-1])

    models.default("condenser", lambda body: Talk("", topic(body)).question)
    models.default("answer", lambda body: Stream(_pieces(topic(body)), gap_seconds))


class Chatters:
    """Users who each ask one thing after the other."""

    def __init__(self, url: str, key: str, count: int) -> None:
        self.talks: list[Talk] = []
        self.refused = 0  # an overloaded machine's engine does not answer in time: said so, nothing begun
        self._count = count
        self._stopping = asyncio.Event()
        headers = {"Authorization": f"Bearer {key}"}
        self._client = httpx.AsyncClient(
            base_url=url, headers=headers, timeout=60, limits=httpx.Limits(max_connections=None)
        )

    async def chat(self) -> None:
        """Talk until `stop`; what is being said then is still finished."""
        async with self._client, asyncio.TaskGroup() as tasks:
            for number in range(self._count):
                tasks.create_task(self._chat(number))

    async def more(self, talks: int, *, seconds: float = 120) -> None:
        """Wait until so many more responses have begun."""
        enough = len(self.talks) + talks
        async with asyncio.timeout(seconds):
            while len(self.talks) < enough:
                await asyncio.sleep(0.005)

    def stop(self) -> None:
        self._stopping.set()

    async def _chat(self, number: int) -> None:
        said = 0
        while not self._stopping.is_set():
            said += 1
            talk = Talk(f"user-{number}", f"topic-{number}-{said}")
            try:
                await self._ask(talk)
            except httpx.ConnectError:  # asked nobody
                await asyncio.sleep(0.05)
            except httpx.TransportError:  # the server died meanwhile
                pass

    async def _ask(self, talk: Talk) -> None:
        body = {"model": "rag", "stream": True, "messages": [{"role": "user", "content": talk.question}]}
        headers = {"X-OpenWebUI-User-Id": talk.user}
        async with self._client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response:
            if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                self.refused += 1
                return
            if response.status_code != httpx.codes.OK:
                raise AssertionError(f"the server answered {response.status_code}: {await response.aread()!r}")
            self.talks.append(talk)
            async for line in response.aiter_lines():
                _note(talk, line.removeprefix("data: "))

    async def verdict(self, connection: JetStreamConnection, *, seconds: float) -> "Verdict":
        """Wait until everything that must be on the queue is there, at most so many seconds, and judge."""
        deadline = time.monotonic() + seconds
        while True:
            verdict = judge(self.talks, await _stored(connection))
            if not (verdict.lost_answers or verdict.lost_questions) or time.monotonic() > deadline:
                return verdict
            await asyncio.sleep(0.05)


@dataclass(frozen=True)
class Verdict:
    """What clients saw, what the queue holds, and what must be 0."""

    answered: int  # the client saw [DONE]
    broken_off: int  # it saw text, and no end
    silent: int  # it saw the beginning of the response and no text: may be stored or not
    stored: int
    half_turns: int
    lost_answers: int
    lost_questions: int
    doubled: int
    wrong: int
    order_violations: int

    @property
    def faults(self) -> int:
        return self.lost_answers + self.lost_questions + self.doubled + self.wrong + self.order_violations


def judge(talks: Sequence[Talk], stored: Sequence[ConversationTurn]) -> Verdict:
    """
    Compare what clients saw with what the queue holds.

    :param talks: What was said, in the order of each user.
    :param stored: In the order of the queue.
    """
    by_run = {str(turn.run_id): turn for turn in stored}
    answered = [talk for talk in talks if talk.done]
    broken_off = [talk for talk in talks if talk.text and not talk.done]
    places: dict[str, list[int]] = {}
    for turn in stored:
        places.setdefault(turn.user_id, []).append(int(turn.question.rstrip("?").rpartition("-")[2]))
    topics = Counter(turn.question for turn in stored)
    return Verdict(
        answered=len(answered),
        broken_off=len(broken_off),
        silent=sum(not talk.text for talk in talks),
        stored=len(stored),
        half_turns=sum(turn.answer is None for turn in stored),
        lost_answers=sum(talk.run_id not in by_run or by_run[talk.run_id].answer is None for talk in answered),
        lost_questions=sum(talk.run_id not in by_run for talk in broken_off),
        doubled=len(stored) - len(by_run) + sum(count - 1 for count in topics.values()),
        wrong=sum(not _is_right(talk, by_run[talk.run_id]) for talk in talks if talk.run_id in by_run),
        order_violations=sum(later < earlier for found in places.values() for earlier, later in pairwise(found)),
    )


def _is_right(talk: Talk, turn: ConversationTurn) -> bool:
    said = (turn.user_id, turn.question, turn.answer or answer(talk.topic))
    return said == (talk.user, talk.question, answer(talk.topic))


async def _stored(connection: JetStreamConnection) -> list[ConversationTurn]:
    messages = await connection.read_subject(TURNS_STREAM, "turns.>", limit=1_000_000, timeout_seconds=30)
    turns = [read_turn(message.body) for message in messages]
    return [turn for turn in turns if isinstance(turn, ConversationTurn)]


def _pieces(topic: str) -> tuple[str, ...]:
    return (f"On {topic}:", *(f" part {number}" for number in range(1, PIECES)))


def _note(talk: Talk, data: str) -> None:
    if data == "[DONE]":
        talk.done = True
    elif data:
        chunk = json.loads(data)
        talk.run_id = chunk["id"].removeprefix("chatcmpl-")
        talk.text += "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
