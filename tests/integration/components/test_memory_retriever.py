"""Memories of the user and of the organization are found in one request, and never stand in a turn's way."""

import socket
import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from haystack import Pipeline

from components.memory_retriever import MemoryRetriever
from components.memory_store import MemoryRecord, MemoryStore, Scope
from contracts.turn import Agent, TurnContext, Vector
from tests.scripted_model_server import embed

pytestmark = pytest.mark.integration


@pytest.fixture
async def store(qdrant_url):
    store = MemoryStore(qdrant_url, collection="memories_of_retriever_tests")
    yield store
    await store.close()


@pytest.fixture
def turn() -> TurnContext:
    return TurnContext(
        tenant_id=f"tenant-{uuid.uuid4()}",
        user_id="ann",
        run_id="r",
        agent=Agent("rag"),
        locale="en",
        said_at=datetime.now(UTC),
    )


async def remember(store: MemoryStore, scope: Scope, *texts: str) -> None:
    now = datetime.now(UTC)
    await store.apply(
        scope,
        [
            MemoryRecord(
                id=str(uuid.uuid4()), text=text, created_at=now, stated_at=now, locale="en", vector=tuple(embed(text))
            )
            for text in texts
        ],
    )


async def recall(retriever: MemoryRetriever, question: str, turn: TurnContext) -> tuple[list[str], list[str]]:
    found = await retriever.run_async(question, Vector(tuple(embed(question))), turn)
    user, organization = found["user_memories"], found["organization_memories"]
    return [memory.content for memory in user], [memory.content for memory in organization]


async def test_finds_the_users_and_the_organizations_memories_and_nobody_elses(store, turn):
    tenant = turn.tenant_id
    await remember(store, Scope(tenant, user_id="ann"), "ann drinks tea")
    await remember(store, Scope(tenant, user_id="bob"), "bob drinks tea")
    await remember(store, Scope(tenant, organization_namespace=""), "tea is free")
    await remember(store, Scope(f"other-{tenant}", user_id="ann"), "ann drinks tea at another place")

    assert await recall(MemoryRetriever(store, min_score=0.1), "tea", turn) == (["ann drinks tea"], ["tea is free"])


async def test_reads_only_the_parts_of_the_organizations_memory_that_the_assistant_may(store, turn):
    await remember(store, Scope(turn.tenant_id, organization_namespace="support"), "tea for support")
    await remember(store, Scope(turn.tenant_id, organization_namespace="board"), "tea for the board")

    retriever = MemoryRetriever(store, min_score=0.1, namespaces=["", "support"])

    assert await recall(retriever, "tea", turn) == ([], ["tea for support"])


async def test_gives_no_more_than_asked_for_best_first_above_the_floor(store, turn):
    await remember(store, Scope(turn.tenant_id, user_id="ann"), "green tea", "green tea every day", "a red car")

    retriever = MemoryRetriever(store, min_score=0.1, top_k=2)

    assert await recall(retriever, "green tea", turn) == (["green tea", "green tea every day"], [])
    assert (await recall(MemoryRetriever(store, min_score=0.99), "green tea", turn))[0] == ["green tea"]


@pytest.mark.parametrize("change", [{"user_id": None}, {"learning": False}], ids=["no identity", "learning off"])
async def test_without_identity_or_with_learning_off_nothing_is_read(store, turn, change):
    await remember(store, Scope(turn.tenant_id, user_id="ann"), "ann drinks tea")
    await remember(store, Scope(turn.tenant_id, organization_namespace=""), "tea is free")

    assert await recall(MemoryRetriever(store, min_score=0.1), "tea", replace(turn, **change)) == ([], [])


async def test_without_an_embedding_there_are_no_memories(store, turn):
    found = await MemoryRetriever(store).run_async("tea", Vector(), turn)

    assert found == {"user_memories": [], "organization_memories": []}


async def test_a_store_that_is_down_means_no_memories_and_no_error(turn):
    assert await recall(MemoryRetriever(MemoryStore("http://127.0.0.1:9")), "tea", turn) == ([], [])


async def test_a_store_that_hangs_is_waited_for_no_longer_than_allowed(turn):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and never answers
        store = MemoryStore(f"http://127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()

        assert await recall(MemoryRetriever(store, timeout_seconds=0.3), "tea", turn) == ([], [])

        assert time.monotonic() - started < 3
        await store.close()


@pytest.mark.parametrize(
    "settings", [{"top_k": 0}, {"top_k": 101}, {"min_score": 1.1}, {"timeout_seconds": 0}, {"background_spread": 0}]
)
def test_rejects_settings_out_of_range(settings):
    with pytest.raises(ValueError, match="need"):
        MemoryRetriever(MemoryStore("http://127.0.0.1:9"), **settings)


def test_survives_a_yaml_round_trip():
    pipeline = Pipeline()
    pipeline.add_component("memory_retriever", MemoryRetriever(MemoryStore("http://127.0.0.1:9"), top_k=7))

    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["components"])

    assert loaded.get_component("memory_retriever").top_k == 7
