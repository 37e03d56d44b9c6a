"""MemoryStore keeps each owner's memories apart, repeats without effect, and stays readable for stock mem0."""

import asyncio
import contextlib
import socket
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from haystack.utils import Secret
from qdrant_client import QdrantClient, models

from components.memory_record import MemoryRecord
from components.memory_scope import Scope
from components.memory_store import MemoryStore
from contracts.errors import ConfigurationError, StaleMemoryError, StoreUnavailableError
from contracts.turn import Vector
from tests.scripted_model_server import embed

pytestmark = pytest.mark.integration

MONDAY = datetime(2025, 12, 1, 22, 30, tzinfo=UTC)
HOSTILE_IDS = ["a b", "*", ">", "a/b\\c", "ann.b@acme.example", "x" * 500, "a\r\nb", "אבג", "😀", "org-x", "default"]


def vector(text: str) -> Vector:
    return Vector(tuple(embed(text)))


def record(text: str, *, at: datetime = MONDAY, run_id: str | None = None, **fields) -> MemoryRecord:
    values = {"agent_id": "rag", "locale": "en", "statement": f"Did you know: {text}", "stated_at": at} | fields
    return MemoryRecord(
        id=str(uuid.uuid4()), text=text, created_at=at, run_id=run_id, vector=vector(text).values, **values
    )


def scope_of(user_id: str) -> Scope:
    return Scope("acme", user_id=user_id)


@pytest.fixture
def me() -> Scope:
    return scope_of(f"user {uuid.uuid4()}")


@pytest.fixture
async def store(qdrant_url):
    store = MemoryStore(qdrant_url, collection="test_memories")
    yield store
    await store.close()


async def texts(store: MemoryStore, scope: Scope, **options) -> list[str]:
    return [memory.text for memory in (await store.list(scope, **options))[0]]


async def test_finds_the_memories_of_two_owners_in_one_request_best_first(store, me):
    ours = Scope("acme", organization_namespace=str(uuid.uuid4()))
    await store.apply(me, [record("likes green tea"), record("likes black coffee")])
    await store.apply(ours, [record("the office serves green tea")])

    mine, organizations = await store.search(vector("likes tea"), [me, ours], top_k=2)

    assert [memory.content for memory in mine] == ["likes green tea", "likes black coffee"]
    assert [memory.content for memory in organizations] == ["the office serves green tea"]
    assert 1 >= mine[0].score > mine[1].score > 0
    assert MemoryRecord.from_document(mine[0]).statement == "Did you know: likes green tea"


async def test_ids_of_any_kind_stay_apart_in_every_call(store):
    run = str(uuid.uuid4())
    scopes = [scope_of(f"{hostile}{run}" if hostile not in {"*", ">"} else hostile) for hostile in HOSTILE_IDS]
    for scope in scopes:
        await store.apply(scope, [record(f"secret of {scope.user_id}", run_id=run)])

    for scope in scopes:
        assert await texts(store, scope) == [f"secret of {scope.user_id}"]
        (found,) = await store.search(vector("secret of"), [scope], top_k=50)
        assert [memory.content for memory in found] == [f"secret of {scope.user_id}"]

    await store.delete_all(scope_of("*"))
    assert await texts(store, scopes[0]) == [f"secret of {scopes[0].user_id}"]


async def test_the_same_user_in_another_tenant_is_another_owner(store, me):
    await store.apply(me, [mine := record("works in Basel")])
    stranger = Scope("other", user_id=me.user_id)

    assert await texts(store, stranger) == []
    assert await store.get(stranger, mine.id) is None
    assert await store.edit(stranger, mine.id, "hacked", vector("hacked")) is None
    assert await store.delete(stranger, [mine.id]) == 0
    await store.apply(stranger, [], [(mine.id, str(uuid.uuid4()), MONDAY)])
    assert await texts(store, me) == ["works in Basel"]


