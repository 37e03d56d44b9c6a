"""What a model is sent stays within the limit, in every script, and the user's turn is always in it."""

import asyncio
import uuid
from datetime import UTC, datetime

import pytest
from haystack.dataclasses import ChatMessage

from components.memory_record import MemoryRecord
from components.memory_scope import Scope
from components.memory_store import MemoryStore
from components.token_counter import TekkenTokenCounter
from tests.integration.assistants.conftest import MAX_INPUT_TOKENS, store_documents
from tests.integration.assistants.talking import ask
from tests.scripted_model_server import embed

pytestmark = pytest.mark.integration

COUNTER = TekkenTokenCounter()
ANSWER_RESERVE_TOKENS = 1000
SENTENCES = {
    "English": "The office in Bern stays closed in July. ",
    "German": "Das Büro in Bern bleibt im Juli geschlossen. ",
    "Japanese": "ベルンの事務所は七月に閉まっています。 ",
    "Arabic": "المكتب في برن مغلق في شهر يوليو. ",
    "Thai": "สำนักงานในเบิร์นปิดในเดือนกรกฎาคม ",
}


def tokens(call) -> int:
    return COUNTER.count([ChatMessage.from_openai_dict_format(message) for message in call.body["messages"]])


def of(sentence: str, budget: int) -> str:
    """Repeat a sentence up to about so many tokens."""
    return sentence * (budget // COUNTER.count_text(sentence))


@pytest.fixture(scope="module")
def known(assistants_server, qdrant_url):
    """Store a document in each script, and let the organization remember every sentence."""
    texts = {f"{script}.txt": of(sentence, 600) for script, sentence in SENTENCES.items()}
    store_documents(assistants_server.settings, texts, collection="assistants_limits")
    scope = Scope("acme", organization_namespace="support")
    now = datetime.now(UTC)
    records = [
        MemoryRecord(
            id=str(uuid.uuid4()),
            text=f"ORGANIZATION {sentence}",
            created_at=now,
            stated_at=now,
            locale="en",
            source="expert",
            vector=tuple(embed(sentence)),
        )
        for sentence in SENTENCES.values()
    ]

    async def change(*, remember: bool) -> None:
        store = MemoryStore(qdrant_url)
        await (store.apply(scope, records) if remember else store.delete_all(scope))
        await store.close()

    asyncio.run(change(remember=True))
    yield
    asyncio.run(change(remember=False))


@pytest.mark.parametrize("script", SENTENCES)
@pytest.mark.parametrize(("history", "message"), [(3000, 500), (9000, 3000)])
def test_every_prompt_of_a_turn_fits(assistants, known, model_server, user, script, history, message):
    sentence = SENTENCES[script]
    model_server.default("condenser", sentence)
    client = assistants.client(user)
    model_server.script("condenser", f"REMEMBERED {sentence}")
    ask(client, "limited", f"REMEMBERED {sentence}")
    model_server.log.clear()
    turns = [{"role": role, "content": of(sentence, 300)} for role in ("user", "assistant")] * (history // 600)
    last = of(sentence, message)

    _, told = ask(
        client,
        "limited",
        [{"role": "system", "content": "Be polite."}, *turns, {"role": "user", "content": last}],
    )

    assert told["outcome"] == "answered"
    (answering,) = model_server.calls("answer")
    assert answering.body["messages"][-1]["content"] == last
    assert tokens(answering) <= MAX_INPUT_TOKENS - ANSWER_RESERVE_TOKENS
    for call in model_server.log:
        assert call.stage == "embed" or tokens(call) <= MAX_INPUT_TOKENS, call.stage
    if history < MAX_INPUT_TOKENS:
        assert all(name in answering.text for name in ("ORGANIZATION", "REMEMBERED", "Be polite.")), "dropped in vain"
    else:
        assert tokens(answering) > 0.7 * (MAX_INPUT_TOKENS - ANSWER_RESERVE_TOKENS), "more was dropped than needed"
