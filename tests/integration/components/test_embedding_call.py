"""One request embeds many texts; every way in which it can fail has its own error."""

import json

import pytest
from haystack.components.embedders import OpenAITextEmbedder
from haystack.utils import Secret

from components.embedding_call import embed
from components.question_embedder import QuestionEmbedder
from contracts.errors import (
    ConfigurationError,
    EmbedderUnavailableError,
    RejectedRequestError,
    UnreadableModelOutputError,
)
from contracts.turn import Vector
from tests.scripted_model_server import Failure

pytestmark = pytest.mark.integration


@pytest.fixture
async def embedder(model_server):
    made = []

    def make(url: str = model_server.url, **settings) -> OpenAITextEmbedder:
        defaults = {"api_key": Secret.from_token("unused"), "model": "scripted", "max_retries": 0, "timeout": 5.0}
        made.append(OpenAITextEmbedder(api_base_url=url, **{**defaults, **settings}))
        return made[-1]

    yield make
    for embedder in made:
        await embedder.close_async()


async def test_many_texts_are_one_request_with_the_prefix_and_the_stage(embedder, model_server):
    vectors = await embed(embedder(prefix="passage: "), ["one", "two"], dimension=384)

    (call,) = model_server.calls("embed")
    assert call.body["input"] == ["passage: one", "passage: two"]
    assert [len(vector) for vector in vectors] == [384, 384]
    assert vectors[0] != vectors[1]


async def test_no_texts_are_no_request(embedder, model_server):
    assert await embed(embedder(), []) == []
    assert model_server.log == []


async def test_what_cannot_travel_as_utf8_is_replaced(embedder, model_server):
    await embed(embedder(), ["a\ud800b\0c"])

    assert json.dumps(model_server.calls("embed")[0].body["input"]) == '["a?b c"]'


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
async def test_what_may_pass_or_be_mended_is_an_outage(embedder, model_server, status):
    model_server.script("embed", Failure(status))

    with pytest.raises(EmbedderUnavailableError, match=str(status)) as caught:
        await embed(embedder(), ["text"])

    assert "secret-of-the-backend" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_text_that_the_backend_rejects_is_the_requests_own_fault(embedder, model_server, status):
    model_server.script("embed", Failure(status))

    with pytest.raises(RejectedRequestError, match=str(status)):
        await embed(embedder(), ["text"])


async def test_a_refused_connection_and_a_slow_answer_are_outages(embedder, model_server):
    with pytest.raises(EmbedderUnavailableError, match="HAYRECALL_EMBEDDING_BASE_URL"):
        await embed(embedder("http://127.0.0.1:9/v1"), ["text"])

    model_server.latency["embed"] = 2
    with pytest.raises(EmbedderUnavailableError, match="in time"):
        await embed(embedder(timeout=0.1), ["text"])


@pytest.mark.parametrize(
    "vectors",
    [[[1.0]], [[1.0], [0.0]], [[1.0], []], [[1.0], ["a"]], [[1.0], None], [[1.0], [10**400]]],
    ids=["too few", "zero", "empty", "text", "null", "beyond a float"],
)
async def test_an_answer_without_a_vector_for_each_text_is_unreadable(embedder, model_server, vectors):
    model_server.script("embed", vectors)

    with pytest.raises(UnreadableModelOutputError):
        await embed(embedder(), ["one", "two"])


async def test_vectors_of_another_length_are_a_wrong_configuration(embedder, model_server):
    with pytest.raises(ConfigurationError, match="HAYRECALL_EMBEDDING_DIMENSION says 768"):
        await embed(embedder(), ["text"], dimension=768)


async def test_the_question_has_an_empty_vector_when_the_embedder_is_down_or_slow(embedder, model_server):
    question_embedder = QuestionEmbedder(embedder(), dimension=384, timeout_seconds=0.3)
    model_server.script("embed", Failure(503))

    assert await question_embedder.run_async("What?") == {"vector": Vector()}

    model_server.latency["embed"] = 5
    assert await question_embedder.run_async("What?") == {"vector": Vector()}

    model_server.latency["embed"] = 0
    assert len((await question_embedder.run_async("What?"))["vector"].values) == 384
