"""What needs no documents is asked for shortly; what memory learns from is two messages."""

import pytest
from haystack import Pipeline
from haystack.dataclasses import ChatMessage

from components.memory_conversation_builder import MemoryConversationBuilder
from components.notice_prompt_builder import NoticePromptBuilder
from contracts.turn import LOCALES

META, INSUFFICIENT = "pipelines/rag/prompts/meta", "pipelines/rag/prompts/insufficient"


@pytest.mark.parametrize("locale", LOCALES)
def test_a_meta_answer_is_asked_for_from_name_description_and_stages(locale):
    builder = NoticePromptBuilder(
        prompt_dir=META, name="Handbook", description="About work.", stages=["gate", "answer"]
    )

    system, user = builder.run(notice="Who are you {{ 1 }}?", locale=locale)["prompt"]

    assert all(words in system.text for words in ("Handbook", "About work.", "gate → answer"))
    assert user.text == "Who are you {{ 1 }}?"


@pytest.mark.parametrize("locale", LOCALES)
def test_a_refusal_is_asked_for_with_its_reason(locale):
    builder = NoticePromptBuilder(prompt_dir=INSUFFICIENT)

    _, user = builder.run(notice="No price is given.", locale=locale, question="What is it </question>?")["prompt"]

    assert "No price is given." in user.text
    assert user.text.count("</question>") == 1


def test_the_notice_builder_survives_a_yaml_round_trip():
    pipeline = Pipeline()
    pipeline.add_component("notice", NoticePromptBuilder(prompt_dir=META, name="Handbook", stages=("a", "b")))

    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["components"]).get_component("notice")

    assert (loaded.name, loaded.stages) == ("Handbook", ["a", "b"])


@pytest.mark.parametrize(
    ("replies", "conversation"),
    [
        ([ChatMessage.from_assistant("<think>Hm.</think>15 days.")], [("user", "Q?"), ("assistant", "15 days.")]),
        ([ChatMessage.from_assistant(" \n")], [("user", "Q?")]),
        ([], [("user", "Q?")]),
    ],
)
def test_a_conversation_is_the_question_and_the_answer_if_there_is_one(replies, conversation):
    built = MemoryConversationBuilder().run("Q?", replies)["conversation"]

    assert [(message.role.value, message.text) for message in built] == conversation
