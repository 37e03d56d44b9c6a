"""The few-shot assistant answers by examples: from the condensed question, without the chat."""

import pytest

from tests.integration.assistants.talking import ask

pytestmark = pytest.mark.integration

SENTINEL = "zanzibarquokka"
QUESTION = "Who repairs the projector in room 12?"
SCHEMA = {
    "type": "json_schema",
    "json_schema": {"name": "team", "strict": True, "schema": {"type": "object", "properties": {}}},
}
CHAT = [
    {"role": "system", "content": "Answer in lower case."},
    {"role": "user", "content": f"{SENTINEL} one"},
    {"role": "assistant", "content": f"{SENTINEL} two"},
    {"role": "user", "content": f"{SENTINEL} three: who repairs it?"},
]
EXAMPLES = [
    ("My screen stays black.", "it"),
    ("How many days of holiday do I have left?", "hr"),
    ("The heating in room 12 does not work.", "facilities"),
    ("What is for lunch today?", "other"),
]


@pytest.fixture
def models(model_server):
    model_server.default("condenser", QUESTION)
    model_server.default("answer", '{"team": "facilities"}')
    return model_server


@pytest.mark.parametrize("stream", [False, True])
def test_the_model_sees_system_prompt_memories_instructions_examples_and_question(assistants, models, user, stream):
    client = assistants.client(user)
    models.script("condenser", "I always sit in room 12.")
    ask(client, "rag", "I always sit in room 12.")
    models.log.clear()

    text, told = ask(client, "few-shot", CHAT, stream=stream, response_format=SCHEMA)

    assert (text, told["outcome"], told["question"]) == ('{"team": "facilities"}', "answered", QUESTION)
    (answering,) = models.calls("answer")
    assert answering.body["response_format"] == SCHEMA
    assert SENTINEL not in answering.text
    client_prompt, memories, instructions, *shown, question = answering.body["messages"]
    assert (client_prompt["role"], client_prompt["content"]) == ("system", "Answer in lower case.")
    assert (memories["role"], "I always sit in room 12." in memories["content"]) == ("system", True)
    assert (instructions["role"], "Request desk" in instructions["content"]) == ("system", True)
    pairs = [(ask["content"], answer["content"]) for ask, answer in zip(shown[::2], shown[1::2], strict=True)]
    assert sorted(pairs) == sorted(EXAMPLES)
    assert [said["role"] for said in shown] == ["user", "assistant"] * 4
    assert (question["role"], question["content"]) == ("user", QUESTION)


def test_what_was_asked_is_remembered_in_the_condensed_form(assistants, models, user):
    client = assistants.client(user)
    ask(client, "few-shot", CHAT)

    models.script("condenser", "What did I ask?")
    ask(client, "rag", "What did I ask?")

    remembering = models.calls("answer")[-1]
    assert QUESTION in remembering.text
    assert SENTINEL not in remembering.text


def test_a_blank_question_is_refused(assistants, models, user):
    models.default("condenser", "none")

    assert ask(assistants.client(user), "few-shot", CHAT)[1]["outcome"] == "condensation_empty"
    assert not models.calls("answer")


def test_what_is_said_instead_of_an_answer_is_not_forced_into_its_form(assistants, models, user):
    models.default("gate", {"label": "meta"})

    assert ask(assistants.client(user), "few-shot", CHAT, response_format=SCHEMA)[1]["outcome"] == "meta"

    assert "response_format" not in models.calls("answer")[0].body
