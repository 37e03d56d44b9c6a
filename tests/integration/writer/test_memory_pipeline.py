"""The writer's pipeline turns what a user said into memories: no second record, nothing outdated, nothing lost."""

import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from components.memory_scope import Scope
from components.pipeline_file import load_pipeline
from contracts.errors import EmbedderUnavailableError, StoreUnavailableError, UnreadableModelOutputError
from contracts.manifest import Manifest
from contracts.payloads import AgentIdentity, ConversationTurn, TurnMessage, WritePlan
from contracts.settings import Settings
from contracts.turn import Vector
from tests.scripted_model_server import Failure, embed
from writer.memory_pipeline import MemoryPipeline

pytestmark = pytest.mark.integration

MONDAY = datetime(2025, 12, 1, 22, 30, tzinfo=UTC)


@pytest.fixture
async def pipeline(model_server, qdrant_url, monkeypatch):
    monkeypatch.setenv("HAYRECALL_EMBEDDING_API_KEY", "unused")
    settings = Settings(
        _env_file=None,
        llm_base_url=model_server.url,
        embedding_base_url=model_server.url,
        qdrant_url=qdrant_url,
        memory_model="scripted",
    )
    pipeline = MemoryPipeline(load_pipeline(Manifest.load(settings).run_by("writer")))
    await pipeline.open()
    yield pipeline
    await pipeline.close()


@pytest.fixture
def user() -> str:
    return f"ann {uuid4()}"


class Learner:
    """Says things as one user, and looks at what is remembered."""

    def __init__(self, pipeline: MemoryPipeline, model_server, user: str) -> None:
        self.pipeline = pipeline
        self.server = model_server
        self.user = user
        self.scope = Scope("acme", user_id=user)

    def turn(self, question: str, answer: str | None = "Noted.") -> ConversationTurn:
        said = [TurnMessage(role="user", content=question)]
        return ConversationTurn(
            run_id=uuid4(),
            tenant_id="acme",
            user_id=self.user,
            messages=(*said, TurnMessage(role="assistant", content=answer)) if answer else tuple(said),
            agent=AgentIdentity(id="rag", name="Documents", description="Answers questions."),
            locale="en",
            said_at=MONDAY,
            thread_id="thread-1",
            message_id="message-1",
        )

    async def say(self, question: str, *facts: str, decide=None) -> WritePlan:
        self.server.script("extract", {"facts": [{"text": fact, "about": "user"} for fact in facts]})
        if decide is not None:
            self.server.script("reconcile", decide)
        turn = self.turn(question)
        plan = await self.pipeline.plan(turn)
        await self.pipeline.write(turn, plan)
        return plan

    async def memories(self, *, superseded: bool = False) -> list[str]:
        found, _ = await self.pipeline.memory_store.list(self.scope, include_superseded=superseded)
        return [memory.text for memory in found]

    async def search(self, query: str) -> list[str]:
        (found,) = await self.pipeline.memory_store.search(Vector(tuple(embed(query))), [self.scope], top_k=10)
        return [str(memory.content) for memory in found]


@pytest.fixture
def ann(pipeline, model_server, user) -> Learner:
    return Learner(pipeline, model_server, user)


def shown(body: dict) -> dict[str, str]:
    """Read the memories that the prompt of `reconcile` shows, by text."""
    lines = [json.loads(line) for line in body["messages"][1]["content"].splitlines() if line.startswith("{")]
    return {line["text"]: line["memory"] for line in lines if "memory" in line}


def superseding(old: str):
    return lambda body: {"decisions": [{"fact": 0, "action": "supersede", "memory": shown(body)[old]}]}


async def test_a_first_fact_costs_one_model_and_one_embedding_call(ann, model_server):
    await ann.say("I work in Zug, where is the canteen?", "The user works in Zug.")

    (memory,), _ = await ann.pipeline.memory_store.list(ann.scope)
    assert (memory.text, memory.statement) == ("The user works in Zug.", "I work in Zug, where is the canteen?")
    assert (memory.agent_id, memory.thread_id, memory.message_id) == ("rag", "thread-1", "message-1")
    assert (memory.stated_at, memory.source, memory.locale) == (MONDAY, "turn", "en")
    assert [call.stage for call in model_server.log] == ["extract", "embed"]
    assert model_server.calls("embed")[0].body["input"] == ["passage: The user works in Zug."]


