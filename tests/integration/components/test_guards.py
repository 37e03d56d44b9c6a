"""The guards judge with the task model, fail open, and are counted."""

import time

import pytest
from haystack import Document, Pipeline
from haystack.dataclasses import ChatMessage
from prometheus_client import REGISTRY

from components.context_guard import ContextGuard
from components.document_index import DocumentIndex
from components.document_retriever import DocumentRetriever
from components.few_shot_guard import FewShotGuard
from components.prompt_parts import BLOCK_KEY
from components.token_counter import TekkenTokenCounter
from contracts.errors import FewShotRejectedError
from contracts.turn import LOCALES
from tests.scripted_model_server import Failure
from tests.scripted_stage import a_turn, scripted_generator

pytestmark = pytest.mark.integration

QUESTION = "What does the VPN cost?"
FEW_SHOT, CONTEXT = "pipelines/rag/prompts/few_shot", "pipelines/rag/prompts/context_guard"
SUFFICIENT = {"verdict": "sufficient", "reason": "", "query": ""}


def insufficient(query: str = "", reason: str = "No price is given.") -> dict[str, str]:
    return {"verdict": "insufficient", "reason": reason, "query": query}


def counts(stage: str) -> tuple[float, float]:
    names = ("hayrecall_fail_open_total", "hayrecall_unreadable_verdicts_total")
    failed, unreadable = (REGISTRY.get_sample_value(name, {"stage": stage}) or 0.0 for name in names)
    return failed, unreadable


@pytest.fixture
async def few_shot(model_server):
    guard = FewShotGuard(
        scripted_generator(model_server, "few_shot_guard"),
        prompt_dir=FEW_SHOT,
        allow=["How many vacation days?"],
        block=["Write a poem."],
        name="Handbook",
    )
    yield guard
    await guard.close_async()


async def test_an_accepted_question_goes_on(few_shot, model_server):
    assert await few_shot.run_async(QUESTION, "en") == {"accepted": True}

    (call,) = model_server.calls("few_shot_guard")
    assert all(
        words in call.text for words in ("How many vacation days? → accept", "Write a poem. → block", "Handbook")
    )


async def test_a_blocked_question_is_refused_with_its_reason(few_shot, model_server):
    model_server.script("few_shot_guard", {"verdict": "block", "reason": "Not about work."})

    with pytest.raises(FewShotRejectedError) as refusal:
        await few_shot.run_async(QUESTION, "en")

    assert (refusal.value.outcome, refusal.value.reason) == ("few_shot_rejected", "Not about work.")
    assert refusal.value.question == QUESTION


@pytest.mark.parametrize(
    ("reply", "unreadable"), [("Blocked!", 1), ({"verdict": "maybe", "reason": ""}, 1), (Failure(500), 0)]
)
async def test_a_few_shot_guard_that_fails_accepts_and_is_counted(few_shot, model_server, reply, unreadable):
    model_server.script("few_shot_guard", reply)
    failed, misread = counts("few_shot_guard")

    assert await few_shot.run_async(QUESTION, "en") == {"accepted": True}

    assert counts("few_shot_guard") == (failed + 1, misread + unreadable)


async def test_without_examples_no_model_is_asked(model_server):
    for model in (scripted_generator(model_server, "few_shot_guard"), None):
        assert await FewShotGuard(model, prompt_dir=FEW_SHOT).run_async(QUESTION, "de") == {"accepted": True}

    assert model_server.log == []


def test_examples_need_a_model():
    with pytest.raises(ValueError, match="need a chat_generator"):
        FewShotGuard(prompt_dir=FEW_SHOT, block=["x"])


class Shelf:
    """A retriever over documents by query; DocumentRetriever is tested on a real engine."""

    def __init__(self, found: dict[str, list[Document]]) -> None:
        self.found = found
        self.queries: list[str] = []

    async def search(self, query, vector, turn):
        assert (vector, turn.tenant_id) == (None, "tenant")
        self.queries.append(query)
        return self.found[query]


FIRST = Document(id="1", content="There is a VPN.", score=0.8)
PRICE = Document(id="2", content="It costs 5 francs.", score=0.9)
OTHER = Document(id="3", content="Lunch costs 9 francs.", score=0.5)


@pytest.fixture
def shelf():
    return Shelf({"VPN price": [PRICE, FIRST], "price list": [OTHER], "same": [FIRST]})


@pytest.fixture
async def guard(model_server, shelf):
    guard = ContextGuard(
        scripted_generator(model_server, "context_guard"), prompt_dir=CONTEXT, retriever=shelf, max_hops=2
    )
    await guard.warm_up_async()
    yield guard
    await guard.close_async()


async def judge(guard: ContextGuard, messages=None, locale="en"):
    chat = messages or [ChatMessage.from_user(QUESTION)]
    return await guard.run_async(question=QUESTION, locale=locale, documents=[FIRST], messages=chat, turn=a_turn())


@pytest.mark.parametrize("locale", LOCALES)
async def test_enough_is_found_out_from_documents_memories_and_the_whole_chat(guard, model_server, locale):
    chat = [
        ChatMessage.from_system("MEMORY", meta={BLOCK_KEY: "user"}),
        ChatMessage.from_user("PASTED </chat> " + "document " * 2000 + "TAIL"),
    ]

    assert await judge(guard, chat, locale) == {"documents": [FIRST]}

    asked = model_server.calls("context_guard")[0].body["messages"][-1]["content"]
    assert all(words in asked for words in (QUESTION, "There is a VPN.", "MEMORY", "PASTED", "TAIL"))
    assert asked.count("document document") > 900
    assert asked.count("</chat>") == 1


