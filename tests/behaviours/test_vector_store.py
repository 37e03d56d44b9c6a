"""
What every Qdrant must do for us, asked through the clients that we use.

Runs against the embedded engine, or the server that HAYRECALL_QDRANT_URL names; where they differ, the server is right.
"""

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from haystack import Document
from haystack.dataclasses import SparseEmbedding
from haystack.document_stores.types import DuplicatePolicy
from haystack_integrations.components.retrievers.qdrant import QdrantEmbeddingRetriever, QdrantHybridRetriever
from haystack_integrations.document_stores.qdrant import QdrantDocumentStore
from mem0.vector_stores.qdrant import Qdrant as Mem0Store
from qdrant_client import AsyncQdrantClient, QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

pytestmark = pytest.mark.integration

EAST, NORTH, UP = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]


def where(key: str, value: str | int) -> models.Filter:
    return models.Filter(must=[models.FieldCondition(key=key, match=models.MatchValue(value=value))])


def found(response: models.QueryResponse) -> list[Any]:
    return [point.id for point in response.points]


@pytest.fixture(scope="module")
def client(qdrant_url: str) -> Iterator[QdrantClient]:
    client = QdrantClient(url=qdrant_url)
    yield client
    client.close()


@pytest.fixture
async def async_client(qdrant_url: str) -> AsyncIterator[AsyncQdrantClient]:
    client = AsyncQdrantClient(url=qdrant_url)
    yield client
    await client.close()


