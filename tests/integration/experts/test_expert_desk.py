"""A question goes to the experts only if its user agrees, without the chat, and their answer comes back."""

import hashlib
import hmac
import json
import re
import uuid
from collections.abc import Iterator

import httpx
import pytest

from components.refusal_texts import refusal_text
from components.signed_links import SignedLinks, link_secret
from hayrecall.server.api_keys import add_key
from tests.conftest import wait_until
from tests.integration.server.conftest import Served, serving
from tests.webhook_channel import Channel

pytestmark = pytest.mark.integration

SENTINEL = "zanzibarquokka"
QUESTION = "May the archive be moved to the cellar?"
SECRET = "what the channel and Hayrecall both know"


@pytest.fixture(scope="module")
def channel() -> Iterator[Channel]:
    channel = Channel()
    yield channel
    channel.close()


@pytest.fixture(scope="module")
def desk_settings(channel, _model_server, nats_url, qdrant_url):
    patch = pytest.MonkeyPatch()
    patch.setenv("HAYRECALL_EXPERT_WEBHOOK_URL", channel.url)
    patch.setenv("HAYRECALL_EXPERT_WEBHOOK_SECRET", SECRET)
    yield {
        "llm_base_url": _model_server.url,
        "embedding_base_url": _model_server.url,
        "nats_url": nats_url,
        "qdrant_url": qdrant_url,
        "experts": ["Ann Meier", "Beat Rossi"],
        "public_url": "https://chat.example.com",
    }
    patch.undo()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("desk")


@pytest.fixture(scope="module")
def desk_server(folder, desk_settings) -> Iterator[Served]:
    with serving(folder, None, **desk_settings) as served:
        yield served


@pytest.fixture
def desk(desk_server, model_server, channel) -> Served:
    channel.received.clear()
    channel.status = 200
    model_server.default("condenser", QUESTION)
    model_server.default("context_guard", {"verdict": "insufficient", "reason": "nothing on archives", "query": ""})
    model_server.default("expert", {"verdict": "answered", "follow_up": ""})
    return desk_server


@pytest.fixture
def asker(desk) -> httpx.Client:
    """A user in a thread that no other test knows."""
    return desk.client(f"eva {uuid.uuid4()}", **{"X-OpenWebUI-Chat-Id": str(uuid.uuid4())})


def say(client: httpx.Client, text: str) -> tuple[str, dict]:
    messages = [{"role": "user", "content": text}]
    answer = client.post("/v1/chat/completions", json={"model": "expert-rag", "messages": messages})
    assert answer.status_code == 200, answer.text
    said = answer.json()
    return said["choices"][0]["message"]["content"], said["hayrecall"]


def escalate(client: httpx.Client) -> str:
    """Ask, agree, and give the question's id."""
    text, told = say(client, f"{SENTINEL}: may we move it?")
    assert told["outcome"] == "expert_consent"
    assert QUESTION in text
    text, told = say(client, "Yes, please!")
    assert (told["outcome"], text) == ("expert_pending", refusal_text("expert_pending", "en"))
    return told["reason"]


def path(link: str) -> str:
    return link.removeprefix("https://chat.example.com")