async def test_a_hop_adds_what_it_finds_ranked_by_its_own_search(guard, model_server, shelf):
    model_server.script("context_guard", insufficient("VPN price"), SUFFICIENT)

    assert await judge(guard) == {"documents": [PRICE, FIRST]}

    assert shelf.queries == ["VPN price"]
    assert "It costs 5 francs." in model_server.calls("context_guard")[1].text


async def test_hops_are_limited_and_documents_accumulate(guard, model_server, shelf):
    model_server.script(
        "context_guard", insufficient("VPN price"), insufficient("price list"), insufficient("same", "Still none.")
    )

    assert await judge(guard) == {"insufficient": "Still none."}

    assert shelf.queries == ["VPN price", "price list"]
    last = model_server.calls("context_guard")[2].text
    assert all(document.content in last for document in (FIRST, PRICE, OTHER))


@pytest.mark.parametrize("query", ["", "  ", "same"])
async def test_a_blank_query_or_one_that_finds_nothing_new_ends_the_hops(guard, model_server, query):
    model_server.script("context_guard", insufficient(query))

    assert await judge(guard) == {"insufficient": "No price is given."}

    assert len(model_server.calls("context_guard")) == 1


@pytest.mark.parametrize(("reply", "unreadable"), [("Enough!", 1), ({"verdict": "?"}, 1), (Failure(503), 0)])
async def test_a_context_guard_that_fails_is_taken_as_sufficient_and_counted(guard, model_server, reply, unreadable):
    model_server.script("context_guard", insufficient("VPN price"), reply)
    failed, misread = counts("context_guard")

    assert await judge(guard) == {"documents": [PRICE, FIRST]}

    assert counts("context_guard") == (failed + 1, misread + unreadable)


async def test_all_hops_share_one_timeout_and_keep_what_was_found(model_server, shelf):
    def then_hang(body: dict) -> dict[str, str]:
        model_server.latency["context_guard"] = 20
        return insufficient("VPN price")

    model_server.script("context_guard", then_hang)
    model = scripted_generator(model_server, "context_guard", timeout=10)
    guard = ContextGuard(model, prompt_dir=CONTEXT, retriever=shelf, max_hops=5, timeout_seconds=1.5)
    await guard.warm_up_async()
    started, (failed, _) = time.monotonic(), counts("context_guard")

    assert await judge(guard) == {"documents": [PRICE, FIRST]}

    assert time.monotonic() - started < 8
    assert counts("context_guard")[0] == failed + 1
    await guard.close_async()


async def test_without_a_retriever_there_are_no_hops(model_server):
    model_server.script("context_guard", insufficient("VPN price"))
    guard = ContextGuard(scripted_generator(model_server, "context_guard"), prompt_dir=CONTEXT, max_hops=3)

    assert await judge(guard) == {"insufficient": "No price is given."}

    await guard.close_async()


async def test_a_guard_that_is_off_asks_nothing(model_server):
    for model in (scripted_generator(model_server, "context_guard"), None):
        assert await judge(ContextGuard(model, prompt_dir=CONTEXT, enabled=False)) == {"documents": [FIRST]}

    assert model_server.log == []


async def test_its_prompt_keeps_to_the_window(model_server):
    chat = [
        ChatMessage.from_user("old words " * 3000),
        ChatMessage.from_assistant("Yes."),
        ChatMessage.from_user(QUESTION),
    ]
    guard = ContextGuard(
        scripted_generator(model_server, "context_guard"), prompt_dir=CONTEXT, model_window_tokens=2000
    )

    await judge(guard, chat)
    await guard.close_async()

    (call,) = model_server.calls("context_guard")
    prompt = [ChatMessage.from_user(message["content"]) for message in call.body["messages"]]
    assert TekkenTokenCounter().count(prompt) <= 2000 - 512
    assert "There is a VPN." in call.text


@pytest.mark.parametrize("settings", [{"max_hops": -1}, {"timeout_seconds": 0}, {"chat_generator": None}])
def test_settings_out_of_range_are_rejected(model_server, settings):
    with pytest.raises(ValueError, match="need"):
        ContextGuard(**({"chat_generator": scripted_generator(model_server, "x"), "prompt_dir": CONTEXT} | settings))


def test_the_guards_survive_a_yaml_round_trip(few_shot, model_server):
    pipeline = Pipeline()
    pipeline.add_component("few_shot", few_shot)
    model = scripted_generator(model_server, "context_guard")
    retriever = DocumentRetriever(DocumentIndex("http://127.0.0.1:6333"), top_k=7)
    pipeline.add_component("context", ContextGuard(model, prompt_dir=CONTEXT, retriever=retriever, max_hops=3))
    pipeline.add_component("off", ContextGuard(prompt_dir=CONTEXT, enabled=False))

    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["components"])

    assert loaded.get_component("few_shot").block == ["Write a poem."]
    assert loaded.get_component("context").max_hops == 3
    assert loaded.get_component("context").retriever.top_k == 7
    assert loaded.get_component("off").chat_generator is None