async def test_a_move_from_zug_to_basel_finds_basel_and_keeps_zug_as_history(ann, model_server):
    await ann.say("I work in Zug.", "The user works in Zug.")
    await ann.say(
        "I no longer work in Zug, now Basel.",
        "The user now works in Basel, no longer in Zug.",
        decide=superseding("The user works in Zug."),
    )

    assert await ann.search("Where does the user work?") == ["The user now works in Basel, no longer in Zug."]
    basel, zug = (await ann.pipeline.memory_store.list(ann.scope, include_superseded=True))[0]
    assert (zug.text, zug.superseded_by, zug.status) == ("The user works in Zug.", basel.id, "superseded")
    assert zug.superseded_at
    assert len(model_server.calls("reconcile")) == 1


async def test_a_change_without_the_new_value_keeps_the_old_one_marked_as_outdated(ann):
    await ann.say("My badge is blue.", "The colour of the user's badge is blue.")
    await ann.say(
        "My badge colour changed.",
        "The colour of the user's badge has changed.",
        decide=superseding("The colour of the user's badge is blue."),
    )

    assert await ann.memories() == ["The colour of the user's badge has changed."]
    assert await ann.memories(superseded=True) == [
        "The colour of the user's badge has changed.",
        "The colour of the user's badge is blue.",
    ]


async def test_the_same_fact_again_makes_no_second_record_and_asks_nobody(ann, model_server):
    await ann.say("I work in Zug.", "The user works in Zug.")
    plan = await ann.say("As I said, I work in Zug.", "the user  works in ZUG")

    assert [decision.action for decision in plan.decisions] == ["drop"]
    assert await ann.memories() == ["The user works in Zug."]
    assert model_server.calls("reconcile") == []


async def test_a_paraphrase_makes_no_second_record(ann):
    await ann.say("I work in Zug.", "The user works in Zug.")
    await ann.say(
        "Zug is where I work.",
        "The user works in the town of Zug.",
        decide={"decisions": [{"fact": 0, "action": "drop", "memory": None}]},
    )

    assert await ann.memories() == ["The user works in Zug."]


async def test_unrelated_facts_are_added_without_asking_the_model(ann, model_server):
    await ann.say("I work in Zug.", "The user works in Zug.")
    await ann.say("My sister Anna has a cat.", "Anna, a sister, has one black cat.")

    assert len(await ann.memories()) == 2
    assert model_server.calls("reconcile") == []


async def test_several_facts_share_one_embedding_and_one_model_call(ann, model_server):
    await ann.say("a", "The user works in Zug.", "The user likes green tea.")
    model_server.log.clear()

    plan = await ann.say(
        "b",
        "The user works in Basel.",
        "The user likes black tea.",
        "Completely unheard novelty appears.",
        decide=lambda body: {
            "decisions": [
                {"fact": 1, "action": "drop", "memory": shown(body)["The user likes green tea."]},
                {"fact": 0, "action": "supersede", "memory": shown(body)["The user works in Zug."]},
            ]
        },
    )

    assert [call.stage for call in model_server.log] == ["extract", "embed", "reconcile"]
    assert [decision.action for decision in plan.decisions] == ["supersede", "drop", "add"]
    assert await ann.memories() == [
        "Completely unheard novelty appears.",
        "The user works in Basel.",
        "The user likes green tea.",
    ]
    assert len(model_server.calls("embed")[0].body["input"]) == 3


