"""What people see and undo of their memories, over HTTP."""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from components.memory_store import MemoryRecord, MemoryStore, Scope
from tests.scripted_model_server import Failure, embed

pytestmark = pytest.mark.integration
NOW = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)


def record(text, number=0, **more):
    at = NOW + timedelta(minutes=number)
    vector = tuple(embed(text))
    kept = {"created_at": at, "stated_at": at, "locale": "en", "statement": f"Told: {text}", "agent_id": "rag"}
    return MemoryRecord(id=str(uuid.uuid4()), text=text, vector=vector, **{**kept, "run_id": str(uuid.uuid4()), **more})


@pytest.fixture
def remember(served):
    """Store memories as the writer does."""

    def store(scope, *records, superseded=()):
        async def write():
            memories = MemoryStore(served.settings.qdrant_url)
            try:
                await memories.apply(scope, records, superseded)
            finally:
                await memories.close()

        asyncio.run(write())
        return [kept.id for kept in records]

    return store


@pytest.fixture
def ann(served):
    name = f"ann-{uuid.uuid4()}"
    return served.client(name), Scope("acme", user_id=name)


def test_memories_are_listed_newest_first_page_by_page(ann, remember):
    client, scope = ann
    remember(scope, *(record(f"fact {n}", n) for n in range(5)))

    first = client.get("/v1/memories", params={"limit": 3}).json()
    second = client.get("/v1/memories", params={"limit": 3, "cursor": first["next_cursor"]}).json()

    assert [memory["text"] for memory in first["data"] + second["data"]] == [f"fact {n}" for n in (4, 3, 2, 1, 0)]
    assert (first["object"], second["next_cursor"]) == ("list", None)
    assert first["data"][0].keys() >= {
        "id", "text", "created_at", "stated_at", "agent_id", "thread_id", "run_id", "source", "superseded_by",
    }  # fmt: skip


@pytest.mark.parametrize(
    "params", [{"limit": 0}, {"limit": 1001}, {"limit": "x"}, {"cursor": "x"}, {"cursor": "🐟"}, {"include": "all"}]
)
def test_a_listing_that_makes_no_sense_is_refused(ann, params):
    answer = ann[0].get("/v1/memories", params=params)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in {"invalid_request", "invalid_cursor"}


def test_what_was_superseded_is_shown_when_asked_for_and_in_the_history(ann, remember):
    client, scope = ann
    old, new = record("lives in Bern"), record("lives in Basel", 1)
    remember(scope, old)
    remember(scope, new, superseded=[(old.id, new.id, NOW)])

    assert [m["id"] for m in client.get("/v1/memories").json()["data"]] == [new.id]
    listed = client.get("/v1/memories", params={"include": "superseded"}).json()["data"]
    assert {m["id"]: m["superseded_by"] for m in listed} == {new.id: None, old.id: new.id}
    shown = client.get(f"/v1/memories/{new.id}").json()
    assert [(m["text"], m["run_id"], m["statement"]) for m in shown["history"]] == [
        ("lives in Bern", old.run_id, "Told: lives in Bern")
    ]


def test_a_memory_is_corrected_and_found_by_its_new_text(ann, remember):
    client, scope = ann
    (memory,) = remember(scope, record("has two cats"))

    answer = client.patch(f"/v1/memories/{memory}", json={"text": " owns three parrots "})

    assert (answer.json()["text"], answer.json()["source"]) == ("owns three parrots", "edit")
    found = client.post("/v1/memories/search", json={"query": "three parrots"}).json()["data"]
    assert [m["id"] for m in found] == [memory]
    assert found[0]["score"] > 0.5
    assert [m["text"] for m in client.get(f"/v1/memories/{memory}").json()["history"]] == ["has two cats"]


def test_of_two_edits_at_a_time_the_second_is_told(ann, remember):
    client, scope = ann
    (memory,) = remember(scope, record("has two cats"))
    path = f"/v1/memories/{memory}"
    read = client.get(path).headers["ETag"]

    first = client.patch(path, json={"text": "has three cats"}, headers={"If-Match": read})
    second = client.patch(path, json={"text": "has a dog"}, headers={"If-Match": read})
    third = client.delete(path, headers={"If-Match": read})

    assert [first.status_code, second.status_code, third.status_code] == [200, 412, 412]
    assert second.json()["error"]["code"] == "memory_changed"
    assert first.headers["ETag"] not in ("", read)
    assert client.delete(path, headers={"If-Match": first.headers["ETag"]}).status_code == 204
    assert client.get(path).status_code == 404