def test_the_experts_get_the_condensed_question_signed_and_never_the_chat(desk, asker, channel):
    question_id = escalate(asker)

    (headers, body), *more = channel.received
    stamp, digest = re.fullmatch(r"t=(\d+),v1=(\w+)", headers["x-hayrecall-signature"]).groups()
    assert more == []
    assert digest == hmac.new(SECRET.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert (channel.last["id"], channel.last["question"]) == (question_id, QUESTION)
    assert list(channel.last["links"]) == ["Ann Meier", "Beat Rossi"]
    assert SENTINEL.encode() not in body


def test_an_answer_by_page_survives_restarts_comes_back_and_is_kept(
    folder, desk_settings, model_server, channel, tmp_path_factory
):
    user, thread = f"eva {uuid.uuid4()}", str(uuid.uuid4())
    model_server.default("condenser", QUESTION)
    model_server.default("context_guard", {"verdict": "insufficient", "reason": "", "query": ""})
    model_server.default("expert", {"verdict": "answered", "follow_up": ""})
    channel.received.clear()
    channel.status = 200

    def asker(served):
        return served.client(user, **{"X-OpenWebUI-Chat-Id": thread})

    own = tmp_path_factory.mktemp("restarted")
    with serving(own, None, **desk_settings) as served:
        assert say(asker(served), "May we move it?")[1]["outcome"] == "expert_consent"
    with serving(own, None, **desk_settings) as served:
        question_id = say(asker(served), "ja bitte")[1]["reason"]
        assert asker(served).get(f"/v1/questions/{question_id}").json()["status"] == "open"
    with serving(own, None, **desk_settings) as served, httpx.Client(base_url=served.url) as browser:
        link = path(channel.last["links"]["Ann Meier"])
        assert QUESTION in browser.get(link).text
        page = browser.post(link, data={"text": "Yes, until the end of March. <b>Not later.</b>"})
        assert page.status_code == 200
        assert "&lt;b&gt;Not later.&lt;/b&gt;" in page.text
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    with serving(own, None, **desk_settings) as served:
        told = asker(served).get(f"/v1/questions/{question_id}").json()
        assert (told["status"], told["answer"]["expert"]) == ("answered", "Ann Meier")
        assert told["answer"]["text"] == "Yes, until the end of March. <b>Not later.</b>"

        model_server.default("context_guard", {"verdict": "sufficient", "reason": "", "query": ""})
        model_server.log.clear()
        say(asker(served), "And now?")
        assert "Yes, until the end of March." in model_server.calls("answer")[0].text

        admin = served.client("boss", key=served.admin)
        kept = wait_until(lambda: admin.get("/v1/organization-memories").json()["data"])
        mine = next(memory for memory in kept if memory["run_id"] == question_id)
        assert mine["source"] == "expert"
        assert mine["text"].startswith("Yes, until the end of March. <b>Not later.</b>\n(Ann Meier, 2")


def test_a_reply_that_does_not_answer_is_asked_on_up_to_three_times(desk, asker, model_server, channel):
    question_id = escalate(asker)
    expert = desk.client(key=add_key(desk.settings.api_keys_file, tenant="acme", role="expert", name="Beat Rossi"))
    model_server.default("expert", {"verdict": "incomplete", "follow_up": "Until when?"})

    for number in range(3):
        taken = expert.post(f"/v1/questions/{question_id}/answers", json={"text": f"Perhaps {number}."}).json()
        assert (taken["status"], taken["follow_up"]) == ("open", "Until when?")
        assert channel.last["follow_up"] == "Until when?"
    taken = expert.post(f"/v1/questions/{question_id}/answers", json={"text": "Until March."}).json()

    assert taken["status"] == "answered"
    assert asker.get(f"/v1/questions/{question_id}").json()["answer"]["text"] == "Until March."


def test_only_named_experts_answer_once_in_time_and_in_bounds(desk, asker, channel):
    question_id = escalate(asker)
    keys = desk.settings.api_keys_file
    url = f"/v1/questions/{question_id}/answers"

    def answer(text: str, **key: str) -> tuple[int, str | None]:
        reply = desk.client(key=add_key(keys, **{"tenant": "acme", "role": "expert", "name": "Ann Meier", **key})).post(
            url, json={"text": text}
        )
        return reply.status_code, reply.json().get("error", {}).get("code")

    assert answer("Yes.", role="user") == (403, "missing_role")
    assert answer("Yes.", name="Mallory") == (403, "not_an_expert")
    assert answer("Yes.", tenant="umbrella") == (404, "not_found")
    assert answer(" \n") == (400, "empty_message")
    assert answer("\0") == (400, "empty_message")
    assert answer("x" * 10_001) == (413, "answer_too_long")
    assert answer("Yes.") == (200, None)
    assert answer("No.") == (409, "already_answered")
    assert desk.client("somebody else").get(f"/v1/questions/{question_id}").status_code == 404
    assert desk.client("somebody else").get("/v1/questions/*").status_code == 404


def test_a_forged_an_expired_and_a_foreign_link_open_nothing(desk, asker, channel):
    question_id = escalate(asker)
    claims = {"tenant": "acme", "question": question_id, "expert": "Ann Meier"}
    own = SignedLinks(link_secret(None, desk.settings.data_dir))
    other = SignedLinks("another secret of at least 32 characters")
    forged = {
        "nonsense": "nonsense",
        "other secret": other.sign("expert-answer", claims, seconds=60),
        "expired": own.sign("expert-answer", claims, seconds=-1),
        "other purpose": own.sign("memories", claims, seconds=60),
    }

    with httpx.Client(base_url=desk.url) as browser:
        for name, token in forged.items():
            shown = browser.post("/questions/answer", params={"token": token}, data={"text": "Yes."})
            assert (shown.status_code, QUESTION in shown.text) == (403, False), name
        assert browser.get(path(channel.last["links"]["Ann Meier"])).status_code == 200
    assert asker.get(f"/v1/questions/{question_id}").json()["status"] == "open"


def test_a_form_that_cannot_be_read_is_answered_with_a_page_in_the_experts_language(desk):
    with httpx.Client(base_url=desk.url, headers={"Accept-Language": "it-CH"}) as browser:
        answer = browser.post("/questions/answer", params={"token": "x"}, files={"text": ("a.txt", b"a file")})

    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "text/html; charset=utf-8")
    assert "Non è stato possibile leggere il modulo." in answer.text


