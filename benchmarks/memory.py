"""
What a filtered memory search costs without the embedding call: the embedded engine against the client's local mode.

`python -m benchmarks.memory [--json FILE] [--sizes 1000,10000,100000]` searches as the product does, one user's and
one tenant's memories, over HTTP with qdrant-client. `--mode load` runs 4 writers and 4 readers as processes for 60 s
and then kills the engine under load: errors, lost and mixed points must all be 0.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

COLLECTION = "memories"
DIMENSION = 384
MEMORIES_PER_USER = 200
TOP_K = 10
SEARCHES = 400
LOCAL_SEARCHES = 20
BATCH = 500
INDEXED = ("tenant_id", "user_id", "status")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--data", type=Path, help="not needed; accepted like in the other benchmarks")
    parser.add_argument("--mode", choices=["search", "load"], default="search")
    parser.add_argument("--sizes", default="1000,10000,100000", help="numbers of memories")
    parser.add_argument("--seconds", type=float, default=60, help="load: for how long")
    chosen = parser.parse_args()
    if chosen.mode == "load":
        figures: dict[str, Any] = measure_load(chosen.seconds)
    else:
        figures = {size: measure_search(int(size)) for size in chosen.sizes.split(",")}
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


def measure_search(size: int) -> dict[str, float]:
    """Fill both with the same memories and search them with the same questions, one after the other."""
    users = max(1, size // MEMORIES_PER_USER)
    questions = np.random.default_rng(size).standard_normal((SEARCHES, DIMENSION)).astype(np.float32)
    with engine() as (url, _), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # local mode warns of its own size
        served = QdrantClient(url=url, timeout=120, check_compatibility=False)
        local = QdrantClient(":memory:")
        for client in (served, local):
            fill(client, size, users)
        edge = timed(served, questions, users)
        slow = timed(local, questions[:LOCAL_SEARCHES], users)
        same = agreement(served, local, questions[:LOCAL_SEARCHES], users)
        served.close()
        local.close()
    figures = {
        "edge_p50_ms": percentile(edge, 50),
        "edge_p95_ms": percentile(edge, 95),
        "local_p50_ms": percentile(slow, 50),
        "local_p95_ms": percentile(slow, 95),
        "times_faster_p95": round(percentile(slow, 95) / percentile(edge, 95), 1),
        "same_hits": same,
    }
    print(f"{size:>8} memories: " + "  ".join(f"{name} {value:g}" for name, value in figures.items()), flush=True)
    return figures


def fill(client: QdrantClient, size: int, users: int) -> None:
    create(client)
    random = np.random.default_rng(1)
    for start in range(0, size, BATCH):
        number = min(BATCH, size - start)
        vectors = random.standard_normal((number, DIMENSION)).astype(np.float32)
        client.upsert(
            COLLECTION,
            [
                models.PointStruct(id=start + row, vector=vectors[row].tolist(), payload=payload(start + row, users))
                for row in range(number)
            ],
        )


def create(client: QdrantClient) -> None:
    cosine = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
    client.create_collection(COLLECTION, vectors_config=cosine)
    for field in INDEXED:
        client.create_payload_index(COLLECTION, field, models.PayloadSchemaType.KEYWORD)


def payload(number: int, users: int) -> dict[str, Any]:
    return {
        "tenant_id": "default",
        "user_id": f"user-{number % users}",
        "status": "current",
        "agent_id": "rag",
        "data": f"Fact number {number}: " + "takes the train to work on most days. " * 3,
        "created_at": "2026-01-01T00:00:00+00:00",
    }


def scope(user: str) -> models.Filter:
    wanted = {"tenant_id": "default", "user_id": user, "status": "current"}
    return models.Filter(
        must=[models.FieldCondition(key=key, match=models.MatchValue(value=value)) for key, value in wanted.items()]
    )


def search(client: QdrantClient, question: Any, user: int) -> list[Any]:
    hits = client.query_points(COLLECTION, query=question, query_filter=scope(f"user-{user}"), limit=TOP_K)
    return [point.id for point in hits.points]


def timed(client: QdrantClient, questions: Any, users: int) -> list[float]:
    search(client, questions[0].tolist(), 0)
    taken = []
    for number, question in enumerate(questions.tolist()):
        started = time.perf_counter()
        search(client, question, number % users)
        taken.append((time.perf_counter() - started) * 1000)
    return taken


def agreement(one: QdrantClient, other: QdrantClient, questions: Any, users: int) -> float:
    """Part of the hits that both give: local mode scans everything, so this is the engine's recall."""
    pairs = [
        (set(search(one, question, number % users)), set(search(other, question, number % users)))
        for number, question in enumerate(questions.tolist())
    ]
    return round(sum(len(a & b) for a, b in pairs) / sum(len(b) for _, b in pairs), 4)


