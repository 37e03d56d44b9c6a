"""The chat endpoint as OpenAI's own client sees it."""

import json
import re

import httpx
import openai
import pytest

from tests.conftest import wait_until
from tests.scripted_model_server import Failure, Stream

pytestmark = pytest.mark.integration
ASK = [{"role": "user", "content": "When does the canteen open?"}]


@pytest.fixture
def sdk(served):
    with served.sdk("ann") as client:
        yield client


def chunks(sdk, **more):
    return list(sdk.chat.completions.create(**{"model": "echo", "stream": True, "messages": ASK, **more}))


def text_of(received):
    return "".join(choice.delta.content or "" for chunk in received for choice in chunk.choices)


def test_a_plain_answer_has_text_usage_and_outcome(sdk, model_server):
    model_server.default("answer", "At seven.")

    answer = sdk.chat.completions.create(model="echo", messages=ASK)

    assert answer.choices[0].message.content == "At seven."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == 12
    assert answer.model == "echo"
    outcome = answer.model_extra["hayrecall"]
    assert outcome["outcome"] == "answered"
    assert outcome.keys() == {"outcome", "reason", "run_id", "sources", "question"}


def test_a_streamed_answer_says_the_same_piece_by_piece(sdk, model_server):
    model_server.default("answer", "At seven, on weekdays.")

    received = chunks(sdk)

    assert text_of(received) == "At seven, on weekdays."
    assert received[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in received if c.choices][-2:] == [None, "stop"]
    assert received[-1].choices == []
    assert received[-1].model_extra["hayrecall"]["outcome"] == "answered"
    assert received[-1].usage is None
    assert len({chunk.id for chunk in received}) == 1


def test_a_stream_tells_its_usage_when_asked(sdk):
    assert chunks(sdk, stream_options={"include_usage": True})[-1].usage.completion_tokens == 4


def test_a_stream_ends_with_done_and_nothing_after(served):
    with served.client() as client:
        lines = client.post("/v1/chat/completions", json={"model": "echo", "stream": True, "messages": ASK}).text

    events = [line.removeprefix("data: ") for line in lines.splitlines() if line]
    assert events[-1] == "[DONE]"
    assert all(json.loads(event)["object"] == "chat.completion.chunk" for event in events[:-1])


def test_the_served_models_are_listed(sdk):
    assert {model.id for model in sdk.models.list()} == {"echo", "blind", "tasks"}


def test_reasoning_is_shown_neither_streamed_nor_plain(sdk, model_server):
    model_server.default("answer", Stream(("<thi", "nk>hid", "den</th", "ink>", "\n\n", "At ", "seven.")))

    assert text_of(chunks(sdk)) == "At seven."
    assert sdk.chat.completions.create(model="echo", messages=ASK).choices[0].message.content == "At seven."


def test_sampling_settings_reach_the_model_and_tools_do_not(sdk, model_server):
    tool = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}
    sdk.chat.completions.create(
        model="echo",
        messages=ASK,
        temperature=0.3,
        max_tokens=7,
        stop=["END"],
        tools=[tool],
        extra_body={"made_up": {"deep": [1]}, "logit_bias": {}},
    )

    (call,) = model_server.calls("answer")
    assert (call.body["temperature"], call.body["max_tokens"], call.body["stop"]) == (0.3, 7, ["END"])
    assert not {"tools", "made_up", "logit_bias"} & call.body.keys()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"model": "nobody"}, (404, "model_not_found")),
        ({"messages": []}, (400, "empty_message")),
        ({"messages": [{"role": "user", "content": "  "}]}, (400, "empty_message")),
        ({"n": 2}, (400, "unsupported_n")),
        ({"n": True}, (400, "unsupported_n")),
        ({"temperature": 9}, (400, "invalid_request")),
        ({"messages": "hello"}, (400, "invalid_request")),
        ({"model": None}, (400, "invalid_request")),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_answered_is_refused_in_openais_shape(served, model_server, stream, body, expected):
    status, code = expected
    with served.client("ann") as client:
        answer = client.post("/v1/chat/completions", json={"model": "echo", "messages": ASK, "stream": stream} | body)

    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["code"] == code
    assert error["message"]
    assert error["type"] == "invalid_request_error"
    assert not model_server.log


def test_what_a_client_leaves_open_may_be_null(served, model_server):
    optional = (
        "stream stream_options n temperature top_p max_tokens max_completion_tokens presence_penalty frequency_penalty "
        "seed stop response_format user chat_id tools tool_choice parallel_tool_calls functions function_call store "
        "logit_bias logprobs top_logprobs metadata modalities audio prediction reasoning_effort service_tier verbosity"
    )
    message = ASK[0] | {"name": None, "tool_calls": None, "refusal": None, "audio": None, "function_call": None}
    nothing = dict.fromkeys(optional.split())
    with served.client("ann") as client:
        answer = client.post("/v1/chat/completions", json={"model": "echo", "messages": [message]} | nothing)

    assert (answer.status_code, answer.json().get("object")) == (200, "chat.completion"), answer.text
    (call,) = model_server.calls("answer")
    assert None not in call.body.values()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"model":"echo","messages":' + b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(served, body):
    with served.client() as client:
        answer = client.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure(500), (503, "model_unavailable")),
        (Failure(429), (503, "model_unavailable")),
        (Failure(401), (503, "model_unavailable")),
        (Failure(400), (502, "model_failed")),
    ],
)
def test_a_failing_model_has_a_status_of_its_own_and_tells_nothing(served, model_server, stream, failure, expected):
    model_server.default("answer", failure)

    with served.client() as client:
        answer = client.post("/v1/chat/completions", json={"model": "echo", "messages": ASK, "stream": stream})

    assert (answer.status_code, answer.json()["error"]["code"]) == expected
    assert "secret-of-the-backend" not in answer.text
    assert "127.0.0.1" not in answer.text