@pytest.mark.parametrize("unknown", ["no-uuid", "", "*", "00000000-0000-4000-8000-000000000000"])
async def test_an_id_that_cannot_be_is_as_unknown_as_a_wrong_one(store, me, unknown):
    assert await store.get(me, unknown) is None
    assert await store.edit(me, unknown, "x", vector("x")) is None
    assert await store.delete(me, [unknown]) == 0


async def test_a_superseded_memory_is_dated_kept_and_not_found(store, me):
    await store.apply(me, [old := record("works in Zug")])
    new = record("works in Basel", at=MONDAY + timedelta(days=1))
    later = MONDAY + timedelta(days=2)

    for _ in range(2):  # a repetition changes nothing more
        await store.apply(me, [new], [(old.id, new.id, later)])
    await store.apply(me, [], [(old.id, str(uuid.uuid4()), later + timedelta(days=1))])

    assert await texts(store, me) == ["works in Basel"]
    (found,) = await store.search(vector("works in Zug"), [me], top_k=5)
    assert [memory.content for memory in found] == ["works in Basel"]
    kept = await store.get(me, old.id)
    assert (kept.status, kept.superseded_by, kept.superseded_at) == ("superseded", new.id, later)
    assert await texts(store, me, include_superseded=True) == ["works in Basel", "works in Zug"]


async def test_applying_again_undoes_no_edit(store, me):
    await store.apply(me, [said := record("badge is blue")])
    await store.edit(me, said.id, "badge is red", vector("badge is red"))

    await store.apply(me, [said])

    assert await texts(store, me) == ["badge is red"]


async def test_an_edit_keeps_the_id_and_leaves_the_version_before_as_history(store, me):
    await store.apply(me, [said := record("badge is blue")])
    before = await store.get(me, said.id)

    after = await store.edit(me, said.id, "badge is red", vector("badge is red"), etag=before.etag)

    assert (after.id, after.text, after.source, after.statement) == (said.id, "badge is red", "edit", "")
    assert after.etag != before.etag
    (found,) = await store.search(vector("badge is red"), [me], top_k=5)
    assert [memory.content for memory in found] == ["badge is red"]
    history = [memory for memory in (await store.list(me, include_superseded=True))[0] if memory.superseded_by]
    assert [(old.text, old.superseded_by, old.statement) for old in history] == [
        ("badge is blue", said.id, said.statement)
    ]


async def test_an_edit_of_an_outdated_version_is_refused(store, me):
    await store.apply(me, [said := record("badge is blue")])
    read = await store.get(me, said.id)
    await store.edit(me, said.id, "badge is red", vector("badge is red"), etag=read.etag)

    with pytest.raises(StaleMemoryError):
        await store.edit(me, said.id, "badge is green", vector("badge is green"), etag=read.etag)

    assert await texts(store, me) == ["badge is red"]


async def test_of_edits_at_the_same_time_one_wins_and_the_others_are_told(store, me):
    await store.apply(me, [said := record("badge is blue")])
    read = await store.get(me, said.id)

    results = await asyncio.gather(
        *(store.edit(me, said.id, f"badge {i}", vector(f"badge {i}"), etag=read.etag) for i in range(5)),
        return_exceptions=True,
    )

    won = [result for result in results if isinstance(result, MemoryRecord)]
    assert len(won) == 1
    assert all(isinstance(result, StaleMemoryError) for result in results if result not in won)
    assert await texts(store, me) == [won[0].text]
    assert len(await texts(store, me, include_superseded=True)) == 2


