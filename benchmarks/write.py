"""
What a memory write costs, from the publish until the memory is found, for users with few and with many memories.

A whole instance runs with a scripted model that thinks for a second in each call. Each turn tells a fact that resembles
stored ones, so that the model is asked twice: the dearest kind of write.
"""

import asyncio
import json
import statistics
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from benchmarks.instance import Instance, running
from benchmarks.report import arguments, percentile, show, write
from components.memory_record import MemoryRecord
from components.memory_scope import Scope
from components.memory_store import MemoryStore
from components.turn_queue import TurnQueue
from contracts.payloads import AgentIdentity, ConversationTurn, TurnMessage
from contracts.settings import Settings
from hayrecall.local.instance import connected
from tests.scripted_model_server import ScriptedModelServer, embed

TENANT = "default"
MODEL_SECONDS, EMBED_SECONDS = 1.0, 0.05
MEMORIES = (100, 5_000, 20_000)  # of one user each
TOPICS = ("tea", "badges", "parking", "lunch", "trains", "holidays", "projects", "languages")
BATCH = 500  # memories in a request while filling
DEADLINE_SECONDS = 60
CALLS = ("extract", "reconcile", "embed")


def fact(number: int) -> str:
    """Give a fact that shares its words with many others."""
    return f"The user knows {number} things about {TOPICS[number % len(TOPICS)]}."


async def fill(memories: MemoryStore, scope: Scope, count: int) -> None:
    """Store memories as the writer would have."""
    now = datetime.now(UTC)
    for start in range(0, count, BATCH):
        records = [
            MemoryRecord(
                id=str(uuid.uuid4()),
                text=fact(number),
                vector=tuple(embed(fact(number))),
                created_at=now,
                stated_at=now,
                locale="en",
                statement=f"I know {number} things.",
                run_id=str(uuid.uuid4()),
            )
            for number in range(start, min(start + BATCH, count))
        ]
        await memories.apply(scope, records)


async def write_one(queue: TurnQueue, memories: MemoryStore, scope: Scope, number: int) -> float:
    """
    Say something, and wait until it is remembered.

    :returns: Seconds.
    """
    said = ConversationTurn(
        run_id=uuid.uuid4(),
        tenant_id=TENANT,
        user_id=str(scope.user_id),
        messages=(TurnMessage(role="user", content=f"I know {number} things about tea."),),
        agent=AgentIdentity(id="rag"),
        locale="en",
        said_at=datetime.now(UTC),
    )
    started = time.perf_counter()
    if await queue.publish(said) != "stored":
        raise SystemExit("NATS did not take a turn")
    while not await memories.has_run(scope, str(said.run_id)):
        if time.perf_counter() - started > DEADLINE_SECONDS:
            raise SystemExit(f"a turn was not remembered within {DEADLINE_SECONDS} s")
        await asyncio.sleep(0.01)
    return time.perf_counter() - started


async def measure(instance: Instance, server: ScriptedModelServer, writes: int) -> dict[str, Any]:
    """Fill, write in turns for each user, and give the figures."""
    with connected(Settings(data_dir=instance.data_dir), ["nats", "qdrant"]) as settings:
        memories = MemoryStore.of(settings)
        queue = TurnQueue(settings.nats_url, data_dir=instance.data_dir / "bench")
    scopes = {count: Scope(TENANT, user_id=f"user with {count}") for count in MEMORIES}
    for count, scope in scopes.items():
        await fill(memories, scope, count)
    seconds: dict[int, list[float]] = {count: [] for count in MEMORIES}
    calls: dict[int, list[dict[str, int]]] = {count: [] for count in MEMORIES}
    for number in range(-1, writes):  # the first is to warm up
        for count, scope in scopes.items():
            server.log.clear()
            elapsed = await write_one(queue, memories, scope, 1_000_000 + number)
            if number >= 0:
                seconds[count].append(elapsed)
                calls[count].append({stage: len(server.calls(stage)) for stage in CALLS})
    await queue.close()
    await memories.close()
    return {str(count): figures(seconds[count], calls[count]) for count in MEMORIES}


def figures(seconds: list[float], calls: list[dict[str, int]]) -> dict[str, Any]:
    """Sum up the writes of one user."""
    models = 2 * MODEL_SECONDS + EMBED_SECONDS
    return {
        "write_p50_s": round(statistics.median(seconds), 3),
        "write_p95_s": round(percentile(seconds, 0.95), 3),
        "over_the_models_p50_ms": round(1000 * (statistics.median(seconds) - models), 1),
        "model_calls_max": max(one["extract"] + one["reconcile"] for one in calls),
        "embedding_calls_max": max(one["embed"] for one in calls),
    }


def extracted(body: dict[str, Any]) -> dict[str, Any]:
    """Answer as the model does: a fact that is new, and resembles others."""
    number = next(word for word in body["messages"][-1]["content"].split() if word.isdigit())
    return {"facts": [{"text": fact(int(number)), "about": "user"}]}


def decided(body: dict[str, Any]) -> dict[str, Any]:
    """Let the new fact supersede the memory that is shown first."""
    lines = (line for line in body["messages"][-1]["content"].splitlines() if line.startswith("{"))
    shown = [row for row in map(json.loads, lines) if "memory" in row]
    return {"decisions": [{"fact": 0, "action": "supersede", "memory": shown[0]["memory"]}]}


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__)
    parser.add_argument("--writes", type=int, default=15, help="writes for each user")
    options = parser.parse_args()
    server = ScriptedModelServer().start()
    server.default("extract", extracted)
    server.default("reconcile", decided)
    server.latency |= {"extract": MODEL_SECONDS, "reconcile": MODEL_SECONDS, "embed": EMBED_SECONDS}
    try:
        with running(server.url) as instance:
            rows = asyncio.run(measure(instance, server, options.writes))
    finally:
        server.stop()
    show("A memory write with a model of 1 s, by memories of the user", rows)
    few, many = str(MEMORIES[0]), str(MEMORIES[-1])
    growth = round(rows[many]["write_p50_s"] / rows[few]["write_p50_s"], 3)
    print(f"{many} memories take {growth} times as long as {few}; claims: p95 <= 5 s, <= 2 + 2 calls, <= 1.1 times")
    write(options.json, {"model_seconds": MODEL_SECONDS, "by_memories": rows, "growth": growth})


if __name__ == "__main__":
    main()