async def test_a_fact_without_a_decision_is_added(ann):
    await ann.say("I work in Zug.", "The user works in Zug.")
    await ann.say("I work in Bern.", "The user works in Bern.", decide={"decisions": []})

    assert await ann.memories() == ["The user works in Bern.", "The user works in Zug."]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        '{"decisions": "none"}',
        '{"decisions": [7]}',
        '{"decisions": [{"fact": 1, "action": "add", "memory": null}]}',
        '{"decisions": [{"fact": true, "action": "add", "memory": null}]}',
        '{"decisions": [{"fact": 0, "action": "update", "memory": null}]}',
        '{"decisions": [{"fact": 0, "action": "supersede", "memory": null}]}',
        '{"decisions": [{"fact": 0, "action": "drop", "memory": "00000000-0000-4000-8000-000000000000"}]}',
        '{"decisions": [{"fact": 0, "action": "add"}, {"fact": 0, "action": "drop"}]}',
    ],
)
async def test_decisions_that_cannot_be_read_are_a_failure_and_change_nothing(ann, model_server, reply):
    await ann.say("I work in Zug.", "The user works in Zug.")

    with pytest.raises(UnreadableModelOutputError):
        await ann.say("I work in Basel.", "The user works in Basel.", decide=reply)

    assert await ann.memories() == ["The user works in Zug."]


async def test_memories_of_others_are_neither_shown_nor_touched(ann, pipeline, model_server):
    bob = Learner(pipeline, model_server, f"bob {uuid4()}")
    await bob.say("I work in Zug.", "canary-bob works in Zug.")
    await ann.say("I work in Zug.", "The user works in Zug.")
    await ann.say("I work in Basel.", "The user works in Basel.", decide=superseding("The user works in Zug."))

    assert "canary-bob" not in model_server.calls("reconcile")[0].text
    assert await bob.memories() == ["canary-bob works in Zug."]


async def test_writing_a_plan_twice_is_one_effect(ann):
    turn = ann.turn("I work in Zug.")
    ann.server.script("extract", {"facts": [{"text": "The user works in Zug.", "about": "user"}]})
    plan = WritePlan.model_validate_json((await ann.pipeline.plan(turn)).model_dump_json())  # as it comes from a bucket

    assert [await ann.pipeline.write(turn, plan) for _ in range(2)] == [1, 1]

    assert await ann.memories() == ["The user works in Zug."]
    await ann.pipeline.memory_store.delete_run(ann.scope, str(turn.run_id))
    assert await ann.memories() == []


async def test_a_plan_is_not_written_for_another_run(ann):
    ann.server.script("extract", {"facts": [{"text": "The user works in Zug.", "about": "user"}]})
    plan = await ann.pipeline.plan(ann.turn("I work in Zug."))

    with pytest.raises(ValueError, match="the run that it was made for"):
        await ann.pipeline.write(ann.turn("something else"), plan)


async def test_no_facts_are_an_empty_plan_without_further_calls(ann, model_server):
    plan = await ann.say("Where is the canteen?")

    assert (plan.facts, plan.decisions) == ((), ())
    assert [call.stage for call in model_server.log] == ["extract"]


async def test_what_is_stored_holds_no_secret(ann):
    await ann.say("My password is canary-77x, I work in Zug.", "The user's password is canary-77x.")

    (memory,), _ = await ann.pipeline.memory_store.list(ann.scope)
    assert "canary" not in f"{memory.text} {memory.statement}"


async def test_an_embedder_that_is_down_is_an_outage_and_stores_nothing(ann, model_server):
    model_server.script("embed", Failure(503))

    with pytest.raises(EmbedderUnavailableError):
        await ann.say("I work in Zug.", "The user works in Zug.")

    assert await ann.memories() == []


async def test_a_store_that_is_down_is_an_outage(ann, model_server):
    settings = Settings(
        _env_file=None,
        llm_base_url=model_server.url,
        embedding_base_url=model_server.url,
        qdrant_url="http://127.0.0.1:9",
        memory_model="scripted",
    )
    down = MemoryPipeline(load_pipeline(Manifest.load(settings).run_by("writer")))

    with pytest.raises(StoreUnavailableError):
        await Learner(down, model_server, ann.user).say("I work in Zug.", "The user works in Zug.")

    await down.close()
