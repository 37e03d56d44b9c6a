"""A reranking endpoint orders passages anew, or says why not."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from haystack import Document

from components.rank_endpoint import RankEndpoint
from contracts.errors import ModelUnavailableError, UnreadableModelOutputError

pytestmark = pytest.mark.integration

DOCUMENTS = [Document(id=name, content=name, score=0.9) for name in ("first", "second", "third")]


@pytest.fixture
def rerank() -> Iterator[ThreadingHTTPServer]:
    """A server that answers with `server.answer`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, body = self.server.answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{server.server_port}/v1/rerank"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
async def ranker(rerank):
    ranker = RankEndpoint(rerank.url, model="reranker", top_k=2)
    yield ranker
    await ranker.close_async()


async def test_the_endpoints_order_is_the_order(rerank, ranker):
    rerank.answer = 200, b'{"results": [{"index": 2, "relevance_score": 3}, {"index": 0, "relevance_score": 1.5}]}'

    ranked = (await ranker.run_async("question", DOCUMENTS))["documents"]

    assert [document.id for document in ranked] == ["third", "first"]


@pytest.mark.parametrize("index", [-1, 3])
async def test_documents_that_were_never_sent_are_passed_over(rerank, ranker, index):
    rerank.answer = (
        200,
        b'{"results": [{"index": %d, "relevance_score": 9}, {"index": 1, "relevance_score": 1}]}' % index,
    )

    assert [document.id for document in (await ranker.run_async("q", DOCUMENTS))["documents"]] == ["second"]


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"results": [{"index": "x"}]}', b"[]"])
async def test_an_answer_that_is_no_ranking_is_unreadable(rerank, ranker, body):
    rerank.answer = 200, body

    with pytest.raises(UnreadableModelOutputError):
        await ranker.run_async("question", DOCUMENTS)


async def test_a_failing_or_missing_endpoint_is_an_outage(rerank, ranker):
    rerank.answer = 503, b"secret"
    with pytest.raises(ModelUnavailableError, match="503"):
        await ranker.run_async("question", DOCUMENTS)

    nowhere = RankEndpoint("http://127.0.0.1:9/rerank", model="reranker")
    with pytest.raises(ModelUnavailableError, match="does not answer"):
        await nowhere.run_async("question", DOCUMENTS)
    await nowhere.close_async()


async def test_no_documents_are_no_request():
    assert await RankEndpoint("http://127.0.0.1:9/rerank", model="reranker").run_async("q", []) == {"documents": []}
