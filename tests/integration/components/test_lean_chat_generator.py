"""LeanChatGenerator asks a model for the same thing as Haystack's own generator, without looking at each message."""

import time

import pytest
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent, ToolCall
from haystack.utils import Secret

from components.lean_chat_generator import LeanChatGenerator

pytestmark = pytest.mark.integration
CALL = ToolCall(tool_name="search", arguments={"query": "menu"}, id="1")
CHAT = [
    ChatMessage.from_system("Be kind."),
    ChatMessage.from_user(content_parts=["What is this?", ImageContent("iVBORw0KGgo=", mime_type="image/png")]),
    ChatMessage.from_assistant(tool_calls=[CALL]),
    ChatMessage.from_tool("Soup.", origin=CALL),
    ChatMessage.from_assistant("Soup, “heiß” 🍲."),
    ChatMessage.from_user("And tomorrow?"),
]


@pytest.fixture
async def generators(model_server):
    made = [
        kind(model="m", api_key=Secret.from_token("unused"), api_base_url=model_server.url, max_retries=0)
        for kind in (OpenAIChatGenerator, LeanChatGenerator)
    ]
    yield made
    for generator in made:
        await generator.close_async()


async def ignored(_):
    """Make the answer a stream."""


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.3, "stop": ["END"]},
        {"extra_body": {"top_k": 4}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}},
    ],
)
async def test_the_request_is_that_of_haystacks_own_generator(model_server, generators, streamed, settings):
    model_server.default("unnamed", '{"dish": "soup"}')
    callback = {"streaming_callback": ignored} if streamed else {}

    answers = [await generator.run_async(CHAT, generation_kwargs=settings, **callback) for generator in generators]

    theirs, ours = (call.body for call in model_server.log)
    assert ours == theirs
    assert len(ours["messages"]) == len(CHAT)
    assert [answer["replies"][0].text for answer in answers] == ['{"dish": "soup"}'] * 2


async def test_a_chat_of_thousands_of_messages_is_handed_on_in_a_fraction_of_the_time(generators):
    chat = [ChatMessage.from_user("Hello"), ChatMessage.from_assistant("Hello")] * 1000
    seconds = []
    for generator in generators:
        await generator.run_async(chat[:2])
        started = time.process_time()
        await generator.run_async(chat)
        seconds.append(time.process_time() - started)

    assert seconds[1] < seconds[0] / 2
