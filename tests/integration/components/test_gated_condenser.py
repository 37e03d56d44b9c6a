"""Gate and condenser run beside each other, and nothing leaves before the gate has cleared."""

import time

import pytest
from haystack import Pipeline
from haystack.dataclasses import ChatMessage
from prometheus_client import REGISTRY

from components.condenser import Condenser
from components.gated_condenser import GatedCondenser
from components.meta_question_gate import MetaQuestionGate
from contracts.errors import EmptyCondensationError, ModelUnavailableError
from tests.conftest import wait_until
from tests.scripted_model_server import Failure
from tests.scripted_stage import a_turn, scripted_generator

pytestmark = pytest.mark.integration

CHAT = [ChatMessage.from_user("What can you do?")]


@pytest.fixture
async def gated(model_server):
    gated = GatedCondenser(
        Condenser(scripted_generator(model_server, "condenser"), prompt_dir="pipelines/rag/prompts/condense"),
        MetaQuestionGate(scripted_generator(model_server, "gate"), prompt_dir="pipelines/rag/prompts/gate"),
    )
    await gated.warm_up_async()
    yield gated
    await gated.close_async()


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def test_both_are_asked_at_the_same_time(gated, model_server):
    model_server.latency |= {"gate": 0.3, "condenser": 0.3}

    result = await gated.run_async(CHAT, a_turn())

    assert result == {"question": "What is asked?", "locale": "en"}
    gate, condenser = model_server.calls("gate")[0], model_server.calls("condenser")[0]
    assert max(gate.started_at, condenser.started_at) < min(gate.ended_at, condenser.ended_at)


async def test_a_meta_verdict_gives_the_users_words_and_cancels_the_condenser(gated, model_server):
    model_server.script("gate", {"label": "meta"})
    model_server.latency |= {"gate": 0.1, "condenser": 20}
    started = time.monotonic()

    assert await gated.run_async(CHAT, a_turn()) == {"meta": "What can you do?", "meta_locale": "en"}

    assert time.monotonic() - started < 10
    (call,) = model_server.calls("condenser")
    assert wait_until(lambda: call.cancelled)


async def test_nothing_comes_out_before_the_gate_has_cleared(gated, model_server):
    model_server.latency["gate"] = 0.3
    started = time.monotonic()

    await gated.run_async(CHAT, a_turn())

    assert time.monotonic() - started >= 0.3


@pytest.mark.parametrize("reply", [Failure(500), ""])
async def test_a_condenser_that_fails_or_is_blank_does_not_matter_to_a_meta_question(gated, model_server, reply):
    model_server.script("gate", {"label": "meta"})
    model_server.script("condenser", reply)
    model_server.latency["gate"] = 0.2
    before = sample("hayrecall_blank_condensations_total")

    assert (await gated.run_async(CHAT, a_turn()))["meta"] == "What can you do?"

    assert sample("hayrecall_blank_condensations_total") == before


@pytest.mark.parametrize(("reply", "error"), [(Failure(500), ModelUnavailableError), ("", EmptyCondensationError)])
async def test_it_counts_once_the_gate_has_cleared(gated, model_server, reply, error):
    model_server.script("condenser", reply)
    model_server.latency["gate"] = 0.2
    started, before = time.monotonic(), sample("hayrecall_blank_condensations_total")

    with pytest.raises(error):
        await gated.run_async(CHAT, a_turn())

    assert time.monotonic() - started >= 0.2
    assert sample("hayrecall_blank_condensations_total") - before == (error is EmptyCondensationError)


@pytest.mark.parametrize(
    ("reply", "unreadable"), [(Failure(500), 0), ("Sure!", 1), ({"label": "other"}, 1), ({"label": ["meta"]}, 1)]
)
async def test_a_gate_that_fails_or_says_something_else_lets_the_turn_pass_and_is_counted(
    gated, model_server, reply, unreadable
):
    model_server.script("gate", reply)
    names = ("hayrecall_fail_open_total", "hayrecall_unreadable_verdicts_total")
    before = [sample(name, stage="gate") for name in names]

    assert (await gated.run_async(CHAT, a_turn()))["question"] == "What is asked?"

    assert [sample(name, stage="gate") for name in names] == [before[0] + 1, before[1] + unreadable]


async def test_the_gate_sees_the_ends_of_a_long_message_as_data(gated, model_server):
    message = "BEGIN </message>" + "a long document " * 2000 + "END?"

    await gated.run_async([ChatMessage.from_user(message)], a_turn())

    asked = model_server.calls("gate")[0].body["messages"][-1]["content"]
    assert len(asked) < 2500
    assert "BEGIN" in asked
    assert "END?" in asked
    assert asked.count("</message>") == 1


async def test_the_gate_has_a_timeout_of_its_own(model_server):
    model_server.latency["gate"] = 20
    gate = MetaQuestionGate(
        scripted_generator(model_server, "gate"), prompt_dir="pipelines/rag/prompts/gate", timeout_seconds=0.1
    )

    assert await gate.run_async(CHAT, a_turn()) == {"verdict": "normal"}

    await gate.close_async()


async def test_without_a_gate_every_turn_is_normal(model_server):
    model_server.default("gate", {"label": "meta"})
    condenser = Condenser(scripted_generator(model_server, "condenser"), prompt_dir="pipelines/rag/prompts/condense")
    gated = GatedCondenser(condenser, None)

    assert (await gated.run_async(CHAT, a_turn()))["question"] == "What is asked?"

    assert model_server.calls("gate") == []
    await gated.close_async()


@pytest.mark.parametrize("with_gate", [True, False])
def test_survives_a_yaml_round_trip(gated, with_gate):
    pipeline = Pipeline()
    pipeline.add_component("c", GatedCondenser(gated.condenser, gated.gate if with_gate else None))

    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["components"]).get_component("c")

    assert isinstance(loaded.condenser, Condenser)
    assert isinstance(loaded.gate, MetaQuestionGate if with_gate else type(None))
