"""Whole turns of the shipped rag pipeline over HTTP: what is asked of whom, what is kept, and what stays apart."""

import contextlib
import json
import re
import sqlite3
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from components.refusal_texts import refusal_text
from tests.conftest import wait_until
from tests.scripted_model_server import Failure, Stream

pytestmark = pytest.mark.integration
SENTINEL = "zanzibarquokka"
DOCUMENT = f"Annex 7. The {SENTINEL} clause applies to every contract. " * 600


@pytest.fixture
def user() -> str:
    """A user whom no other test knows."""
    return f"ann {uuid.uuid4()} *>@acme.example"


def ask(client, text, *, stream=False, model="rag", **body):
    messages = text if isinstance(text, list) else [{"role": "user", "content": text}]
    answer = client.post("/v1/chat/completions", json={"model": model, "messages": messages, "stream": stream, **body})
    assert answer.status_code == 200, answer.text
    if not stream:
        said = answer.json()
        return said["choices"][0]["message"]["content"], said["hayrecall"]
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    text = "".join(c["delta"].get("content", "") for event in events for c in event["choices"])
    return text, events[-1]["hayrecall"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_question_is_condensed_answered_and_told_as_such(rag, model_server, user, stream):
    model_server.default("condenser", "When does the canteen open?")
    model_server.default("answer", "At seven.")

    text, told = ask(rag.client(user), "And when does it open?", stream=stream)

    assert text == "At seven."
    assert (told["outcome"], told["question"]) == ("answered", "When does the canteen open?")
    assert {call.stage for call in model_server.log} == {"gate", "condenser", "embed", "answer"}


@pytest.mark.parametrize("role", ["user", "system"])
def test_an_inlined_document_reaches_the_answer_model_and_no_search(rag, model_server, user, role):
    model_server.default("condenser", "Which clause applies?")
    messages = [{"role": role, "content": DOCUMENT}, {"role": "user", "content": "Which clause applies?"}]
    if role == "user":
        messages = [{"role": "user", "content": DOCUMENT + "\nWhich clause applies?"}]

    ask(rag.client(user), messages)

    assert model_server.calls("embed")
    for call in model_server.calls("embed"):
        assert SENTINEL not in call.text
        assert "Which clause applies?" in call.text
    assert SENTINEL in model_server.calls("answer")[0].text
    with rag.client(user) as client:
        assert SENTINEL not in client.get("/v1/memories/export").text


def test_no_answer_is_shown_before_its_question_is_on_the_disk(rag, model_server, user):
    def first_text():
        with rag.client(user).stream("POST", "/v1/chat/completions", json=body) as answer:
            return next(line for line in answer.iter_lines() if '"content"' in line)

    body = {"model": "rag", "stream": True, "messages": [{"role": "user", "content": "When does the canteen open?"}]}
    outbox = sqlite3.connect(rag.settings.data_dir / "outbox" / "outbox.sqlite3", isolation_level=None)
    with contextlib.closing(outbox), ThreadPoolExecutor() as pool:
        outbox.execute("BEGIN IMMEDIATE")
        asking = pool.submit(first_text)
        wait_until(lambda: [call for call in model_server.calls("answer") if call.ended_at])
        with pytest.raises(TimeoutError):
            asking.result(0.3)
        outbox.execute("ROLLBACK")
        assert "This" in asking.result(10)


def test_what_was_said_in_one_chat_is_known_in_the_next_before_any_writer_ran(rag, model_server, user):
    model_server.script("condenser", "I am allergic to lupins.", "What may I eat?")
    ask(rag.client(user, **{"X-OpenWebUI-Chat-Id": "one"}), "I am allergic to lupins.")

    ask(rag.client(user, **{"X-OpenWebUI-Chat-Id": "two"}), "What may I eat?")

    assert "lupins" in model_server.calls("answer")[-1].text


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_a_message_in_the_users_language(rag, model_server, user, stream):
    model_server.default("condenser", "N/A")

    text, told = ask(rag.client(user), "Quand est-ce que la cantine ouvre demain matin?", stream=stream)

    assert told["outcome"] == "condensation_empty"
    assert " " in text
    assert "Error" not in text
    assert not model_server.calls("answer")

    assert text == refusal_text("condensation_empty", "fr")


def test_a_question_about_the_assistant_touches_no_memory(rag, model_server, user):
    model_server.default("gate", {"label": "meta"})
    model_server.latency["condenser"] = 5

    _, told = ask(rag.client(user), "Who are you, and what can you do?")

    assert told["outcome"] == "meta"
    assert not model_server.calls("embed")


def test_without_an_identity_everything_works_but_nothing_is_kept(rag, model_server):
    with rag.client(key=rag.untrusted, **{"X-OpenWebUI-User-Id": "somebody"}) as client:
        assert ask(client, "When does it open?")[1]["outcome"] == "answered"
    with rag.client("somebody") as client:
        model_server.reset()
        ask(client, "What do you know?")
    assert "When does it open?" not in model_server.calls("answer")[0].text


def test_who_switched_learning_off_is_neither_remembered_nor_read(rag, model_server, user):
    model_server.default("condenser", lambda body: "I collect teapots.")
    with rag.client(user) as client:
        assert client.put("/v1/memories/settings", json={"learning": False}).json() == {"learning": False}
        ask(client, "I collect teapots.")
        model_server.default("condenser", "What do I collect?")
        ask(client, "What do I collect?")

        assert "teapots" not in model_server.calls("answer")[-1].text
        assert client.get("/v1/memories/settings").json() == {"learning": False}


@pytest.mark.parametrize("end", ["hang up", "model breaks off"])
def test_a_turn_that_breaks_off_is_kept_with_its_question_alone(rag, model_server, user, end):
    model_server.script("condenser", "I keep bees on the roof.")
    pieces = tuple(f"halfanswer{n} " for n in range(100))
    model_server.script(
        "answer", Stream(pieces, gap_seconds=0.05) if end == "hang up" else Stream(pieces[:5], cut=True)
    )
    body = {"model": "rag", "stream": True, "messages": [{"role": "user", "content": "I keep bees on the roof."}]}
    with rag.client(user) as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        for _, line in zip(range(5), answer.iter_lines(), strict=False):
            assert "failed" not in line

    def is_known():
        """The next chat is told what was asked, and nothing of the half answer."""
        model_server.script("condenser", "What do I keep?")
        ask(rag.client(user), "What do I keep?")
        text = model_server.calls("answer")[-1].text
        assert "halfanswer" not in text
        return "bees" in text

    wait_until(is_known, seconds=5, every=0.2)


def test_users_and_tenants_never_see_each_other(rag, model_server):
    """200 interleaved requests of two users in two tenants who have the same ids; each names its own canary."""
    names = [f"{uuid.uuid4()}-{n}" for n in range(2)]
    callers = [(name, key) for name in names for key in (rag.trusted, rag.other_tenant)]
    canaries = [f"canary{number}{uuid.uuid4().hex[:8]}" for number in range(len(callers))]
    model_server.default(
        "condenser", lambda body: re.findall(r"canary\w+ says \d+", body["messages"][-1]["content"])[-1]
    )
    clients = [rag.client(name, key=key) for name, key in callers]

    def turn(number):
        caller = number % len(callers)
        text, told = ask(clients[caller], f"{canaries[caller]} says {number}")
        return caller, text + told["question"]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(turn, range(200)))

    seen = [call.text for call in model_server.log] + [text for _, text in answers]
    assert max(sum(canary in text for canary in canaries) for text in seen) == 1
    assert all(canaries[caller] in text for caller, text in answers)
    reminded = [call for call in model_server.calls("answer") if call.text.count("canary") > 1]
    assert len(reminded) > 20, "turns on the queue were hardly ever offered: the test shows nothing"


def test_a_condenser_that_fails_is_an_outage_also_where_no_refusal_is_worded(rag, model_server, user):
    model_server.default("condenser", Failure(500))

    answer = rag.client(user).post(
        "/v1/chat/completions",
        json={"model": "few-shot", "messages": [{"role": "user", "content": "My screen is black"}]},
    )

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "model_unavailable")


def test_of_a_turn_whose_answer_is_blank_the_question_is_remembered(rag, model_server, user):
    model_server.default("condenser", "I work in Basel. When does the canteen open?")
    model_server.default("answer", " ")

    failed = rag.client(user).post(
        "/v1/chat/completions", json={"model": "rag", "messages": [{"role": "user", "content": "I work in Basel."}]}
    )

    assert (failed.status_code, failed.json()["error"]["code"]) == (502, "model_failed")

    def is_known():
        """The next chat is told what was said."""
        model_server.script("answer", "In Basel.")
        ask(rag.client(user), "Where do I work?")
        return "I work in Basel" in model_server.calls("answer")[-1].text

    model_server.default("condenser", "Where do I work?")
    wait_until(is_known, seconds=5, every=0.2)