async def test_deleting_takes_everything_along_that_the_memory_superseded(store, me):
    zug, basel = record("canary-zug"), record("canary-basel", at=MONDAY + timedelta(days=1))
    other = record("likes tea")
    await store.apply(me, [zug, other])
    await store.apply(me, [basel], [(zug.id, basel.id, MONDAY)])
    await store.edit(me, basel.id, "canary-bern", vector("canary-bern"))
    history = await store.history(me, basel.id)
    assert [memory.text for memory in history] == ["canary-basel", "canary-zug"]
    assert [memory.text async for memory in store.every(me, include_superseded=False)] == ["canary-bern", "likes tea"]

    assert await store.delete(me, [basel.id]) == 1

    assert await texts(store, me, include_superseded=True) == ["likes tea"]


async def test_pages_newest_first_without_repeating_or_hiding_while_others_write(store, me):
    kept = [record(f"fact {i}", at=MONDAY + timedelta(seconds=i // 3)) for i in range(20)]  # three share each second
    await store.apply(me, kept)
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page, cursor = await store.list(me, limit=4, cursor=cursor)
        seen += page
        pages += 1
        await store.apply(me, [record(f"newer {pages}", at=MONDAY + timedelta(days=1))])
        await store.delete(me, [page[0].id])

    assert pages == 5
    assert sorted(memory.id for memory in seen) == sorted(memory.id for memory in kept)
    assert [memory.created_at for memory in seen] == sorted((memory.created_at for memory in kept), reverse=True)


@pytest.mark.parametrize(
    "cursor", ["x", "bm9wZQ", "W10", "WyIyMDI2LTAxLTAxVDAwOjAwOjAwKzAwOjAwIiwgImEiXQ", "é", "W1tb" * 9000]
)
async def test_a_cursor_of_somebody_elses_making_is_refused(store, me, cursor):
    with pytest.raises(ValueError, match="cursor"):
        await store.list(me, cursor=cursor)


async def test_a_run_is_found_and_removed_as_a_whole(store, me):
    run_id = str(uuid.uuid4())
    await store.apply(me, [record("one", run_id=run_id), record("two", run_id=run_id), record("three")])
    assert await store.has_run(me, run_id)
    assert not await store.has_run(scope_of("somebody else"), run_id)

    await store.delete_run(me, run_id)

    assert not await store.has_run(me, run_id)
    assert await texts(store, me) == ["three"]


@pytest.fixture
def mem0_memory(qdrant_url, model_server, tmp_path, monkeypatch):
    monkeypatch.setenv("MEM0_DIR", str(tmp_path))
    from mem0 import Memory  # noqa: PLC0415 - it writes there when it is imported

    client = QdrantClient(qdrant_url)
    api = {"provider": "openai", "config": {"api_key": "unused", "openai_base_url": model_server.url}}
    kept = {"client": client, "collection_name": "test_memories", "embedding_model_dims": 384}
    config = {"llm": api, "embedder": api, "vector_store": {"provider": "qdrant", "config": kept}}
    memory = Memory.from_config({**config, "history_db_path": str(tmp_path / "history.db")})
    yield memory
    memory.close()
    client.close()


async def test_stock_mem0_reads_what_the_store_wrote(store, me, mem0_memory):
    ours = Scope("acme", organization_namespace=str(uuid.uuid4()))
    await store.apply(me, [mine := record("likes green tea", run_id="run-1")])
    await store.apply(ours, [record("the office serves green tea")])

    (found,) = mem0_memory.search("likes tea", filters={"user_id": me.mem0_user_id})["results"]
    (listed,) = mem0_memory.get_all(filters={"user_id": ours.mem0_user_id})["results"]

    assert (found["memory"], found["id"], found["run_id"]) == ("likes green tea", mine.id, "run-1")
    assert found["metadata"]["statement"] == "Did you know: likes green tea"
    assert (listed["memory"], listed["user_id"][:4]) == ("the office serves green tea", "org-")
    assert mem0_memory.get(mine.id)["memory"] == "likes green tea"


async def test_a_collection_of_another_dimension_is_refused_and_left_as_it_is(qdrant_url, me):
    small = MemoryStore(qdrant_url, collection="test_small", dimension=4)
    short = MemoryRecord(
        id=str(uuid.uuid4()),
        text="x",
        created_at=MONDAY,
        stated_at=MONDAY,
        locale="en",
        vector=(1.0, 0.0, 0.0, 0.0),
    )
    await small.apply(me, [short])

    with pytest.raises(ConfigurationError, match=r"4 dimensions.*384"):
        await MemoryStore(qdrant_url, collection="test_small").open()

    assert await texts(small, me) == ["x"]
    await small.close()


async def test_two_processes_may_create_the_collection_at_the_same_time(qdrant_url, me):
    stores = [MemoryStore(qdrant_url, collection="test_created_twice") for _ in range(4)]

    await asyncio.gather(*(store.open() for store in stores))
    await stores[0].apply(me, [record("works")])

    assert await texts(stores[3], me) == ["works"]
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_store_without_qdrant_says_so_and_recovers_by_itself(qdrant_url, me):
    port = free_port()
    store = MemoryStore(f"http://127.0.0.1:{port}", collection="test_memories", timeout_seconds=5)
    with pytest.raises(StoreUnavailableError, match="does not answer"):
        await store.list(me)
    assert await store.ready() is False

    async with forwarded(port, qdrant_url):
        await store.apply(me, [record("back again")])
        assert await store.ready() is True
        assert await texts(store, me) == ["back again"]
        await store.close()


@contextlib.asynccontextmanager
async def forwarded(port: int, url: str) -> AsyncIterator[list[asyncio.Future]]:
    """Let the server at an address answer at another port too; gives the connections, ended or not."""

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while chunk := await source.read(65536):
            sink.write(chunk)
        sink.close()
        await sink.wait_closed()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
        connections.append(asyncio.gather(pump(reader, back), pump(there, writer)))

    connections: list[asyncio.Future] = []
    async with await asyncio.start_server(serve, "127.0.0.1", port):
        yield connections
        await asyncio.gather(*connections)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def test_calls_one_after_the_other_share_a_connection(qdrant_url, me):
    port = free_port()
    async with forwarded(port, qdrant_url) as connections:
        store = MemoryStore(f"http://127.0.0.1:{port}")
        await store.open()
        opened = len(connections)
        for _ in range(5):
            await store.list(me)
        assert len(connections) <= opened + 1
        await store.close()


async def test_a_key_is_sent_over_plain_http_without_a_warning_on_loopback_only():
    for address in ("http://127.0.0.1:9", "http://localhost:9"):
        assert await MemoryStore(address, api_key=Secret.from_token("key")).ready() is False

    with pytest.warns(UserWarning, match="insecure"):
        assert await MemoryStore("http://qdrant.invalid:9", api_key=Secret.from_token("key")).ready() is False


async def test_a_collection_that_was_dropped_is_made_again_by_the_next_call(qdrant_url, me):
    store = MemoryStore(qdrant_url, collection="test_dropped")
    await store.open()
    client = QdrantClient(qdrant_url)
    client.delete_collection("test_dropped")
    client.close()

    with pytest.raises(StoreUnavailableError):
        await store.list(me)

    assert await texts(store, me) == []
    await store.close()


async def test_records_hold_tokens_of_the_ids_and_zones_in_every_time(store, me, qdrant_url):
    await store.apply(me, [said := record("likes tea")])
    client = QdrantClient(qdrant_url)
    wanted = models.Filter(must=[models.HasIdCondition(has_id=[said.id])])
    ((point,), _) = client.scroll("test_memories", scroll_filter=wanted)
    client.close()

    assert me.user_id not in str(point.payload)
    assert "acme" not in str(point.payload)
    assert {"tenant_id", "user_id", "agent_id", "thread_id", "message_id", "run_id", "locale", "data"} <= set(
        point.payload
    )
    assert point.payload["status"] == "current"
    for name in ("created_at", "stated_at", "updated_at"):
        assert datetime.fromisoformat(point.payload[name]).tzinfo
