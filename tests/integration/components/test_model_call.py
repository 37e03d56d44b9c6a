"""A model's failures become errors that say who is to blame, without the backend's or the user's words."""

import asyncio

import pytest
from haystack.dataclasses import ChatMessage
from prometheus_client import REGISTRY

from components.model_call import close_model, reply_text, structured_reply
from contracts.errors import ModelUnavailableError, RejectedRequestError, UnreadableModelOutputError
from tests.scripted_model_server import Failure
from tests.scripted_stage import scripted_generator

pytestmark = pytest.mark.integration

PROMPT = [ChatMessage.from_user("A secret question?")]
SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string"}},
    "required": ["label"],
    "additionalProperties": False,
}


@pytest.fixture
async def model(model_server):
    model = scripted_generator(model_server, "task")
    yield model
    await close_model(model)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        *[(status, ModelUnavailableError) for status in (401, 403, 404, 408, 429, 500, 502, 503)],
        *[(status, RejectedRequestError) for status in (400, 413, 422)],
    ],
)
async def test_a_status_decides_between_outage_and_rejection(model, model_server, status, error):
    model_server.script("task", Failure(status))

    with pytest.raises(error) as failure:
        await reply_text(model, PROMPT)

    assert str(status) in str(failure.value)
    assert "secret" not in str(failure.value)


async def test_a_model_that_hangs_or_is_not_there_is_an_outage(model_server):
    model_server.latency["task"] = 5
    slow = scripted_generator(model_server, "task", timeout=0.1)
    nobody = scripted_generator(model_server, "task", api_base_url="http://127.0.0.1:9/v1")

    for model, message in ((slow, "did not answer in time"), (nobody, "HAYRECALL_LLM_BASE_URL")):
        with pytest.raises(ModelUnavailableError, match=message):
            await reply_text(model, PROMPT)
        await close_model(model)


@pytest.mark.parametrize("body", ["<html>Sign in</html>", "{}", '{"choices": null}', '{"choices": [{}]}', "[]"])
@pytest.mark.parametrize("content_type", ["text/html", "application/json"])
async def test_an_answer_that_is_no_chat_completion_is_unreadable(model_server, body, content_type):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        model = scripted_generator(model_server, "task", api_base_url=f"http://127.0.0.1:{port}/v1")
        with pytest.raises(UnreadableModelOutputError, match="no chat completion"):
            await reply_text(model, PROMPT)
        await close_model(model)


async def test_an_object_is_asked_for_with_its_schema_and_read(model, model_server):
    model_server.script("task", {"label": "meta"})

    assert await structured_reply(model, PROMPT, schema_name="gate", schema=SCHEMA) == {"label": "meta"}

    (call,) = model_server.calls("task")
    asked = call.body["response_format"]
    assert asked == {"type": "json_schema", "json_schema": {"name": "gate", "schema": SCHEMA, "strict": True}}


async def test_a_backend_that_ignores_the_schema_is_understood(model, model_server):
    model_server.script("task", '<think>{"label": "a"}</think>```json\n{"label": "b"}\n```')

    assert await structured_reply(model, PROMPT, schema_name="gate", schema=SCHEMA) == {"label": "b"}


async def test_what_holds_no_object_is_unreadable(model, model_server):
    model_server.script("task", "I would say it is meta, about your secret question.")

    with pytest.raises(UnreadableModelOutputError) as failure:
        await structured_reply(model, PROMPT, schema_name="gate", schema=SCHEMA)

    assert "secret" not in str(failure.value)


async def test_calls_are_timed_by_stage(model):
    before = REGISTRY.get_sample_value("hayrecall_model_call_seconds_count", {"stage": "task"}) or 0

    await reply_text(model, PROMPT)

    assert REGISTRY.get_sample_value("hayrecall_model_call_seconds_count", {"stage": "task"}) == before + 1