def test_a_no_ends_it_and_anything_else_is_an_ordinary_turn(desk, asker, model_server, channel):
    say(asker, "May we move it?")
    model_server.script("expert", {"decision": "other"})
    assert say(asker, "What does the cellar look like?")[1]["outcome"] == "expert_consent"

    text, told = say(asker, "Non merci")
    assert told["outcome"] == "expert_declined"
    assert text in {refusal_text("expert_declined", locale) for locale in ("fr", "it", "en")}
    assert channel.received == []


def test_a_channel_that_is_down_is_told_and_a_second_yes_goes_through(desk, asker, channel):
    say(asker, "May we move it?")
    channel.status = 500
    assert say(asker, "yes")[1]["outcome"] == "expert_errored"

    channel.status = 200
    assert say(asker, "yes")[1]["outcome"] == "expert_pending"


def test_without_a_thread_or_a_user_nobody_can_be_asked(desk, model_server, channel):
    model_server.default("answer", "I do not know.")

    for client in (desk.client("eva"), desk.client(**{"X-OpenWebUI-Chat-Id": "some thread"})):
        text, told = say(client, "May we move it?")
        assert (told["outcome"], text) == ("context_insufficient", "I do not know.")


@pytest.mark.parametrize(
    ("kind", "question_of"),
    [
        ("slack", lambda body: body["blocks"][1]["text"]["text"]),
        ("teams", lambda body: body["attachments"][0]["content"]["body"][1]["inlines"][0]["text"]),
    ],
)
def test_slack_and_teams_get_their_own_formats(tmp_path, desk_settings, desk, channel, kind, question_of):
    with serving(tmp_path, None, **desk_settings, expert_webhook_kind=kind) as served:
        escalate(served.client(f"eva {uuid.uuid4()}", **{"X-OpenWebUI-Chat-Id": str(uuid.uuid4())}))

    assert question_of(channel.last) == QUESTION
    assert "/questions/answer?token=" in json.dumps(channel.last)
    assert "x-hayrecall-signature" not in channel.received[-1][0]
