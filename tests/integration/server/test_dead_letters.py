"""Admins handle the dead letters of their tenant over HTTP; nobody else does."""

import asyncio
import uuid
from datetime import UTC, datetime

import pytest

from components.jetstream import JetStreamConnection
from contracts.payloads import ConversationTurn
from contracts.queue import DEAD_REASON_HEADER, DEAD_RUN_HEADER, DEAD_SUBJECT_HEADER, dead_subject, turn_subject
from contracts.turn import Agent, TurnContext

pytestmark = pytest.mark.integration


def bury(nats_url: str, tenant_id: str = "acme") -> int:
    """Do as the writer does with a turn that it gives up."""
    user_id = f"ann {uuid.uuid4()}"
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

    async def publish() -> int:
        connection = JetStreamConnection(nats_url)
        assert await connection.open(patience_seconds=10)
        try:
            return (await connection.publish(dead_subject(tenant_id, user_id), body, headers))["seq"]
        finally:
            await connection.close()

    return asyncio.run(publish())


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
