"""LeanChatGenerator asks a model for the same thing as Haystack's own generator, without looking at each message."""

import ssl

import pytest
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent, ToolCall
from haystack.utils import Secret

from components.lean_chat_generator import LeanChatGenerator
from components.tls import shared_tls_context

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


async def test_opening_shares_one_context_that_checks_certificates_and_changes_no_setting(generators):
    generator = generators[1]
    generator.http_client_kwargs = {"headers": {"X-Mine": "1"}}
    await generator.warm_up_async()

    assert generator.http_client_kwargs == {"headers": {"X-Mine": "1"}}
    assert shared_tls_context() is shared_tls_context()
    assert shared_tls_context().verify_mode == ssl.CERT_REQUIRED
    assert shared_tls_context().check_hostname
