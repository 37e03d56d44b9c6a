"""The embedded engine as a process: what Edge would get wrong, crashes, full disks, copies, ownership."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from tests.conftest import Child, wait_until

pytestmark = pytest.mark.integration

ENGINE = [sys.executable, "-m", "hayrecall.local.engine"]
NAME = "memories"
EVERYTHING = 10**18


class Engine(Child):
    """A running engine and a client of it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        super().__init__(
            "hayrecall.local.engine", "--dir", str(folder), *arguments, ports_file=folder.parent / "engine.json"
        )
        self.client = QdrantClient(url=self.url, check_compatibility=False, timeout=60)

    def with_collection(self) -> "Engine":
        """Create the collection and a first point."""
        self.client.create_collection(
            NAME,
            vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE),
            sparse_vectors_config={"bm25": models.SparseVectorParams()},
        )
        self.client.upsert(NAME, [point(1)])
        return self

    def count(self) -> int:
        return self.client.count(NAME).count

    def post(self, path: str, body: Any) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.post(f"{self.url}/collections/{NAME}{path}", content=content)

    def put(self, path: str, body: Any) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.put(f"{self.url}/collections/{NAME}{path}?wait=true", content=content)


def point(number: int, **payload: Any) -> models.PointStruct:
    return models.PointStruct(id=number, vector={"": [1.0, float(number)]}, payload={"number": number, **payload})