def test_if_match_is_read_as_http_says(ann, remember):
    client, scope = ann
    (memory,) = remember(scope, record("has two cats"))
    path = f"/v1/memories/{memory}"

    def edit(*tags):
        headers = [("If-Match", tag.format(client.get(path).headers["ETag"])) for tag in tags]
        return client.patch(path, json={"text": f"has {len(tags)} dogs"}, headers=headers).status_code

    assert edit('"old", {}, "older"') == 200
    assert edit('"old"', "{}") == 200
    assert edit("*") == 200
    assert edit('"old", "older"') == 412
    assert edit("W/{}") == 412
    assert edit("old") == 412
    assert client.delete(path, headers={"If-Match": 'W/"a", "b"'}).status_code == 412
    assert client.delete(path, headers={"If-Match": f'"b",{client.get(path).headers["ETag"]}'}).status_code == 204


@pytest.mark.parametrize("memory", ["3f5183df-4ca0-4627-846c-6fb60e9e3e8d", "not-an-id", "*", "%00", "a b", "😀"])
def test_an_unknown_memory_is_not_found_before_anything_else_is_looked_at(ann, model_server, memory):
    path = f"/v1/memories/{memory}"
    answers = [
        ann[0].get(path),
        ann[0].delete(path, headers={"If-Match": '"x"'}),
        ann[0].patch(path, content=b"{", headers={"If-Match": '"x"'}),
    ]
    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert not model_server.log


def test_the_memories_of_others_are_unknown(served, ann, remember):
    _, scope = ann
    (memory,) = remember(scope, record("has two cats"))
    strangers = [
        served.client("bob"),
        served.client(scope.user_id, key=served.other_tenant),
        served.client(scope.user_id.upper()),
        served.client("*"),
    ]
    for stranger in strangers:
        path = f"/v1/memories/{memory}"
        answers = [stranger.get(path), stranger.patch(path, json={"text": "x"}), stranger.delete(path)]
        assert [answer.status_code for answer in answers] == [404, 404, 404]
        assert stranger.post("/v1/memories/search", json={"query": "two cats"}).json()["data"] == []
    admin = served.client(key=served.admin)
    assert admin.get(f"/v1/organization-memories/{memory}").status_code == 404


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"text": 1}', b'{"text": "  "}', b'{"text": null}'])
def test_an_edit_without_a_text_is_refused(ann, remember, body):
    client, scope = ann
    (memory,) = remember(scope, record("has two cats"))

    answer = client.patch(f"/v1/memories/{memory}", content=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


def test_a_text_over_the_embedders_window_is_refused_with_both_numbers(ann, remember, model_server):
    client, scope = ann
    (memory,) = remember(scope, record("has two cats"))
    long = "word " * 9000
    answers = [
        client.post("/v1/memories/search", json={"query": long}),
        client.patch(f"/v1/memories/{memory}", json={"text": long}),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "text_too_long")
        assert "8192" in answer.json()["error"]["message"]
        assert "9000" in answer.json()["error"]["message"] or "9001" in answer.json()["error"]["message"]
    assert not model_server.log


def test_an_embedder_that_is_down_is_an_outage_and_not_a_fault(ann, model_server):
    model_server.default("embed", Failure(500))
    answer = ann[0].post("/v1/memories/search", json={"query": "cats"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "embedder_unavailable")


def test_everything_can_be_taken_away_as_a_file(ann, remember):
    client, scope = ann
    remember(scope, record("has two cats"), record("lives in Bern", 1))

    answer = client.get("/v1/memories/export")

    assert "attachment" in answer.headers["Content-Disposition"]
    assert [m["statement"] for m in answer.json()["data"]] == ["Told: lives in Bern", "Told: has two cats"]


def test_everything_can_be_erased(ann, remember):
    client, scope = ann
    remember(scope, record("has two cats"))

    assert client.delete("/v1/memories").status_code == 204

    assert client.get("/v1/memories", params={"include": "superseded"}).json()["data"] == []


def test_organization_memories_are_for_admins(served, remember):
    scope = Scope("acme", organization_namespace=f"n{uuid.uuid4()}")
    (memory,) = remember(scope, record("The canteen opens at seven."))
    place = {"namespace": scope.organization_namespace}
    assert served.client("ann").get("/v1/organization-memories", params=place).status_code == 403

    admin = served.client(key=served.admin)
    path = f"/v1/organization-memories/{memory}"
    assert [m["id"] for m in admin.get("/v1/organization-memories", params=place).json()["data"]] == [memory]
    edited = admin.patch(path, params=place, json={"text": "The canteen opens at eight."})
    assert edited.json()["text"].endswith("eight.")
    assert admin.delete("/v1/organization-memories", params=place).status_code == 204
    assert admin.get(path, params=place).status_code == 404


def test_the_learning_switch_takes_nothing_but_yes_or_no(ann):
    for body in ({}, {"learning": "no"}, {"learning": None}, []):
        assert ann[0].put("/v1/memories/settings", json=body).status_code == 400
    assert ann[0].get("/v1/memories/settings").json() == {"learning": True}
