"""Admins handle the dead letters of their tenant over HTTP; nobody else does."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

import pytest

from components.bucket import Bucket
from components.dead_letters import DeadLetterQueue
from components.jetstream import JetStreamConnection
from components.user_states import UserStates
from contracts.payloads import ConversationTurn
from contracts.queue import (
    BODY_DIGEST_HEADER,
    BODY_HEADER,
    DEAD_REASON_HEADER,
    DEAD_RUN_HEADER,
    DEAD_SUBJECT_HEADER,
    USERS_BUCKET,
    body_name,
    dead_subject,
    turn_subject,
    user_key,
)
from contracts.turn import Agent, TurnContext
from tests.faulty_wire import FaultyWire
from tests.integration.server.conftest import ECHO, serving

pytestmark = pytest.mark.integration
T = TypeVar("T")


def with_nats(nats_url: str, work: Callable[[JetStreamConnection], Awaitable[T]]) -> T:
    """Do something on a connection of the test's own."""

    async def run() -> T:
        connection = JetStreamConnection(nats_url)
        assert await connection.open(patience_seconds=10)
        try:
            return await work(connection)
        finally:
            await connection.close()

    return asyncio.run(run())


def bury(nats_url: str, tenant_id: str = "acme", *, user_id: str | None = None, body_lost: bool = False) -> int:
    """Do as the writer does with a turn that it gives up."""
    user_id = user_id or f"ann {uuid.uuid4()}"
    context = TurnContext(
        tenant_id=tenant_id,
        user_id=user_id,
        run_id=str(uuid.uuid4()),
        agent=Agent("rag"),
        locale="en",
        said_at=datetime.now(UTC),
    )
    body = ConversationTurn.of(context, "When does it open?").model_dump_json().encode()
    headers = {
        DEAD_REASON_HEADER: "unreadable",
        DEAD_RUN_HEADER: context.run_id,
        DEAD_SUBJECT_HEADER: turn_subject(tenant_id, user_id),
    }

    if body_lost:
        headers |= {BODY_HEADER: body_name(tenant_id, user_id, context.run_id), BODY_DIGEST_HEADER: "what it was"}
        body = b""
    answer = with_nats(nats_url, lambda nats: nats.publish(dead_subject(tenant_id, user_id), body, headers))
    return answer["seq"]


def ids(client) -> list[int]:
    return [letter["id"] for letter in client.get("/v1/dead-letters", params={"limit": 1000}).json()["data"]]


def test_an_admin_lists_looks_at_replays_and_discards(served, nats_url):
    admin = served.client(key=served.admin)
    first, second = bury(nats_url), bury(nats_url)

    assert {first, second} <= set(ids(admin))
    assert "When does it open?" not in admin.get("/v1/dead-letters").text
    shown = admin.get(f"/v1/dead-letters/{first}").json()
    assert shown["reason"] == "unreadable"
    assert "When does it open?" in shown["content"]

    assert admin.post(f"/v1/dead-letters/{first}/replay").status_code == 202
    assert admin.delete(f"/v1/dead-letters/{second}").status_code == 204
    assert not {first, second} & set(ids(admin))
    for call in (admin.get, admin.delete):
        assert call(f"/v1/dead-letters/{second}").json()["error"]["code"] == "dead_letter_not_found"
    assert admin.post(f"/v1/dead-letters/{first}/replay").status_code == 404


def test_a_long_list_comes_page_by_page(served, nats_url):
    admin = served.client(key=served.admin)
    buried = [bury(nats_url) for _ in range(3)]
    params = {"limit": 2, "cursor": buried[0] - 1}

    first = admin.get("/v1/dead-letters", params=params).json()
    rest = admin.get("/v1/dead-letters", params=params | {"cursor": first["next_cursor"]}).json()

    assert [letter["id"] for letter in first["data"] + rest["data"]] == buried
    assert rest["next_cursor"] is None


def test_other_tenants_and_other_roles_meet_none(served, nats_url):
    theirs = bury(nats_url, tenant_id="umbrella")
    admin = served.client(key=served.admin)

    assert theirs not in ids(admin)
    assert admin.get(f"/v1/dead-letters/{theirs}").status_code == 404
    assert admin.post(f"/v1/dead-letters/{theirs}/replay").status_code == 404
    assert admin.delete(f"/v1/dead-letters/{theirs}").status_code == 404
    for path in ("/v1/dead-letters", f"/v1/dead-letters/{theirs}"):
        assert served.client("ann").get(path).json()["error"]["code"] == "missing_role"


def test_what_its_user_erased_is_not_replayed_but_gone(served, nats_url):
    admin, user_id = served.client(key=served.admin), f"ann {uuid.uuid4()}"
    letter_id = bury(nats_url, user_id=user_id)
    with_nats(nats_url, lambda nats: UserStates(nats).set_erased("acme", user_id, datetime.now(UTC)))

    answer = admin.post(f"/v1/dead-letters/{letter_id}/replay")

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "erased")
    assert admin.get(f"/v1/dead-letters/{letter_id}").status_code == 404


def test_one_is_not_replayed_and_stays_while_nobody_can_tell_whether_its_user_erased_it(served, nats_url):
    admin, user_id = served.client(key=served.admin), f"ann {uuid.uuid4()}"
    letter_id = bury(nats_url, user_id=user_id)
    with_nats(nats_url, lambda nats: Bucket(nats, USERS_BUCKET).put(user_key("acme", user_id), b"{"))

    answer = admin.post(f"/v1/dead-letters/{letter_id}/replay")

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "user_state_unreadable")
    assert admin.get(f"/v1/dead-letters/{letter_id}").status_code == 200


def test_one_whose_large_body_is_gone_is_shown_without_content_and_can_be_discarded(served, nats_url):
    admin = served.client(key=served.admin)
    letter_id = bury(nats_url, body_lost=True)

    shown = admin.get(f"/v1/dead-letters/{letter_id}").json()

    assert (shown["reason"], shown["content"]) == ("unreadable", None)
    assert admin.delete(f"/v1/dead-letters/{letter_id}").status_code == 204


@pytest.mark.parametrize("path", ["?limit=0", "?limit=1001", "?cursor=x", "?cursor=-1", "/0", "/x"])
def test_limits_cursors_and_ids_that_cannot_be_are_refused(served, path):
    answer = served.client(key=served.admin).get(f"/v1/dead-letters{path}")

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


def test_an_outage_of_nats_is_told_as_one_and_loses_nothing(tmp_path, model_server, nats_url, qdrant_url):
    wire = FaultyWire(nats_url)
    urls = {"llm_base_url": model_server.url, "embedding_base_url": model_server.url}
    letter_id = bury(nats_url)
    path = f"/v1/dead-letters/{letter_id}"
    try:
        with serving(tmp_path, ECHO, nats_url=wire.url, qdrant_url=qdrant_url, **urls) as served:
            admin = served.client(key=served.admin)
            assert admin.get(path).status_code == 200
            wire.fault = "down"
            answers = [admin.get("/v1/dead-letters"), admin.get(path), admin.post(f"{path}/replay"), admin.delete(path)]
    finally:
        wire.close()

    assert {(a.status_code, a.json()["error"]["code"]) for a in answers} == {(503, "queue_unavailable")}
    assert with_nats(nats_url, lambda nats: DeadLetterQueue(nats).get(letter_id)) is not None