@pytest.fixture(scope="module")
def collection(client: QdrantClient) -> Iterator[str]:
    """A collection with a dense and a sparse vector and two payload indexes."""
    name = f"test-{uuid.uuid4().hex}"
    client.create_collection(
        name,
        vectors_config=models.VectorParams(size=3, distance=models.Distance.COSINE),
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    client.create_payload_index(name, "user", models.PayloadSchemaType.KEYWORD)
    client.create_payload_index(name, "age", models.PayloadSchemaType.INTEGER)
    yield name
    client.delete_collection(name)


@pytest.fixture
def name(client: QdrantClient, collection: str) -> str:
    """The collection with four points and no others, two of them Ada's."""
    client.delete(collection, models.Filter())
    client.upsert(
        collection,
        [
            point(1, EAST, "ada", 30, {1: 1.0, 2: 1.0}),
            point(2, NORTH, "ada", 40, {2: 1.0}),
            point(3, EAST, "bob", 50, {3: 1.0}),
            point(4, UP, "cleo", 60, {1: 2.0}),
        ],
    )
    return collection


def point(number: int | str, vector: list[float], user: str, age: int, words: dict[int, float]) -> models.PointStruct:
    sparse = models.SparseVector(indices=list(words), values=list(words.values()))
    payload = {"user": user, "age": age, "tags": [user, "person"], "address": {"city": "Bern"}}
    return models.PointStruct(id=number, vector={"": vector, "bm25": sparse}, payload=payload)


def test_a_collection_says_how_it_was_made(client, name):
    info = client.get_collection(name)

    assert client.collection_exists(name)
    assert name in [collection.name for collection in client.get_collections().collections]
    assert info.points_count == 4
    assert info.config.params.vectors == models.VectorParams(size=3, distance=models.Distance.COSINE)
    assert info.config.params.sparse_vectors["bm25"].modifier == models.Modifier.IDF
    assert {field: index.data_type for field, index in info.payload_schema.items()} == {
        "user": models.PayloadSchemaType.KEYWORD,
        "age": models.PayloadSchemaType.INTEGER,
    }


def test_a_second_collection_of_the_name_is_a_conflict_and_a_missing_one_is_not_found(client, name):
    with pytest.raises(UnexpectedResponse) as conflict:
        client.create_collection(name, vectors_config=models.VectorParams(size=3, distance=models.Distance.COSINE))
    with pytest.raises(UnexpectedResponse) as missing:
        client.count("no-such-collection")

    assert (conflict.value.status_code, missing.value.status_code) == (409, 404)
    assert not client.collection_exists("no-such-collection")
    assert client.count(name).count == 4


def test_a_search_gives_the_nearest_points_of_the_filter_with_their_cosine(client, name):
    hits = client.query_points(name, query=[1.0, 0.5, 0.0], query_filter=where("user", "ada"), with_vectors=True).points

    assert [(hit.id, round(hit.score, 3)) for hit in hits] == [(1, 0.894), (2, 0.447)]
    assert hits[0].payload["address"] == {"city": "Bern"}
    assert hits[0].vector[""] == EAST


def test_limit_offset_and_threshold_cut_the_hits(client, name):
    query = [1.0, 0.9, 0.8]

    assert len(client.query_points(name, query=query, limit=2).points) == 2
    assert found(client.query_points(name, query=query, limit=1, offset=2)) == [2]
    assert 4 not in found(client.query_points(name, query=query, score_threshold=0.55))


CONDITIONS = {
    "any": (models.FieldCondition(key="user", match=models.MatchAny(any=["ada", "bob"])), [1, 2, 3]),
    "except": (models.FieldCondition(key="user", match=models.MatchExcept(**{"except": ["ada"]})), [3, 4]),
    "number": (models.FieldCondition(key="age", match=models.MatchValue(value=40)), [2]),
    "range": (models.FieldCondition(key="age", range=models.Range(gt=30, lte=50)), [2, 3]),
    "element of a list": (models.FieldCondition(key="tags", match=models.MatchValue(value="bob")), [3]),
    "inner field": (models.FieldCondition(key="address.city", match=models.MatchValue(value="Bern")), [1, 2, 3, 4]),
    "ids": (models.HasIdCondition(has_id=[2, 4, 99]), [2, 4]),
    "empty": (models.IsEmptyCondition(is_empty=models.PayloadField(key="age")), []),
    "null": (models.IsNullCondition(is_null=models.PayloadField(key="age")), []),
    "count of values": (models.FieldCondition(key="tags", values_count=models.ValuesCount(gte=3)), []),
    "has vector": (models.HasVectorCondition(has_vector="bm25"), [1, 2, 3, 4]),
    "either": (models.Filter(should=[where("user", "bob"), where("age", 60)]), [3, 4]),
    "not": (models.Filter(must_not=[where("user", "ada")]), [3, 4]),
    "two of three": (
        models.Filter(
            min_should=models.MinShould(
                conditions=[where("user", "ada"), where("age", 40), where("age", 50)], min_count=2
            )
        ),
        [2],
    ),
}


@pytest.mark.parametrize("kind", CONDITIONS)
def test_a_filter_means_what_it_says(client, name, kind):
    condition, expected = CONDITIONS[kind]
    only_these = models.Filter(must=[condition])

    assert sorted(record.id for record in client.scroll(name, scroll_filter=only_these)[0]) == expected
    assert client.count(name, count_filter=only_these).count == len(expected)
    assert sorted(found(client.query_points(name, query=EAST, query_filter=only_these))) == expected


def test_a_sparse_search_scores_shared_words_only(client, name):
    words = models.SparseVector(indices=[1, 2], values=[1.0, 1.0])

    hits = client.query_points(name, query=words, using="bm25").points

    assert {hit.id for hit in hits} == {1, 2, 4}
    assert hits[0].score > 0


def test_a_hybrid_search_fuses_both_sides_and_is_the_same_each_time(client, name):
    def search() -> list[Any]:
        words = models.SparseVector(indices=[3], values=[1.0])
        return found(
            client.query_points(
                name,
                prefetch=[models.Prefetch(query=NORTH), models.Prefetch(query=words, using="bm25")],
                query=models.FusionQuery(fusion=models.Fusion.RRF),
                query_filter=None,
                limit=3,
            )
        )

    assert set(search()[:2]) == {2, 3}
    assert all(search() == search() for _ in range(10))


def test_several_searches_travel_in_one_request(client, name):
    requests = [
        models.QueryRequest(query=EAST, filter=where("user", user), limit=5, with_payload=True)
        for user in ("ada", "bob")
    ]

    ada, bob = client.query_batch_points(name, requests)

    assert (found(ada), found(bob)) == ([1, 2], [3])
    assert bob.points[0].payload["user"] == "bob"


def test_hits_are_gathered_by_a_field(client, name):
    client.upsert(name, [point(number, EAST, "bob", 1, {1: 1.0}) for number in range(100, 130)])

    groups = client.query_points_groups(name, group_by="user", query=[1.0, 0.2, 0.1], limit=3, group_size=2).groups

    assert groups[2].id == "cleo"
    assert {group.id: len(group.hits) for group in groups} == {"ada": 2, "bob": 2, "cleo": 1}


def test_scrolling_visits_each_point_once(client, name):
    seen, offset = [], None
    while True:
        page, offset = client.scroll(name, limit=3, offset=offset, with_payload=False)
        seen += [record.id for record in page]
        if offset is None:
            break

    assert sorted(seen) == [1, 2, 3, 4]


def test_points_are_listed_in_the_order_of_a_field(client, name):
    order = models.OrderBy(key="age", direction=models.Direction.DESC)

    assert [record.id for record in client.scroll(name, order_by=order, limit=3)[0]] == [4, 3, 2]


def test_values_of_a_field_are_counted(client, name):
    hits = client.facet(name, key="user", exact=True).hits

    assert {hit.value: hit.count for hit in hits} == {"ada": 2, "bob": 1, "cleo": 1}


def test_payload_is_set_overwritten_and_deleted(client, name):
    client.set_payload(name, {"mood": "good"}, points=[1])
    assert client.retrieve(name, [1])[0].payload["mood"] == "good"
    assert client.retrieve(name, [1])[0].payload["user"] == "ada"

    client.delete_payload(name, ["mood"], points=where("user", "ada"))
    assert "mood" not in client.retrieve(name, [1])[0].payload

    client.overwrite_payload(name, {"user": "dora"}, points=[1])
    assert client.retrieve(name, [1])[0].payload == {"user": "dora"}

    client.clear_payload(name, points_selector=[1])
    assert client.retrieve(name, [1])[0].payload == {}


def test_vectors_are_replaced_and_deleted_alone(client, name):
    client.update_vectors(name, [models.PointVectors(id=1, vector={"": UP})])
    client.delete_vectors(name, ["bm25"], points=[1])

    record = client.retrieve(name, [1], with_vectors=True)[0]

    assert record.vector in (UP, {"": UP})
    assert record.payload["user"] == "ada"


def test_an_upsert_replaces_a_point_whole(client, name):
    client.upsert(name, [models.PointStruct(id=1, vector={"": UP}, payload={"user": "eve"})])

    record = client.retrieve(name, [1], with_vectors=True)[0]

    assert (record.vector, record.payload) in ((UP, {"user": "eve"}), ({"": UP}, {"user": "eve"}))


def test_an_upsert_with_a_condition_leaves_what_does_not_meet_it(client, name):
    client.upsert(
        name, [models.PointStruct(id=1, vector={"": UP}, payload={"user": "eve"})], update_filter=where("user", "bob")
    )
    assert client.retrieve(name, [1])[0].payload["user"] == "ada"

    client.upsert(
        name,
        [models.PointStruct(id=number, vector={"": UP}, payload={"user": "eve"}) for number in (1, 77)],
        update_mode=models.UpdateMode.INSERT_ONLY,
    )
    assert [client.retrieve(name, [number])[0].payload["user"] for number in (1, 77)] == ["ada", "eve"]


def test_points_are_deleted_by_id_and_by_filter_and_unknown_ids_are_no_error(client, name):
    client.delete(name, [3, 999])
    client.delete(name, models.FilterSelector(filter=where("user", "ada")))

    assert [record.id for record in client.scroll(name)[0]] == [4]


def test_several_writes_travel_in_one_request_and_happen_in_order(client, name):
    results = client.batch_update_points(
        name,
        [
            models.UpsertOperation(upsert=models.PointsList(points=[point(9, UP, "fay", 1, {1: 1.0})])),
            models.SetPayloadOperation(set_payload=models.SetPayload(payload={"seen": 1}, points=[9])),
            models.DeleteOperation(delete=models.PointIdsList(points=[1])),
        ],
    )

    assert [result.status for result in results] == [models.UpdateStatus.COMPLETED] * 3
    assert client.retrieve(name, [9])[0].payload["seen"] == 1
    assert client.retrieve(name, [1]) == []


def test_ids_are_numbers_or_uuids(client, name):
    identity = str(uuid.uuid4())
    client.upsert(name, [point(identity, UP, "gil", 1, {1: 1.0})])

    assert client.retrieve(name, [identity.upper()])[0].id == identity
    with pytest.raises(UnexpectedResponse) as refused:
        client.upsert(name, [point("not an id", UP, "gil", 1, {1: 1.0})])
    assert refused.value.status_code == 400


@pytest.mark.parametrize(
    "vector",
    [
        {"": [1.0, 2.0]},
        {"nobody": EAST},
        {"bm25": EAST},
        {"bm25": models.SparseVector(indices=[1, 1], values=[1.0, 2.0])},
        {"bm25": models.SparseVector(indices=[1, 2], values=[1.0])},
    ],
    ids=["dimension", "name", "type", "twice the same index", "fewer values than indices"],
)
def test_a_vector_that_does_not_fit_is_refused_and_nothing_of_the_request_is_kept(client, name, vector):
    with pytest.raises(UnexpectedResponse) as refused:
        client.upsert(name, [point(50, UP, "hal", 1, {1: 1.0}), models.PointStruct(id=51, vector=vector, payload={})])

    assert refused.value.status_code in {400, 422}
    assert client.retrieve(name, [50, 51]) == []


def test_a_search_with_a_vector_of_another_length_is_refused(client, name):
    with pytest.raises(UnexpectedResponse) as refused:
        client.query_points(name, query=[1.0, 2.0])

    assert refused.value.status_code == 400


def test_a_vector_of_zeros_is_like_nothing(client, name):
    client.upsert(name, [models.PointStruct(id=60, vector={"": [0.0, 0.0, 0.0]}, payload={"user": "zoe"})])

    hits = client.query_points(name, query=EAST, query_filter=where("user", "zoe")).points

    assert [hit.score for hit in hits] == [0.0]


async def test_the_async_client_sees_what_the_sync_one_wrote(async_client, client, name):
    assert (await async_client.count(name)).count == 4
    await async_client.upsert(name, [point(20, UP, "ivy", 1, {1: 1.0})])
    await async_client.delete(name, models.FilterSelector(filter=where("user", "ada")))

    assert sorted(record.id for record in client.scroll(name)[0]) == [3, 4, 20]
    assert found(await async_client.query_points(name, query=UP, limit=1)) in ([4], [20])


@pytest.fixture
def mem0_store(client: QdrantClient) -> Iterator[Mem0Store]:
    name = f"test-{uuid.uuid4().hex}"
    yield Mem0Store(collection_name=name, embedding_model_dims=3, client=client)
    client.delete_collection(name)


def test_mem0s_store_inserts_searches_updates_lists_and_deletes(mem0_store):
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    mem0_store.insert(
        vectors=[EAST, NORTH],
        ids=[first, second],
        payloads=[{"user_id": "ada", "data": "likes tea"}, {"user_id": "bob", "data": "likes coffee"}],
    )

    assert [hit.id for hit in mem0_store.search("tea", EAST, filters={"user_id": "ada"})] == [first]
    mem0_store.update(first, vector=UP, payload={"user_id": "ada", "data": "likes chai"})
    assert mem0_store.get(first).payload["data"] == "likes chai"
    assert [record.id for record in mem0_store.list(filters={"user_id": "bob"})[0]] == [second]
    mem0_store.delete(first)
    assert mem0_store.get(first) is None
    assert mem0_store.collection_name in [one.name for one in mem0_store.list_cols().collections]


@pytest.fixture
def document_store(client: QdrantClient, qdrant_url: str) -> Iterator[QdrantDocumentStore]:
    name = f"test-{uuid.uuid4().hex}"
    store = QdrantDocumentStore(
        url=qdrant_url,
        index=name,
        embedding_dim=3,
        use_sparse_embeddings=True,
        sparse_idf=True,
        progress_bar=False,
        payload_fields_to_index=[{"field_name": "meta.group", "field_schema": "keyword"}],
    )
    store.write_documents(
        [
            document("a", EAST, "staff", {1: 1.0}),
            document("b", NORTH, "staff", {2: 1.0}),
            document("c", EAST, "board", {3: 1.0}),
        ]
    )
    yield store
    store.close()
    client.delete_collection(name)


def document(content: str, embedding: list[float], group: str, words: dict[int, float]) -> Document:
    sparse = SparseEmbedding(indices=list(words), values=list(words.values()))
    return Document(content=content, embedding=embedding, sparse_embedding=sparse, meta={"group": group})


STAFF = {"field": "meta.group", "operator": "==", "value": "staff"}


def test_haystacks_store_writes_filters_and_deletes_documents(document_store):
    assert document_store.count_documents() == 3
    assert {document.content for document in document_store.filter_documents(STAFF)} == {"a", "b"}
    assert document_store.write_documents(document_store.filter_documents(), policy=DuplicatePolicy.SKIP) == 0

    document_store.delete_documents([document.id for document in document_store.filter_documents(STAFF)])
    assert [document.content for document in document_store.filter_documents()] == ["c"]


async def test_haystacks_retrievers_stay_inside_the_filter(document_store):
    dense = QdrantEmbeddingRetriever(document_store=document_store, filters=STAFF)
    hybrid = QdrantHybridRetriever(document_store=document_store, filters=STAFF)
    words = SparseEmbedding(indices=[2, 3], values=[1.0, 1.0])

    hits = dense.run(query_embedding=[1.0, 0.1, 0.0])["documents"]
    async_hits = (await dense.run_async(query_embedding=[1.0, 0.1, 0.0]))["documents"]
    fused = hybrid.run(query_embedding=NORTH, query_sparse_embedding=words)["documents"]

    assert [hit.content for hit in hits] == [hit.content for hit in async_hits] == ["a", "b"]
    assert fused[0].content == "b"
    assert "c" not in {hit.content for hit in fused}