def measure_load(seconds: float) -> dict[str, Any]:
    """Writers and readers as processes; then SIGKILL under load, a restart, and a look at every acknowledged point."""
    with tempfile.TemporaryDirectory() as folder:
        with engine(Path(folder)) as (url, process):
            create(QdrantClient(url=url, check_compatibility=False))
            context = multiprocessing.get_context("spawn")
            stop = context.Event()
            ready = context.Barrier(9)
            written = [context.Value("q", 0) for _ in range(4)]
            counters = [context.Array("q", 3) for _ in range(4)]  # reads, errors, mixed
            workers = [context.Process(target=write, args=(url, user, ready, stop, written[user])) for user in range(4)]
            workers += [
                context.Process(target=read, args=(url, user, ready, stop, counters[user])) for user in range(4)
            ]
            for worker in workers:
                worker.start()
            ready.wait()
            time.sleep(seconds)
            # The writers still write when the engine is killed; the readers' errors up to here are what counts.
            before_kill = [counter[:] for counter in counters]
            alive = sum(worker.is_alive() for worker in workers[:4])
            process.kill()
            process.wait()
            stop.set()
            for worker in workers:
                worker.join()
        with engine(Path(folder)) as (url, _):
            lost = sum(missing(url, user, written[user].value) for user in range(4))
    figures = {
        "seconds": seconds,
        "acknowledged": sum(value.value for value in written),
        "reads": sum(reads for reads, _, _ in before_kill),
        "errors": sum(errors for _, errors, _ in before_kill) + 4 - alive,
        "mixed": sum(mixed for _, _, mixed in before_kill),
        "lost_after_sigkill": lost,
    }
    print("  ".join(f"{name} {value}" for name, value in figures.items()), flush=True)
    return figures


def write(url: str, user: int, ready: Barrier, stop: Event, written: "Synchronized[int]") -> None:
    """Write point after point until the engine is gone; `written` counts what was acknowledged."""
    client = QdrantClient(url=url, timeout=60, check_compatibility=False)
    ready.wait()
    while not stop.is_set():
        number = written.value
        try:
            client.upsert(COLLECTION, [own_point(user, number)])
        except (ApiException, OSError):
            return
        written.value = number + 1


def read(url: str, user: int, ready: Barrier, stop: Event, counts: Any) -> None:
    client = QdrantClient(url=url, timeout=60, check_compatibility=False)
    ready.wait()
    while not stop.is_set():
        try:
            hits = client.query_points(
                COLLECTION,
                query=vector(user, counts[0]),
                query_filter=scope(f"user-{user}"),
                limit=20,
                with_vectors=True,
            )
        except (ApiException, OSError):
            counts[1] += 1
            continue
        counts[0] += 1
        counts[2] += sum(not is_whole(user, hit) for hit in hits.points)


def own_point(user: int, number: int) -> models.PointStruct:
    content = {"tenant_id": "default", "user_id": f"user-{user}", "status": "current", "number": number}
    return models.PointStruct(id=user * 10**9 + number, vector=vector(user, number), payload=content)


def vector(user: int, number: int) -> list[float]:
    values: list[float] = np.random.default_rng([user, number]).standard_normal(DIMENSION).tolist()
    return values


def is_whole(user: int, hit: Any) -> bool:
    """Tell whether id, payload and vector of a hit belong together."""
    number = hit.payload["number"]
    expected = np.array(vector(user, number))
    cosine = float(np.dot(expected / np.linalg.norm(expected), hit.vector))
    return hit.payload["user_id"] == f"user-{user}" and hit.id == user * 10**9 + number and cosine > 0.999


def missing(url: str, user: int, acknowledged: int) -> int:
    client = QdrantClient(url=url, timeout=60, check_compatibility=False)
    lost = 0
    for start in range(0, acknowledged, BATCH):
        numbers = range(start, min(start + BATCH, acknowledged))
        records = client.retrieve(COLLECTION, [user * 10**9 + number for number in numbers], with_vectors=True)
        lost += len(numbers) - sum(is_whole(user, record) for record in records)
    return lost


def percentile(values: list[float], which: int) -> float:
    return round(float(np.percentile(values, which)), 3)


@contextmanager
def engine(folder: Path | None = None) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Run the embedded engine on a folder, a new one when not given."""
    with tempfile.TemporaryDirectory() as scratch:
        ports_file = Path(scratch, "engine.json")
        data = str(folder / "data" if folder else Path(scratch, "data"))
        command = [sys.executable, "-m", "hayrecall.local.engine", "--dir", data, "--ports-file", str(ports_file)]
        process = subprocess.Popen(command, env=os.environ.copy())
        try:
            wait_for(ports_file.exists, process)
            yield json.loads(ports_file.read_text())["url"], process
        finally:
            process.terminate()
            process.wait()


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    while not condition():
        if process.poll() is not None:
            message = f"the engine ended with exit code {process.returncode}"
            raise RuntimeError(message)
        time.sleep(0.02)


if __name__ == "__main__":
    main()
