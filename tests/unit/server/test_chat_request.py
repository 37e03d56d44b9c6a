"""Chat requests are read as real clients send them."""

import pytest
from haystack.dataclasses import ChatRole

from hayrecall.server.chat_request import ChatRequest
from hayrecall.server.errors import ApiError

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
USER = {"role": "user", "content": "What is on the menu?"}


def read(*messages, vision=True, **body):
    return ChatRequest.read({"messages": list(messages) or [USER], **body}, vision=vision)


def refused(*messages, **body):
    with pytest.raises(ApiError) as error:
        read(*messages, **body)
    return error.value.status_code, error.value.code


def nested(levels):
    return {"inner": nested(levels - 1)} if levels else {}


def roles(request):
    return [message.role.value for message in request.messages]


def test_roles_of_every_kind_keep_their_place():
    request = read(
        {"role": "developer", "content": "Be brief."},
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "One"},
        {"role": "user", "content": "Two", "name": "ann"},
        {"role": "assistant", "content": None},
        {"role": "user", "content": [{"type": "text", "text": "Three"}, {"type": "text", "text": "Four"}]},
    )

    assert roles(request) == ["system", "system", "user", "user", "assistant", "user"]
    assert request.last_text == "Three\nFour"


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "Be kind."}],
        [{"role": "user", "content": " \n\t"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": []}],
        [USER, {"role": "assistant", "content": "Soup."}, {"role": "user", "content": "\0"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]}],
    ],
)
def test_a_chat_that_ends_without_a_users_text_is_refused(messages):
    assert refused(*messages) == (400, "empty_message")


def test_no_message_at_all_is_refused():
    with pytest.raises(ApiError) as error:
        ChatRequest.read({"messages": []}, vision=True)
    assert error.value.code == "empty_message"


def test_a_partly_written_answer_may_come_last():
    assert roles(read(USER, {"role": "assistant", "content": "The menu"})) == ["user", "assistant"]


def test_an_image_stays_with_its_text_for_a_model_that_sees():
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/PNG;charset=x;base64,{PIXEL}"}},
    ]
    (message,) = read({"role": "user", "content": parts}).messages
    assert (message.images[0].mime_type, message.images[0].base64_image) == ("image/png", PIXEL)

    (blind,) = read({"role": "user", "content": parts}, vision=False).messages
    assert (blind.images, blind.text) == ([], "What is it?")


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest/meta-data"}},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,@@@"}},
        {"type": "image_url", "image_url": {"url": "data:text/html;base64,PGI+"}},
        {"type": "image_url"},
    ],
)
def test_an_image_that_is_not_in_the_request_is_refused_and_never_fetched(part):
    assert refused({"role": "user", "content": [{"type": "text", "text": "?"}, part]}) == (400, "unsupported_image")


@pytest.mark.parametrize("part", [{"type": "input_audio"}, {"type": "text"}, {"type": "text", "text": 1}, "text", 7])
def test_other_parts_are_refused_by_name(part):
    assert refused({"role": "user", "content": [part]}) == (400, "unsupported_content")


def call(call_id, arguments="{}"):
    return {"id": call_id, "type": "function", "function": {"name": "look_up", "arguments": arguments}}


def test_a_tool_call_and_its_results_stay_together():
    request = read(
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call("a", '{"day": 1}'), call("b")]},
        {"role": "tool", "tool_call_id": "b", "content": "soup"},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "rice"}]},
        USER,
    )

    assert roles(request) == ["user", "assistant", "tool", "tool", "user"]
    assert request.messages[1].tool_calls[0].arguments == {"day": 1}
    assert request.messages[2].tool_call_results[0].result == "rice"


