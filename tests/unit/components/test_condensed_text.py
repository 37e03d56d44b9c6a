"""Of the condenser's reply only the question is left."""

import pytest

from components.condensed_text import clean_question
from components.model_output import read_object, without_reasoning
from contracts.errors import UnreadableModelOutputError

QUESTION = "What does the VPN cost?"


@pytest.mark.parametrize(
    "reply",
    [
        QUESTION,
        f"  {QUESTION}\n",
        f'"{QUESTION}"',
        f"«{QUESTION}»",
        f"„{QUESTION}“",
        f"`{QUESTION}`",
        f"```\n{QUESTION}\n```",
        f'```text\n"{QUESTION}"\n```',
        f"<think>They mean the VPN.</think>\n{QUESTION}",
        f"They mean the VPN.</think>\n\n{QUESTION}",
        f"<think>a</think><think>b</think>{QUESTION}",
        f"<THINK>a\nb</THINK> {QUESTION}",
        f"{QUESTION}\n<think>Is that all?",
        f"Standalone question: {QUESTION}",
        f"Question : {QUESTION}",
        f'Frage: "{QUESTION}"',
        "What does\nthe VPN   cost?",
        f"\0{QUESTION}",
    ],
)
def test_reasoning_quotes_fences_and_labels_go(reply):
    assert clean_question(reply) == QUESTION


@pytest.mark.parametrize(
    "reply",
    [
        "",
        " \n",
        '""',
        "''",
        "``````",
        "```\n```",
        "?",
        "...",
        "—",
        "N/A",
        "n/a.",
        "N.A.",
        "(nothing)",
        "none",
        "None.",
        '"null"',
        "<none>",
        "[]",
        "<think>Hm.</think>",
        "<think>Hm.",
        "Hm.</think>",
        "<think></think>\n\n",
        "Question: N/A",
        "Keine Frage.",
        "\x00",
    ],
)
def test_what_stands_for_nothing_is_blank(reply):
    assert clean_question(reply) == ""


@pytest.mark.parametrize(
    "question",
    [
        'Is "Alpenblick" open?',
        '"Yes" or "no"?',
        "'tis true?",
        "None of the files open, why?",
        "Null hypothesis?",
        "Wer ist X? Y?",
    ],
)
def test_a_question_keeps_quotes_and_words_of_its_own(question):
    assert clean_question(question) == question


def test_a_lone_surrogate_does_not_travel_on():
    clean_question("Why\ud800?").encode()


@pytest.mark.parametrize(
    "reply",
    [
        '{"label": "meta"}',
        '```json\n{"label": "meta"}\n```',
        '<think>{"label": "normal"}?</think>{"label": "meta"}',
        'Sure: {"note": {}} {"label": "meta"} Bye',
        'It is {meta}. {"label": "meta"}',
    ],
)
def test_an_object_is_read_out_of_fences_prose_and_reasoning(reply):
    assert read_object(reply, schema_name="gate", properties=["label"]) == {"label": "meta"}


@pytest.mark.parametrize("reply", ["", "meta", '{"label": ', '["label"]', '{"other": 1}', "{" * 5000, '"label"'])
def test_what_holds_no_object_is_unreadable_and_not_quoted(reply):
    with pytest.raises(UnreadableModelOutputError) as failure:
        read_object(reply, schema_name="gate", properties=["label"])

    assert not reply or reply not in str(failure.value)


def test_text_without_reasoning_stays():
    assert without_reasoning("Think of <thin> lines.") == "Think of <thin> lines."
