"""Documents are found by meaning and by words, and only by those who may read them."""

import asyncio
import uuid
from datetime import UTC, datetime

import pytest
from haystack import Document
from haystack.components.embedders import OpenAITextEmbedder
from haystack.utils import Secret

from components.document_access import access_tags, tenant_tag
from components.document_index import DocumentIndex
from components.document_retriever import DocumentRetriever
from components.passage_writer import PassageWriter
from components.rank_endpoint import RankEndpoint
from contracts.errors import (
    ConfigurationError,
    EmbedderUnavailableError,
    NoAccessibleKnowledgeError,
    StoreUnavailableError,
)
from contracts.turn import Agent, TurnContext, Vector
from tests.scripted_model_server import embed

pytestmark = pytest.mark.integration

CRAFTED = [
    "everyone",
    "*",
    "group-",
    "staff' OR '1'='1",
    '{"match": {"any": ["staff"]}}',
    "staff\n",
    "staff\0",
    "\ud800",
]


@pytest.fixture
def tenant() -> str:
    return f"tenant-{uuid.uuid4()}"


@pytest.fixture
async def index(qdrant_url):
    index = DocumentIndex(qdrant_url, collection="documents_of_tests")
    yield index
    await index.close()


@pytest.fixture
async def embedder(model_server):
    embedder = OpenAITextEmbedder(
        api_key=Secret.from_token("unused"), model="scripted", api_base_url=model_server.url, max_retries=0
    )
    yield embedder
    await embedder.close_async()


@pytest.fixture
def retriever(index, embedder) -> DocumentRetriever:
    return DocumentRetriever(index, embedder=embedder, top_k=3)


@pytest.fixture
def store(index, embedder, tenant):
    async def store(text: str, *groups: str, of: str = tenant) -> None:
        meta = {
            "tenant_id": tenant_tag(of),
            "source": f"{text[:20]}.md",
            "title": "T",
            "page": 1,
            "position": 0,
            "passages": 1,
            "content_hash": "1",
            "access": access_tags(groups),
            "locale": "en",
        }
        await PassageWriter(index, embedder).run_async([Document(content=text, meta=meta)])

    return store


def turn(tenant: str, *groups: str) -> TurnContext:
    now = datetime.now(UTC)
    return TurnContext(tenant_id=tenant, run_id="r", agent=Agent("rag"), locale="en", said_at=now, groups=groups)


async def ask(retriever: DocumentRetriever, question: str, who: TurnContext) -> list[str | None]:
    result = await retriever.run_async(question, Vector(tuple(embed(question))), who)
    return [document.content for document in result["documents"]]


async def test_a_person_finds_the_documents_of_their_groups_and_those_for_everyone_only(retriever, store, tenant):
    await store("Salaries of the staff", "staff")
    await store("Salaries of the board", "board")
    await store("Salaries are paid monthly")

    found = await ask(retriever, "salaries", turn(tenant, "staff"))

    assert sorted(found) == ["Salaries are paid monthly", "Salaries of the staff"]


@pytest.mark.parametrize("group", CRAFTED)
async def test_a_crafted_group_name_opens_nothing(retriever, store, tenant, group):
    await store("Salaries of the staff", "staff")

    with pytest.raises(NoAccessibleKnowledgeError):
        await ask(retriever, "salaries of the staff", turn(tenant, group))


@pytest.mark.parametrize("group", CRAFTED)
async def test_a_document_of_a_crafted_group_is_not_for_everyone(retriever, store, tenant, group):
    await store("Salaries of the staff", group)

    with pytest.raises(NoAccessibleKnowledgeError):
        await ask(retriever, "salaries of the staff", turn(tenant, "staff"))


async def test_another_tenants_documents_are_never_found(retriever, store, tenant):
    await store("Salaries of the staff", of=f"other-{tenant}")

    assert await ask(retriever, "salaries", turn(tenant)) == []


async def test_a_question_without_hits_is_no_refusal_when_something_may_be_read(retriever, store, tenant):
    await store("Salaries are paid monthly")

    result = await retriever.run_async("zebra", Vector(), turn(tenant))

    assert result == {"documents": []}


async def test_with_the_embedder_down_words_still_find(retriever, store, tenant):
    await store("The cantina opens at noon")
    await store("Salaries are paid monthly")

    result = await retriever.run_async("When does the cantina open?", Vector(), turn(tenant))

    assert [document.content for document in result["documents"]] == ["The cantina opens at noon"]


async def test_with_the_embedder_down_and_no_search_by_words_nothing_is_pretended(index, tenant):
    retriever = DocumentRetriever(index, hybrid=False)

    with pytest.raises(EmbedderUnavailableError):
        await retriever.run_async("When?", Vector(), turn(tenant))


async def test_a_further_query_is_embedded_by_the_retriever_itself(retriever, store, tenant, model_server):
    await store("The cantina opens at noon")
    before = len(model_server.calls("embed"))

    found = await retriever.search("cantina", None, turn(tenant))

    assert [document.content for document in found] == ["The cantina opens at noon"]
    assert [call.body["input"] for call in model_server.calls("embed")[before:]] == [["cantina"]]


async def test_what_is_found_can_be_cited_and_carries_no_vectors(retriever, store, tenant):
    await store("The cantina opens at noon")

    (document,) = (await retriever.run_async("cantina", Vector(tuple(embed("cantina"))), turn(tenant)))["documents"]

    assert {name: document.meta[name] for name in ("source", "title", "page", "position")} == {
        "source": "The cantina opens at.md",
        "title": "T",
        "page": 1,
        "position": 0,
    }
    assert document.embedding is None
    assert document.sparse_embedding is None
    assert 0 < document.score <= 1


async def test_qdrant_down_is_an_outage():
    retriever = DocumentRetriever(DocumentIndex("http://127.0.0.1:9"))

    with pytest.raises(StoreUnavailableError, match="HAYRECALL_QDRANT_URL"):
        await retriever.run_async("cantina", Vector((1.0, *[0.0] * 383)), turn("t"))


async def test_a_collection_of_another_dimension_is_refused_and_left_alone(qdrant_url, store, index, tenant, retriever):
    await store("The cantina opens at noon")
    wrong = DocumentIndex(qdrant_url, collection="documents_of_tests", dimension=8)

    with pytest.raises(ConfigurationError, match="nothing was changed"):
        await wrong.open()

    assert await ask(retriever, "cantina", turn(tenant)) == ["The cantina opens at noon"]


async def test_two_that_start_together_do_not_replace_each_others_collection(qdrant_url):
    name = f"raced_{uuid.uuid4().hex}"
    first, second = (DocumentIndex(qdrant_url, collection=name) for _ in range(2))
    await asyncio.gather(first.open(), second.open())

    assert await first.count(in_anything()) == 0
    await asyncio.gather(first.close(), second.close())


def in_anything() -> dict[str, str]:
    return {"field": "meta.source", "operator": "==", "value": "none"}


async def test_a_ranker_that_fails_leaves_the_order_as_it_was(index, store, tenant):
    await store("The cantina opens at noon")
    await store("The cantina serves soup and salad")
    plain = DocumentRetriever(index, top_k=2)
    ranked = DocumentRetriever(index, top_k=2, ranker=RankEndpoint("http://127.0.0.1:9/rerank", model="reranker"))

    assert await ask(ranked, "cantina", turn(tenant)) == await ask(plain, "cantina", turn(tenant))
    await ranked.close_async()
