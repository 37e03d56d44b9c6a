"""A model's reasoning is never shown, wherever the pieces are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayrecall.server.thinking import ThinkFilter


def shown(pieces):
    filtered = ThinkFilter()
    return "".join([*map(filtered.feed, pieces), filtered.finish()])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello.", "Hello."),
        ("<think>hidden</think>\n\nHello.", "Hello."),
        ("<THINK>hidden</Think>Hello.", "Hello."),
        ("One <think>hidden</think> two", "One two"),
        ("<think>a</think>x<think>b</think>y", "xy"),
        ("<think>never closed", ""),
        ("<think>nested <think> text</think>Hello", "Hello"),
        ("lone </think>Hello", "lone Hello"),
        ("a < b, and <thin air", "a < b, and <thin air"),
        ("ends with <thi", "ends with <thi"),
        ("", ""),
    ],
)
def test_reasoning_goes_and_everything_else_stays(text, expected):
    assert shown([text]) == expected
    assert shown(text) == expected


@given(st.lists(st.sampled_from(["<think>", "</think>", "<", "thi", "nk>", "a", " ", "İ"]), max_size=12), st.data())
def test_where_the_text_is_cut_makes_no_difference(parts, data):
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    assert shown(pieces) == shown([text])


def test_what_cannot_be_a_tag_is_shown_at_once():
    assert ThinkFilter().feed("1 < 2 and so on") == "1 < 2 and so on"
