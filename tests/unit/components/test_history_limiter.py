"""HistoryLimiter keeps the newest turns that fit, and refuses a last turn that does not."""

import copy
import time

import pytest
from haystack import Pipeline
from haystack.dataclasses import ChatMessage, ToolCall

from components.history_limiter import HistoryLimiter
from components.token_counter import TekkenTokenCounter
from contracts.errors import ConfigurationError, InputTooLargeError

user, assistant, system = ChatMessage.from_user, ChatMessage.from_assistant, ChatMessage.from_system
COUNTER = TekkenTokenCounter()
CHAT = [
    system("Answer like a pirate."),
    user("one " * 50),
    assistant("two " * 50),
    user("three " * 50),
    assistant("four " * 50),
    user("And now?"),
]


def limiter(tokens: int, **changes) -> HistoryLimiter:
    return HistoryLimiter(**({"max_input_tokens": tokens, "answer_reserve_tokens": 0} | changes))


def texts(messages: list[ChatMessage]) -> list[str]:
    return [(message.text or "")[:4].strip() for message in messages]


@pytest.mark.parametrize(
    ("budget", "kept"),
    [
        (10_000, ["Answ", "one", "two", "thre", "four", "And"]),
        (COUNTER.count(CHAT), ["Answ", "one", "two", "thre", "four", "And"]),
        (COUNTER.count(CHAT) - 1, ["Answ", "thre", "four", "And"]),
        (COUNTER.count(CHAT) - 70, ["Answ", "thre", "four", "And"]),
        (100, ["Answ", "And"]),
        (24, ["And"]),
    ],
)
def test_the_newest_suffix_that_fits_starts_with_a_user_turn(budget, kept):
    result = limiter(budget).run(CHAT)["messages"]

    assert texts(result) == kept
    assert COUNTER.count(result) <= budget


def test_a_suffix_never_starts_with_a_tool_turn():
    call = ToolCall(tool_name="search", arguments={}, id="1")
    chat = [
        user("x " * 100),
        assistant(tool_calls=[call]),
        ChatMessage.from_tool("sunny", origin=call),
        assistant("It is sunny."),
        user("Thanks"),
    ]

    assert texts(limiter(80).run(chat)["messages"]) == ["Than"]
    assert len(limiter(1000).run(chat)["messages"]) == 5


def test_blank_turns_are_dropped():
    chat = [user(" \n"), assistant(""), user("Hello"), assistant("\0"), user("Who pays?")]

    assert texts(limiter(1000).run(chat)["messages"]) == ["Hell", "Who"]


def test_consecutive_user_turns_stay_apart():
    chat = [user("First."), user("Second."), user("Third?")]

    assert limiter(1000).run(chat)["messages"] == chat


def test_the_input_is_not_changed():
    chat = copy.deepcopy(CHAT)

    limiter(100).run(chat)

    assert chat == CHAT


def test_a_last_turn_that_does_not_fit_is_refused_with_the_number_of_tokens():
    with pytest.raises(InputTooLargeError) as refusal:
        limiter(3000).run([user("Hello"), user("word " * 3000)])

    assert refusal.value.outcome == "input_too_large"
    assert "2996 tokens" in refusal.value.reason


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"model_window_tokens": 1000}, False),
        ({"model_window_tokens": 100_000}, True),
        ({"answer_reserve_tokens": 4000}, False),
        ({"prompt_dirs": ["pipelines/rag/prompts/answer", "pipelines/rag/prompts/condense"]}, True),
        ({"max_input_tokens": 1100, "prompt_dirs": ["pipelines/rag/prompts/condense"]}, False),
    ],
)
def test_window_reserve_and_own_prompts_narrow_the_limit(changes, fits):
    chat = [user("word " * 1000)]
    narrowed = limiter(4000, **changes)

    if fits:
        assert narrowed.run(chat)["messages"] == chat
    else:
        with pytest.raises(InputTooLargeError):
            narrowed.run(chat)


@pytest.mark.parametrize("tokens", [0, 1])
def test_a_limit_of_nothing_refuses_everything_and_says_so_once(tokens, caplog):
    with pytest.raises(InputTooLargeError):
        limiter(tokens).run([user("Hi")])

    assert "no message can fit" in caplog.text


def test_a_huge_message_is_refused_before_all_of_it_is_counted():
    started = time.process_time()
    with pytest.raises(InputTooLargeError):
        limiter(8000).run([user("日本語 " * 5_000_000)])

    assert time.process_time() - started < 4


def test_a_missing_prompt_is_found_at_start():
    with pytest.raises(ConfigurationError, match="no such prompt folder"):
        limiter(1000, prompt_dirs=["nowhere"])


def test_survives_a_yaml_round_trip():
    pipeline = Pipeline()
    pipeline.add_component("limiter", limiter(500, prompt_dirs=["pipelines/rag/prompts/answer"]))

    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["components"]).get_component("limiter")

    assert loaded.max_input_tokens == 500
    assert loaded.prompt_dirs == ["pipelines/rag/prompts/answer"]
