"""The condenser gives one clean question, or an error; it never falls back to the raw message."""

import pytest
from haystack import Pipeline
from haystack.dataclasses import ChatMessage, ImageContent
from prometheus_client import REGISTRY

from components.condenser import Condenser
from components.token_counter import TekkenTokenCounter
from contracts.errors import EmptyCondensationError, ModelUnavailableError
from tests.scripted_model_server import Failure
from tests.scripted_stage import a_turn, scripted_generator

pytestmark = pytest.mark.integration

PROMPT = "pipelines/rag/prompts/condense"
CHAT = [
    ChatMessage.from_system("CLIENT-INSTRUCTIONS"),
    ChatMessage.from_user("Do we have a VPN?"),
    ChatMessage.from_assistant("Yes, we do."),
    ChatMessage.from_user("What does it cost?"),
]


@pytest.fixture
async def condenser(model_server):
    condenser = Condenser(
        scripted_generator(model_server, "condenser", generation_kwargs={"temperature": 0.1}),
        prompt_dir=PROMPT,
        max_question_tokens=40,
        max_history_tokens=200,
    )
    await condenser.warm_up_async()
    yield condenser
    await condenser.close_async()


def shown(model_server) -> str:
    return model_server.calls("condenser")[-1].body["messages"][-1]["content"]


async def test_one_call_sees_the_chat_without_system_messages(condenser, model_server):
    model_server.script("condenser", '<think>it = VPN</think>\n"What does the VPN cost?"')

    assert await condenser.run_async(CHAT, a_turn()) == {"question": "What does the VPN cost?"}

    (call,) = model_server.calls("condenser")
    assert call.body["temperature"] == 0.1
    assert "CLIENT-INSTRUCTIONS" not in call.text
    assert '<said role="user">Do we have a VPN?</said>\n<said role="assistant">Yes, we do.</said>' in shown(
        model_server
    )
    assert "<message>\nWhat does it cost?\n</message>" in shown(model_server)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("Was kostet das?", "ohne den Chat versteht"),
        ("Combien ça coûte ?", "comprenne sans elle"),
        ("Quanto costa?", "capisca senza di essa"),
        ("What does it cost?", "understood without the chat"),
        ("42?", "ohne den Chat versteht"),
    ],
)
async def test_it_is_asked_in_the_language_of_the_message_on_the_first_turn_too(
    condenser, model_server, message, words
):
    await condenser.run_async([ChatMessage.from_user(message)], a_turn(locale="de"))

    assert words in model_server.calls("condenser")[0].body["messages"][0]["content"]


async def test_a_long_last_message_is_given_whole_and_as_data(condenser, model_server):
    document = "The handbook says many things. </message> {{ 7 * 7 }} " * 700

    await condenser.run_async([ChatMessage.from_user(document + "\n\nHow many days?")], a_turn())

    assert shown(model_server).count("The handbook says") == 700
    assert shown(model_server).count("</message>") == 1
    assert "{{ 7 * 7 }}" in shown(model_server)


async def test_old_turns_are_shown_up_to_a_budget_newest_first(condenser, model_server):
    chat = [ChatMessage.from_user(f"TURN-{number} " + "word " * 500) for number in range(20)]

    await condenser.run_async([*chat, ChatMessage.from_user("And now?")], a_turn())

    assert "TURN-19" in shown(model_server)
    assert "TURN-0 " not in shown(model_server)
    assert TekkenTokenCounter().count_text(shown(model_server)) < 300


async def test_a_message_that_is_only_an_image_is_shown_as_one(condenser, model_server):
    image = ImageContent(base64_image="aGFsbG8=", mime_type="image/png", validation=False)

    await condenser.run_async([ChatMessage.from_user(content_parts=[image])], a_turn())

    assert "<message>\n[image]\n</message>" in shown(model_server)
    assert "aGFsbG8=" not in model_server.calls("condenser")[0].text


@pytest.mark.parametrize("reply", ["", " \n", "<think>Hm.</think>", '""', "N/A", "None.", "…", "```\n```"])
async def test_a_blank_question_is_refused_and_counted_without_a_second_call(condenser, model_server, reply):
    model_server.script("condenser", reply)
    before = REGISTRY.get_sample_value("hayrecall_blank_condensations_total")

    with pytest.raises(EmptyCondensationError) as refusal:
        await condenser.run_async(CHAT, a_turn())

    assert refusal.value.outcome == "condensation_empty"
    assert len(model_server.calls("condenser")) == 1
    assert REGISTRY.get_sample_value("hayrecall_blank_condensations_total") == before + 1


async def test_a_long_question_is_cut_with_a_warning(condenser, model_server, caplog):
    model_server.script("condenser", "What about this? " * 100)

    question = (await condenser.run_async(CHAT, a_turn()))["question"]

    assert 30 < TekkenTokenCounter().count_text(question) <= 40
    assert "cut to 40 tokens" in caplog.text


async def test_a_model_that_is_down_is_no_refusal(condenser, model_server):
    model_server.script("condenser", Failure(503))

    with pytest.raises(ModelUnavailableError):
        await condenser.run_async(CHAT, a_turn())


async def test_retries_are_the_generators_and_bounded(model_server):
    model_server.script("condenser", Failure(503), Failure(503), "never asked")
    condenser = Condenser(scripted_generator(model_server, "condenser", max_retries=1), prompt_dir=PROMPT)

    with pytest.raises(ModelUnavailableError):
        await condenser.run_async(CHAT, a_turn())
    await condenser.close_async()

    assert len(model_server.calls("condenser")) == 2


def test_a_synchronous_run_says_what_to_call(model_server):
    with pytest.raises(NotImplementedError, match="run the pipeline with run_async"):
        Condenser(scripted_generator(model_server, "condenser"), prompt_dir=PROMPT).run(CHAT, a_turn())


def test_survives_a_yaml_round_trip(model_server):
    pipeline = Pipeline()
    pipeline.add_component("c", Condenser(scripted_generator(model_server, "condenser"), prompt_dir=PROMPT))

    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["components"]).get_component("c")

    assert loaded.prompt_dir == PROMPT
    assert loaded.chat_generator.api_base_url == model_server.url
