"""HistoryLimiter keeps the newest turns that fit, and refuses a last turn that does not."""

import copy
import random
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


def test_what_is_dropped_without_counting_would_have_been_dropped_anyway():
    chance = random.Random(7)
    call = ToolCall(tool_name="search", arguments={}, id="1")
    kinds = [
        lambda: user("a"),
        lambda: user("word " * chance.randint(1, 20)),
        lambda: assistant("b"),
        lambda: assistant(tool_calls=[call]),
        lambda: ChatMessage.from_tool("c", origin=call),
        lambda: system("Be brief."),
        lambda: user(" \0"),
    ]
    fewer = 0
    for _ in range(300):
        chat = [system("Be kind."), user("")][: chance.randint(0, 2)]
        chat += [chance.choice(kinds)() for _ in range(chance.randint(0, 60))]
        chat += [user("And now?"), assistant("Well.")][: chance.randint(1, 2)]
        limited = limiter(chance.randint(40, 500), max_messages=chance.choice([None, 1, 5, 30]))

        candidates = limited.candidates(chat)

        assert limited.run(candidates) == limited.run(chat)
        fewer += len(candidates) < sum(message.text not in ("", " \0") for message in chat)
    assert fewer > 50


def test_a_chat_of_ten_thousands_of_messages_is_cut_before_anything_is_counted():
    chat = [system("Be kind."), *[user("a"), assistant("b")] * 10_000, user("And now?")]

    assert len(limiter(10_000).candidates(chat)) <= 10_000 // 8 + 2


@pytest.mark.parametrize(
    ("most", "kept"),
    [
        (6, ["Answ", "one", "two", "thre", "four", "And"]),
        (5, ["Answ", "thre", "four", "And"]),
        (4, ["Answ", "thre", "four", "And"]),
        (2, ["Answ", "And"]),
        (1, ["And"]),
    ],
)
def test_at_most_so_many_messages_are_kept_where_a_backend_takes_no_more(most, kept):
    assert texts(limiter(10_000, max_messages=most).run(CHAT)["messages"]) == kept


def test_a_limit_without_room_for_the_last_turn_is_refused_at_start():
    with pytest.raises(ValueError, match="max_messages is 0"):
        limiter(100, max_messages=0)
