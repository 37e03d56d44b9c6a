"""Tokens are counted offline, for every script, and whatever stands in a text."""

import threading
import time
from functools import partial

import pytest
from haystack.dataclasses import ChatMessage, ImageContent, ToolCall

from components.token_counter import IMAGE_TOKENS, MESSAGE_OVERHEAD_TOKENS, PRIMING_TOKENS, TekkenTokenCounter

COUNTER = TekkenTokenCounter()


@pytest.mark.parametrize(
    ("text", "at_least"),
    [
        ("私は毎日会社で働いています。休暇は何日ありますか。", 12),
        ("ฉันมีวันลาพักร้อนกี่วัน", 8),
        ("كم عدد أيام الإجازة التي أستحقها؟", 7),
        ("我有多少天假期。", 4),
        ("Сколько дней отпуска мне положено?", 6),
        ("👩‍👩‍👧‍👦", 4),
        ("कार्यालय जुलाई में बंद है। मेरे पास कितने दिन की छुट्टी है?", 44),  # what Qwen 2.5 takes, less a sixth
        ("المكتب مغلق في شهر يوليو. كم عدد أيام الإجازة التي أستحقها؟", 23),
    ],
)
def test_other_scripts_are_not_counted_as_four_characters_a_token(text, at_least):
    assert COUNTER.count_text(text) >= at_least
    assert COUNTER.count_text(text) > len(text) / 4


@pytest.mark.parametrize("special", ["<s>", "[INST]", "</s>", "<|im_start|>", "<|endoftext|>", "[TOOL_CALLS]"])
def test_a_special_token_in_a_text_is_plain_text(special):
    assert COUNTER.count_text(special) > 1


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x\udfffy", "\0" * 5000])
def test_nul_and_lone_surrogates_are_counted(text):
    assert COUNTER.count_text(text) >= 1


def test_nothing_costs_nothing():
    assert COUNTER.count_text("") == 0


@pytest.mark.parametrize("character", ["x", " ", "!", "日", "\n"])
def test_a_megabyte_without_any_word_is_counted_in_time(character):
    started = time.process_time()

    tokens = COUNTER.count_text(character * 1_000_000)

    assert tokens > 10_000
    assert time.process_time() - started < 3


def test_counting_stops_when_more_is_too_much_anyway():
    assert 100 < COUNTER.count_text("word " * 200_000, stop_after=100) < 20_000


def test_chunks_change_a_count_by_next_to_nothing():
    sentence = " Die Ferien dauern fünf Wochen im Jahr."

    whole = COUNTER.count_text(sentence * 5000)

    assert whole == pytest.approx(5000 * COUNTER.count_text(sentence), rel=0.01)


def test_a_message_costs_its_frame_its_images_and_its_tool_calls():
    image = ImageContent(base64_image="aGFsbG8=", mime_type="image/png", validation=False)
    call = ToolCall(tool_name="search", arguments={"query": "vacation"})

    assert COUNTER.count([]) == PRIMING_TOKENS
    assert COUNTER.count_message(ChatMessage.from_user("Hello")) == MESSAGE_OVERHEAD_TOKENS + 1
    assert COUNTER.count_message(ChatMessage.from_user(content_parts=["Hello", image])) > IMAGE_TOKENS
    assert COUNTER.count_message(ChatMessage.from_assistant(tool_calls=[call])) > MESSAGE_OVERHEAD_TOKENS + 3
    assert COUNTER.count_message(ChatMessage.from_tool("sunny", origin=call)) > MESSAGE_OVERHEAD_TOKENS


@pytest.mark.parametrize(
    "text", ["one two three four five six seven", "日本語のテキストがここにあります", "x" * 90_000]
)
@pytest.mark.parametrize("limit", [0, 1, 3, 5])
def test_a_cut_text_is_a_beginning_within_the_limit(text, limit):
    cut = COUNTER.cut(text, limit)

    assert text.startswith(cut)
    assert COUNTER.count_text(cut) <= limit
    assert cut or limit <= 1


def test_a_short_text_is_not_cut():
    assert COUNTER.cut("one two", 2) == "one two"


def test_threads_share_one_vocabulary():
    counts: list[int] = []
    count = partial(TekkenTokenCounter().count_text, "a b c")
    threads = [threading.Thread(target=lambda: counts.append(count())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counts == [3] * 8


def test_survives_serialization():
    assert isinstance(TekkenTokenCounter.from_dict(COUNTER.to_dict()), TekkenTokenCounter)