def test_a_model_that_breaks_off_ends_the_stream_with_an_error_that_clients_raise(sdk, served, model_server):
    model_server.default("answer", Stream(("At ", "se"), cut=True))

    with pytest.raises(openai.APIError, match="not available") as raised:
        chunks(sdk)
    assert raised.value.code == "model_unavailable"

    with served.client() as client:
        lines = client.post("/v1/chat/completions", json={"model": "echo", "stream": True, "messages": ASK}).text
    assert lines.rstrip().endswith("data: [DONE]")


@pytest.mark.parametrize("stream", [False, True])
def test_a_background_task_goes_straight_to_the_task_model(served, model_server, stream):
    model_server.default("task", "Canteen hours")
    body = {"model": "echo", "stream": stream, "messages": ASK, "max_tokens": 1000}

    with served.client("ann", **{"X-OpenWebUI-Task": "title_generation"}) as client:
        answer = client.post("/v1/chat/completions", json=body)

    assert "Canteen" in answer.text
    assert [call.stage for call in model_server.log] == ["task"]
    assert model_server.log[0].body["messages"] == ASK


def test_an_empty_task_header_is_none(served, model_server):
    with served.client(**{"X-OpenWebUI-Task": ""}) as client:
        client.post("/v1/chat/completions", json={"model": "echo", "messages": ASK})

    assert [call.stage for call in model_server.log] == ["answer"]


def test_an_image_reaches_a_model_that_sees_and_no_other(sdk, model_server):
    url = "data:image/png;base64,iVBORw0KGgo="
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    for model in ("echo", "blind"):
        sdk.chat.completions.create(model=model, messages=[{"role": "user", "content": parts}])

    seeing, blind = model_server.calls("answer")
    assert url in seeing.text
    assert "base64" not in blind.text


def test_template_syntax_and_odd_characters_are_only_text(sdk, model_server):
    text = "{{ 7*7 }} {% raw %} <|im_start|>system \ud83d\ude00"
    body = {"role": "user", "content": text.encode("utf-16", "surrogatepass").decode("utf-16")}
    sdk.chat.completions.create(model="echo", messages=[body])

    assert model_server.calls("answer")[0].body["messages"][0]["content"] == body["content"]


def test_lone_surrogates_and_nul_do_not_break_anything(served):
    raw = b'{"model": "echo", "messages": [{"role": "user", "content": "a\\u0000b\\ud800c"}]}'
    with served.client() as client:
        answer = client.post("/v1/chat/completions", content=raw, headers={"Content-Type": "application/json"})

    assert answer.status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_hanging_up_before_the_first_token_ends_the_model_call(served, model_server, stream):
    model_server.latency["answer"] = 20
    before = served.tasks()

    with served.client() as client, pytest.raises(httpx.ReadTimeout):
        client.post("/v1/chat/completions", json={"model": "echo", "messages": ASK, "stream": stream}, timeout=0.5)

    wait_until(lambda: model_server.log and not model_server.open_calls(), seconds=2)
    wait_until(lambda: len(served.tasks()) <= len(before), seconds=5)


def test_fifty_clients_that_hang_up_leave_nothing_behind(served, model_server):
    model_server.default("answer", Stream(tuple(f"word{n} " for n in range(400)), gap_seconds=0.05))
    before = served.tasks()

    streams = []
    with served.client() as client:
        for _ in range(50):
            request = client.build_request(
                "POST", "/v1/chat/completions", json={"model": "echo", "stream": True, "messages": ASK}
            )
            streams.append(client.send(request, stream=True))
        for stream in streams:
            lines = stream.iter_lines()
            for _ in range(5):  # three events, with blank lines between them
                next(lines)
            stream.close()

    wait_until(lambda: not model_server.open_calls(), seconds=5)
    wait_until(lambda: len(served.tasks()) <= len(before), seconds=5)
    assert len(model_server.calls("answer")) == 50


@pytest.mark.parametrize("reply", ["", " \n", "<think>Hm.</think>", "<think>Hm. What"])
def test_a_model_that_gives_no_text_has_failed(served, model_server, reply):
    model_server.default("answer", reply)

    with served.client() as client:
        before = _failed_runs(client)
        plain = client.post("/v1/chat/completions", json={"model": "echo", "messages": ASK})
        streamed = client.post("/v1/chat/completions", json={"model": "echo", "messages": ASK, "stream": True})

        assert (plain.status_code, plain.json()["error"]["code"]) == (502, "model_failed")
        assert '"code":"model_failed"' in streamed.text.replace(" ", "")
        assert "answered" not in streamed.text
        wait_until(lambda: _failed_runs(client) == before + 2)


def _failed_runs(client):
    found = re.search(
        r'^hayrecall_runs_total\{assistant="echo",outcome="failed"\} (\S+)', client.get("/metrics").text, re.M
    )
    return float(found[1]) if found else 0.0
