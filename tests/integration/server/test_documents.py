"""Documents over HTTP: added and removed by admins, seen by those who may read them."""

import json
import uuid

import pytest

pytestmark = pytest.mark.integration


@pytest.fixture
def name():
    return f"hours-{uuid.uuid4()}.md"


def listed(client):
    return {document["source"]: document for document in client.get("/v1/documents").json()["data"]}


def test_an_admin_adds_a_file_that_is_answered_from_listed_and_removed(rag, model_server, name):
    admin, user = rag.client(key=rag.admin), rag.client("ann")
    files = [
        ("file", (name, b"# Canteen\n\nThe canteen opens at seven on weekdays.")),
        ("file", ("broken.pdf", b"%PDF-1.7 nothing")),
    ]

    outcomes = admin.post("/v1/documents", files=files).json()["data"]
    again = admin.post("/v1/documents", files=files[:1]).json()["data"]

    assert [outcome["status"] for outcome in outcomes + again] == ["stored", "skipped", "unchanged"]
    assert outcomes[1]["reason"]
    assert listed(user)[name]["passages"] == 1
    model_server.default("condenser", "When does the canteen open on weekdays?")
    ask = {"model": "rag", "messages": [{"role": "user", "content": "When does it open?"}]}
    sources = user.post("/v1/chat/completions", json=ask).json()["hayrecall"]["sources"]
    assert name in [source["source"] for source in sources]
    assert "opens at seven" in model_server.calls("answer")[0].text

    assert admin.delete("/v1/documents", params={"source": name}).status_code == 204
    assert admin.delete("/v1/documents", params={"source": name}).status_code == 404
    assert name not in listed(user)


def streamed(client, **body):
    """Ask, and give the chunks of the stream."""
    ask = {"model": "rag", "stream": True, "messages": [{"role": "user", "content": "When does it open?"}], **body}
    lines = client.post("/v1/chat/completions", json=ask).text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def test_open_webui_is_shown_each_cited_passage_and_nobody_else_is_sent_events(rag, model_server, name):
    admin = rag.client(key=rag.admin)
    pages = [f"# Canteen\n\n{'The canteen opens at seven on weekdays. ' * 40}", "# Canteen\n\nThe canteen opens late."]
    for file, text in zip((name, f"more-{name}"), pages, strict=True):
        admin.post("/v1/documents", files=[("file", (file, text.encode()))])
    model_server.default("condenser", "When does the canteen open on weekdays?")
    model_server.default("answer", "At seven [1], or late [2].")

    chunks = streamed(rag.client("ann"))
    events = [chunk["event"] for chunk in chunks if "event" in chunk]
    others = streamed(rag.client(), user="ann")

    sources = chunks[-1]["hayrecall"]["sources"]
    assert len(sources) >= 3, "one document was meant to give several passages"
    assert all(source["text"] in model_server.calls("answer")[0].body["messages"][0]["content"] for source in sources)
    assert [event["type"] for event in events] == ["source"] * len(sources)
    assert [event["data"]["document"] for event in events] == [[source["text"]] for source in sources]
    names = [event["data"]["metadata"][0]["name"] for event in events]
    assert len({*names, *(event["data"]["metadata"][0]["source"] for event in events)}) == 2 * len(sources)
    assert names[0].startswith("1. Canteen")
    assert all(isinstance(chunk["choices"], list) for chunk in chunks)
    assert not [chunk for chunk in others if "event" in chunk]
    assert others[-1]["hayrecall"]["sources"] == sources
    for file in (name, f"more-{name}"):
        admin.delete("/v1/documents", params={"source": file})


def test_a_groups_document_is_seen_by_the_group_only(rag, model_server, name):
    admin = rag.client(key=rag.admin)
    files = [("file", (name, b"Salaries are paid on the 25th."))]
    admin.post("/v1/documents", files=files, data={"group": ["hr", "board"]})

    member = rag.client("ann", **{"X-OpenWebUI-User-Groups": "hr,staff"})
    assert listed(member)[name]["groups"] == ["hr"]
    assert listed(admin)[name]["groups"] == ["board", "hr"]
    assert name not in listed(rag.client("bob", **{"X-OpenWebUI-User-Groups": "staff"}))
    assert name not in listed(rag.client("ann", key=rag.untrusted, **{"X-OpenWebUI-User-Groups": "hr"}))
    assert name not in listed(rag.client("ann", key=rag.other_tenant, **{"X-OpenWebUI-User-Groups": "hr"}))
    admin.delete("/v1/documents", params={"source": name})


def test_only_admins_change_documents(rag, name):
    user = rag.client("ann")
    files = [("file", (name, b"text"))]
    answers = [user.post("/v1/documents", files=files), user.delete("/v1/documents", params={"source": name})]
    assert [answer.status_code for answer in answers] == [403, 403]


def test_a_request_without_a_file_is_refused(rag):
    admin = rag.client(key=rag.admin)
    for answer in (admin.post("/v1/documents"), admin.post("/v1/documents", json={"file": "x"})):
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
