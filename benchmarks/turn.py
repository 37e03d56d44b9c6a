"""
What a turn costs over its models' own time: until the first token, until the end, and in CPU time.

A scripted model server answers after set latencies. The longest chain of them is the critical path: gate beside
condenser, then the embedding, then the answer's first byte. Everything over it is Hayrecall's own, with its databases
and queue. One chat at a time means that a person reads before asking again: the writer is done with a turn when the
next one begins. With 16 at a time, chats, writer, databases, models and this client share the machine.
"""

import asyncio
import os
import re
import statistics
import time
from typing import Any

import httpx

from benchmarks.instance import Instance, running
from benchmarks.report import arguments, percentile, show, write
from tests.scripted_model_server import ScriptedModelServer, Stream

GATE, CONDENSER, EMBED, ANSWER = 0.1, 0.15, 0.02, 0.1  # seconds until a stage's first byte
PIECES, GAP = 20, 0.01  # pieces of the answer, seconds between them
READING = 0.5  # seconds between the turns of a single chat
CRITICAL_PATH = max(GATE, CONDENSER) + EMBED + ANSWER
WHOLE = CRITICAL_PATH + (PIECES - 1) * GAP


async def turn(client: httpx.AsyncClient, number: int) -> tuple[float, float]:
    """
    Have one turn.

    :returns: Seconds over the models' time until the first token, and until the end of the response.
    """
    body = {
        "model": "rag",
        "stream": True,
        "messages": [{"role": "user", "content": f"What do I have to know about topic {number}?"}],
    }
    started = time.perf_counter()
    first = None
    async with client.stream(
        "POST", "/v1/chat/completions", json=body, headers={"X-OpenWebUI-User-Id": f"user-{number % 50}"}
    ) as response:
        if response.status_code != 200:
            raise SystemExit(f"the server answered {response.status_code}: {(await response.aread())[:300]!r}")
        async for line in response.aiter_lines():
            if first is None and '"content":"word' in line.replace(": ", ":"):
                first = time.perf_counter() - started
    if first is None:
        raise SystemExit("a turn had no answer")
    return first - CRITICAL_PATH, time.perf_counter() - started - WHOLE


async def measure(instance: Instance, turns: int, at_a_time: int) -> dict[str, Any]:
    """Have turns, so many at a time, and give the figures in milliseconds."""
    limit = asyncio.Semaphore(at_a_time)
    pid = _server_pid(instance)
    async with httpx.AsyncClient(base_url=instance.url, headers=instance.headers, timeout=60) as client:

        async def one(number: int) -> tuple[float, float]:
            async with limit:
                cost = await turn(client, number)
                await asyncio.sleep(READING if at_a_time == 1 else 0)
                return cost

        await asyncio.gather(*(one(number) for number in range(at_a_time * 2)))  # warm
        cpu = _cpu_seconds(pid)
        costs = await asyncio.gather(*(one(number) for number in range(turns)))
        cpu = _cpu_seconds(pid) - cpu
    first, end = ([1000 * cost[place] for cost in costs] for place in (0, 1))
    return {
        "first_token_p50_ms": round(statistics.median(first), 1),
        "first_token_p95_ms": round(percentile(first, 0.95), 1),
        "end_p50_ms": round(statistics.median(end), 1),
        "end_p95_ms": round(percentile(end, 0.95), 1),
        "server_cpu_ms": round(1000 * cpu / turns, 1),
    }


def _server_pid(instance: Instance) -> int:
    """Find the server among the children of `up`."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/stat") as stat, open(f"/proc/{entry.name}/cmdline") as command:
                    parent, arguments_ = int(stat.read().rpartition(")")[2].split()[1]), command.read()
            except OSError:
                continue
            if parent == instance.pid and re.search(r"\0serve(\0|$)", arguments_):
                return int(entry.name)
    raise SystemExit("the server's process was not found")


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        user, system = stat.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and report."""
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, default=100, help="turns to measure at each load")
    options = parser.parse_args()
    models = ScriptedModelServer().start()
    models.latency |= {"gate": GATE, "condenser": CONDENSER, "embed": EMBED, "answer": ANSWER}
    models.default("condenser", "What is there to know about the topic?")
    models.default("answer", Stream(tuple(f"word{number} " for number in range(PIECES)), GAP))
    with running(models.url) as instance:
        handbook = {"file": ("handbook.md", "# Topics\n\nWhat there is to know about the topic stands here.\n")}
        httpx.post(
            f"{instance.url}/v1/documents", files=handbook, headers=instance.headers, timeout=60
        ).raise_for_status()
        figures = {
            f"{at_a_time} at a time": asyncio.run(measure(instance, options.turns, at_a_time)) for at_a_time in (1, 16)
        }
    models.stop()
    show(f"A turn's cost over its models' {CRITICAL_PATH:.2f} s (first token) and {WHOLE:.2f} s (end)", figures)
    write(options.json, {"critical_path_seconds": CRITICAL_PATH, "turns": options.turns, **figures})


if __name__ == "__main__":
    main()