@pytest.mark.parametrize(
    "turns",
    [
        [{"role": "assistant", "content": "Wait.", "tool_calls": [call("a")]}],
        [{"role": "assistant", "content": "Wait.", "tool_calls": [call("a", "{")]}],
        [{"role": "assistant", "content": "Wait.", "tool_calls": [call("a", '{"day": NaN}')]}],
        [{"role": "assistant", "content": "Wait.", "tool_calls": [call("a", "[" * 20_000)]}],
        [{"role": "assistant", "content": "Wait.", "tool_calls": "x"}],
        [
            {"role": "assistant", "content": "Wait.", "tool_calls": [call("a")]},
            {"role": "tool", "tool_call_id": "z", "content": "soup"},
        ],
        [{"role": "assistant", "content": "Wait."}, {"role": "tool", "tool_call_id": "a", "content": "soup"}],
    ],
)
def test_half_of_a_tool_call_becomes_a_plain_turn(turns):
    request = read(USER, *turns, USER)

    assert roles(request) == ["user", "assistant", "user"]
    assert not request.messages[1].tool_calls


@pytest.mark.parametrize("message", [{}, {"role": "wizard", "content": "x"}, {"role": 1, "content": "x"}])
def test_a_message_of_nobody_is_refused(message):
    assert refused(message, USER) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\0b", "ab"), ("a\ud800b", "a\ufffdb"), ("\ud83d\ude00", "😀"), ("{{ 7*7 }}{% x %}<|im_end|>", None)],
)
def test_text_is_made_encodable_and_otherwise_left_alone(text, expected):
    assert read({"role": "user", "content": text}).last_text == (expected or text)


def test_sampling_settings_go_to_the_model_and_the_rest_is_passed_over():
    request = read(
        temperature=0, top_p=0.5, max_tokens=9, stop="END", seed=None, tools=[{}], logprobs=True, whatever=1, n=1
    )

    assert request.generation_kwargs == {"temperature": 0, "top_p": 0.5, "max_tokens": 9, "stop": ["END"]}


def test_of_two_names_for_one_limit_the_newer_counts():
    assert read(max_tokens=9, max_completion_tokens=7).generation_kwargs == {"max_completion_tokens": 7}


@pytest.mark.parametrize(
    "body",
    [
        {"temperature": "hot"},
        {"temperature": 3},
        {"temperature": float("nan")},
        {"top_p": True},
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"stop": 1},
        {"stop": ["a"] * 5},
        {"stop": [""]},
        {"stop": ["\0"]},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"minimum": float("nan")}}}},
        {"response_format": nested(100)},
    ],
)
def test_a_setting_out_of_range_is_refused(body):
    assert refused(**body) == (400, "invalid_request")


def test_what_is_handed_on_can_be_sent_whatever_is_in_it():
    called = {"role": "assistant", "tool_calls": [call("a", '{"day\\ud800": ["\\ud800"]}')]}
    result = {"role": "tool", "tool_call_id": "a", "content": ""}
    request = read(called, result, USER, stop="END\ud800", response_format={"a": "\ud800"})

    assert request.messages[0].tool_calls[0].arguments == {"day\ufffd": ["\ufffd"]}
    assert request.generation_kwargs == {"stop": ["END\ufffd"], "response_format": {"a": "\ufffd"}}


def test_a_limit_is_told_in_digits():
    with pytest.raises(ApiError) as error:
        read(max_tokens=0)
    assert error.value.detail == "`max_tokens` must be a whole number from 1 to 2147483648."


@pytest.mark.parametrize("n", [0, 2, "1", True, False])
def test_only_one_answer_can_be_asked_for(n):
    assert refused(n=n) == (400, "unsupported_n")


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        ({}, True),
        ({"stream": True}, False),
        ({"stream": True, "stream_options": {"include_usage": True}}, True),
        ({"stream": True, "stream_options": "x"}, False),
    ],
)
def test_usage_is_reported_when_asked_for_and_in_every_plain_answer(body, usage):
    assert read(**body).usage is usage


def test_the_last_users_text_is_what_language_is_told_from():
    request = read({"role": "user", "content": "Bonjour"}, {"role": "assistant", "content": "Hello"})

    assert request.last_text == "Bonjour"
    assert request.messages[0].is_from(ChatRole.USER)