def error(response: httpx.Response) -> str:
    message: str = response.json()["status"]["error"]
    return message


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    """Start engines on one folder, one after the other."""
    started: list[Engine] = []

    def start(*arguments: str) -> Engine:
        started.append(Engine(tmp_path / "data", *arguments))
        return started[-1]

    yield start
    for engine in started:
        engine.client.close()
        engine.kill()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One engine for the tests that only ask it."""
    engine = Engine(tmp_path_factory.mktemp("engine") / "data").with_collection()
    yield engine
    engine.client.close()
    engine.kill()


NEVER_APPLIED: dict[str, tuple[str, bytes | dict[str, Any]]] = {
    "sparse of unequal lengths": (
        "/points",
        {"points": [{"id": 7, "vector": {"bm25": {"indices": [1, 2], "values": [1.0]}}, "payload": {}}]},
    ),
    "NaN": ("/points", b'{"points": [{"id": 7, "vector": {"": [1.0, NaN]}, "payload": {}}]}'),
    "too large for 32 bits": ("/points", {"points": [{"id": 7, "vector": {"": [1.0, 1e39]}, "payload": {}}]}),
    "NaN in the payload": ("/points", b'{"points": [{"id": 7, "vector": {}, "payload": {"a": NaN}}]}'),
    "wrong dimension": ("/points", {"points": [{"id": 7, "vector": {"": [1.0]}, "payload": {}}]}),
    "second of two is wrong": (
        "/points",
        {"points": [{"id": 7, "vector": {"": [1.0, 1.0]}}, {"id": 8, "vector": {"": [1.0, 1.0, 1.0]}}]},
    ),
    "negative sparse index": (
        "/points",
        {"points": [{"id": 7, "vector": {"bm25": {"indices": [-1], "values": [1.0]}}, "payload": {}}]},
    ),
    "unknown vector": ("/points/vectors", {"points": [{"id": 1, "vector": {"colour": [1.0, 1.0]}}]}),
}


def test_a_refused_write_leaves_no_trace_and_does_not_come_back_with_a_restart(start):
    engine = start().with_collection()
    for kind, (path, body) in NEVER_APPLIED.items():
        response = engine.put(path, body)
        assert response.status_code == 400, kind
    engine.kill()

    restarted = start()

    assert restarted.count() == 1
    assert restarted.client.retrieve(NAME, [1])[0].payload == {"number": 1}
    restarted.client.upsert(NAME, [point(2)])
    assert restarted.count() == 2


@pytest.mark.parametrize("call", ["set_payload", "overwrite_payload"])
def test_a_change_of_several_points_of_which_one_is_missing_changes_none(engine, call):
    with pytest.raises(UnexpectedResponse) as refused:
        getattr(engine.client, call)(NAME, {"changed": 1}, points=[1, 404])

    assert refused.value.status_code == 404
    assert "404" in str(refused.value.content)
    assert engine.client.retrieve(NAME, [1])[0].payload == {"number": 1}


@pytest.mark.parametrize("clause", ["must", "must_not", "should"])
def test_a_match_on_a_boolean_is_refused_wherever_it_stands(engine, clause):
    response = engine.post("/points/count", {"filter": {clause: [{"key": "flag", "match": {"value": True}}]}})

    assert response.status_code == 400
    assert "boolean" in error(response)


UNKNOWN: dict[str, tuple[str, dict[str, Any], str]] = {
    "field": ("/points/query", {"query": [1, 1], "limmit": 3}, "limmit"),
    "condition": ("/points/count", {"filter": {"must": [{"key": "a", "mtach": {"value": 1}}]}}, "mtach"),
    "parameter": ("/points/count?sort=up", {}, "sort"),
    "shard key": ("/points/count", {"shard_key": "a"}, "shard_key"),
    "lookup": ("/points/query", {"query": [1, 1], "lookup_from": {"collection": "b"}}, "lookup_from"),
    "quantization": (
        "/points/query",
        {"query": [1, 1], "params": {"quantization": {"rescore": True}}},
        "quantization",
    ),
    "search by id": ("/points/query", {"query": 1}, "query"),
    "diversity": ("/points/query", {"query": {"nearest": [1, 1], "mmr": {}}}, "mmr"),
    "recommendation": ("/points/query", {"query": {"recommend": {"positive": [1]}}}, "RecommendQuery"),
    "polygon": (
        "/points/count",
        {
            "filter": {
                "must": {
                    "key": "a",
                    "geo_polygon": {"exterior": {"points": [{"lon": 1, "lat": 1}] * 4}, "interiors": None},
                }
            }
        },
        "geo_polygon",
    ),
    "two conditions in one": (
        "/points/count",
        {"filter": {"must": [{"key": "a", "match": {"value": 1}, "range": {"gt": 1}}]}},
        "exactly one",
    ),
    "path": ("/points/count", {"filter": {"must": [{"key": "a[", "match": {"value": 1}}]}}, "a["),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_what_the_engine_does_not_know_is_refused_by_name_and_never_ignored(engine, kind):
    path, body, named = UNKNOWN[kind]

    response = engine.post(path, body)

    assert response.status_code == 400
    assert named in error(response)


@pytest.mark.parametrize("setting", ["optimizers_config", "quantization_config", "wal_config", "strict_mode_config"])
def test_a_collection_setting_that_would_have_no_effect_is_refused(engine, setting):
    settings: dict[str, Any] = {"quantization_config": {"scalar": {"type": "int8"}}}
    body = {"vectors": {"size": 2, "distance": "Cosine"}, setting: settings.get(setting, {})}

    response = httpx.put(f"{engine.url}/collections/other", json=body)

    assert response.status_code == 400
    assert setting in error(response)
    assert not engine.client.collection_exists("other")


def test_an_unknown_route_says_so_in_qdrants_shape(engine):
    response = httpx.post(f"{engine.url}/collections/{NAME}/points/discover", json={})

    assert response.status_code in {404, 405}
    assert "not supported" in error(response)


def test_points_of_equal_fused_score_always_come_in_the_same_order(engine):
    engine.client.upsert(NAME, [point(number) for number in range(2, 40)])
    prefetch = [{"query": [1.0, 1.0], "filter": {"must": {"has_id": [number]}}} for number in range(20, 2, -1)]
    body = {"prefetch": prefetch, "query": {"fusion": "rrf"}, "limit": 5}

    pages = {
        tuple(hit["id"] for hit in engine.post("/points/query", body).json()["result"]["points"]) for _ in range(20)
    }

    engine.client.delete(NAME, list(range(2, 40)))
    assert len(pages) == 1


def test_a_key_is_asked_for_when_one_is_set(start):
    engine = start("--api-key", "secret")

    assert httpx.get(f"{engine.url}/collections").status_code == 401
    assert httpx.get(f"{engine.url}/collections", headers={"api-key": "wrong"}).status_code == 401
    assert httpx.get(f"{engine.url}/collections", headers={"api-key": "secret"}).status_code == 200
    assert httpx.get(f"{engine.url}/collections", headers={"Authorization": "Bearer secret"}).status_code == 200
    assert httpx.get(f"{engine.url}/readyz").status_code == 200


def test_a_body_over_the_limit_is_refused(engine):
    response = engine.post("/points/count", b" " * (33 * 1024 * 1024))

    assert response.status_code == 413


def test_a_full_disk_refuses_writes_with_a_sentence_and_still_reads_and_deletes(start):
    engine = start().with_collection()
    assert engine.stop() == 0
    full = start("--least-free-bytes", str(EVERYTHING))

    refused = full.put("/points", {"points": [{"id": 2, "vector": {"": [1.0, 1.0]}}]})
    created = httpx.put(f"{full.url}/collections/other", json={"vectors": {"size": 2, "distance": "Cosine"}})

    assert (refused.status_code, created.status_code) == (507, 507)
    assert "No space left" in error(refused)
    assert full.count() == 1
    full.client.delete(NAME, [1])
    assert full.count() == 0


def test_sigterm_and_ctrl_c_end_it_with_0_and_everything_is_there_again(start):
    engine = start().with_collection()
    ports_file = engine.folder.parent / "engine.json"
    assert json.loads(ports_file.read_text())["pid"] == engine.process.pid

    assert engine.stop() == 0
    assert not ports_file.exists()
    restarted = start()
    assert restarted.count() == 1
    os.kill(restarted.process.pid, signal.SIGINT)

    assert restarted.process.wait(20) == 0


@pytest.mark.parametrize("command", ["serve", "optimize"])
def test_a_second_process_on_the_folder_ends_with_a_sentence(engine, command):
    second = subprocess.run(
        [*ENGINE, command, "--dir", str(engine.folder)], capture_output=True, text=True, timeout=60, check=False
    )

    assert second.returncode == 1
    assert "is in use by process" in second.stderr
    assert "Traceback" not in second.stderr


def test_it_dies_with_the_process_that_started_it(tmp_path):
    ports_file = tmp_path / "engine.json"
    command = [*ENGINE, "--dir", str(tmp_path / "data"), "--ports-file", str(ports_file)]
    script = f"import subprocess, time; subprocess.Popen({command!r}); time.sleep(600)"
    parent = subprocess.Popen([sys.executable, "-c", script])
    try:
        wait_until(ports_file.exists, seconds=60)
        pid = json.loads(ports_file.read_text())["pid"]
    finally:
        parent.kill()
        parent.wait()

    wait_until(lambda: not Path(f"/proc/{pid}").exists() or "zombie" in Path(f"/proc/{pid}/status").read_text())


def test_what_a_crash_left_of_a_creation_is_removed_and_a_broken_shard_stops_no_other(start):
    engine = start().with_collection()
    for name in ("broken", "unfinished"):
        engine.client.create_collection(name, vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
    assert engine.stop() == 0
    (engine.folder / "unfinished" / "collection.json").unlink()
    (engine.folder / "broken" / "shard" / "edge_config.json").write_text("{")

    restarted = start()

    assert restarted.count() == 1
    assert not (engine.folder / "unfinished").exists()
    response = httpx.get(f"{restarted.url}/collections/broken")
    assert response.status_code == 500
    assert "cannot be loaded" in error(response)
    assert (engine.folder / "broken").exists()
    assert httpx.delete(f"{restarted.url}/collections/broken").json()["result"] is True


def test_acknowledged_points_survive_sigkill_under_load(start):
    engine = start().with_collection()
    acknowledged: list[int] = []

    def write(first: int) -> None:
        client = QdrantClient(url=engine.url, check_compatibility=False, timeout=60)
        for number in range(first, first + 100_000):
            try:
                client.upsert(NAME, [point(number)])
            except (ResponseHandlingException, UnexpectedResponse):
                break
            acknowledged.append(number)
        client.close()

    writers = [threading.Thread(target=write, args=(first,)) for first in (10, 10**6, 10**7)]
    for writer in writers:
        writer.start()
    wait_until(lambda: len(acknowledged) > 150, seconds=60)
    engine.kill()
    for writer in writers:
        writer.join()

    restarted = start()
    kept = {record.id for record in restarted.client.retrieve(NAME, acknowledged)}

    assert kept == set(acknowledged)


def test_readers_and_writers_at_once_lose_nothing_and_mix_nothing(start):
    engine = start().with_collection()
    end = time.monotonic() + 3
    written: dict[int, str] = {}
    failures: list[Exception] = []

    def write(user: int) -> None:
        client = QdrantClient(url=engine.url, check_compatibility=False, timeout=60)
        number = user * 10**6
        while time.monotonic() < end:
            number += 1
            client.upsert(NAME, [point(number, user=f"user{user}")])
            written[number] = f"user{user}"
        client.close()

    def read(user: int) -> None:
        client = QdrantClient(url=engine.url, check_compatibility=False, timeout=60)
        only = models.Filter(must=[models.FieldCondition(key="user", match=models.MatchValue(value=f"user{user}"))])
        while time.monotonic() < end:
            hits = client.query_points(NAME, query=[1.0, 1.0], query_filter=only, limit=20).points
            if any(hit.payload["user"] != f"user{user}" for hit in hits):
                failures.append(AssertionError("a hit of somebody else"))
        client.close()

    def guarded(work: Callable[[int], None], user: int) -> None:
        try:
            work(user)
        except (ResponseHandlingException, UnexpectedResponse) as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(work, user)) for work in (write, read) for user in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    stored = {record.id: record.payload["user"] for record in engine.client.retrieve(NAME, list(written))}
    assert failures == []
    assert stored == written


def test_a_copy_made_while_serving_opens_as_a_data_folder(start, tmp_path):
    engine = start().with_collection()
    copy = engine.client.create_full_snapshot()
    engine.client.upsert(NAME, [point(2)])
    assert [one.name for one in engine.client.list_full_snapshots()] == [copy.name]
    (engine.folder / ".snapshots" / copy.name).rename(tmp_path / "restored")
    engine.client.close()

    restored = Engine(tmp_path / "restored")
    try:
        assert restored.count() == 1
    finally:
        restored.client.close()
        restored.kill()


def test_the_folder_of_a_stopped_engine_is_optimized_and_copied_by_command(start, tmp_path):
    engine = start().with_collection()
    engine.client.upsert(NAME, [point(number) for number in range(2, 300)])
    folder = str(engine.folder)
    assert engine.stop() == 0

    for command in (["optimize"], ["backup", "--to", str(tmp_path / "backup")]):
        done = subprocess.run(
            [*ENGINE, *command, "--dir", folder], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr

    assert (tmp_path / "backup" / NAME / "collection.json").exists()
    assert start().count() == 299


def test_of_what_was_deleted_no_byte_is_left_once_the_folder_is_optimized(start):
    engine = start().with_collection()
    engine.client.upsert(NAME, [point(number, data=f"Amsel {number}") for number in range(2, 300)])
    engine.client.upsert(NAME, [point(300, data="Zebrafink")])
    engine.client.set_payload(NAME, {"data": "Zebrafink and more"}, points=[300])
    engine.client.delete(NAME, [300])
    assert engine.stop() == 0
    assert files_with("Zebrafink", engine.folder)

    done = subprocess.run(
        [*ENGINE, "optimize", "--dir", str(engine.folder)], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
    assert files_with("Zebrafink", engine.folder) == []
    assert files_with("Amsel", engine.folder)
    again = start()
    assert again.count() == 299
    again.client.upsert(NAME, [point(301)])
    again.kill()
    assert start().count() == 300


def files_with(word: str, folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]
