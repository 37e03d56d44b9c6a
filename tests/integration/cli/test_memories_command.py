"""`hayrecall memories` shows, exports and erases one user's memories."""

import asyncio
import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from components.memory_record import MemoryRecord
from components.memory_scope import Scope
from components.memory_store import MemoryStore
from hayrecall.cli.app import app
from tests.scripted_model_server import embed

pytestmark = pytest.mark.integration

MONDAY = datetime(2025, 12, 1, 22, 30, tzinfo=UTC)


def remember(qdrant_url: str, scope: Scope, *texts: str) -> list[str]:
    async def write() -> list[str]:
        store = MemoryStore(qdrant_url)
        records = [
            MemoryRecord(
                id=str(uuid4()),
                text=text,
                vector=tuple(embed(text)),
                created_at=MONDAY,
                stated_at=MONDAY,
                locale="de",
                statement="Wo parkiere ich?",
            )
            for text in texts
        ]
        marks = [(records[1].id, records[0].id, MONDAY)] if len(records) > 1 else []
        await store.apply(scope, records[1:])
        await store.apply(scope, records[:1], marks)
        await store.close()
        return [record.id for record in records]

    return asyncio.run(write())


@pytest.fixture
def hayrecall(qdrant_url, nats_url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no `.env` of the person who runs the tests
    for name in ("HAYRECALL_LLM_API_KEY", "HAYRECALL_EMBEDDING_API_KEY"):
        monkeypatch.setenv(name, "unused")
    addresses = {"HAYRECALL_QDRANT_URL": qdrant_url, "HAYRECALL_NATS_URL": nats_url}
    return lambda *arguments: CliRunner(env=addresses).invoke(app, ["memories", *arguments])


def test_lists_exports_and_erases_one_user_and_nobody_else(hayrecall, qdrant_url, tmp_path):
    user = f"ann.b@acme.example * {uuid4()}"
    new, old = remember(qdrant_url, Scope("acme", user_id=user), "arbeitet in Zürich", "arbeitet in Zug")
    remember(qdrant_url, Scope("default", user_id=user), "im anderen Mandanten")
    of_ann = ("--user", user, "--tenant", "acme")

    assert hayrecall("list", *of_ann).stdout == f"2025-12-01  {new}  arbeitet in Zürich\n"
    assert f"{old}  arbeitet in Zug  (superseded by {new})" in hayrecall("list", "--superseded", *of_ann).stdout

    assert hayrecall("export", "--to", str(tmp_path / "ann.json"), *of_ann).exit_code == 0
    exported = json.loads((tmp_path / "ann.json").read_text(encoding="utf-8"))["data"]
    assert {memory["id"]: memory["superseded_by"] for memory in exported} == {new: None, old: new}
    assert exported[0]["statement"] == "Wo parkiere ich?"

    assert hayrecall("erase", *of_ann).stdout == f"erased everything about {user!r} in tenant 'acme'\n"
    assert json.loads(hayrecall("export", *of_ann).stdout)["data"] == []
    assert "im anderen Mandanten" in hayrecall("list", "--user", user).stdout


@pytest.mark.parametrize("arguments", [[], ["--user", ""], ["--user", "ann", "--tenant", ""]])
def test_without_a_user_or_tenant_it_says_what_is_missing(hayrecall, arguments):
    result = hayrecall("list", *arguments)

    assert result.exit_code == 2
    assert "--user" in result.stderr or "--tenant" in result.stderr
