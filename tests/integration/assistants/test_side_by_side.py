"""What does not depend on each other happens at the same time."""

import pytest

from tests.integration.assistants.talking import ask

pytestmark = pytest.mark.integration
SECONDS = 0.3


def test_memories_and_documents_are_searched_at_the_same_time(assistants, model_server, qdrant, user):
    model_server.default("condenser", "When does the canteen open?")
    qdrant.spans.clear()
    qdrant.search_seconds = SECONDS
    try:
        ask(assistants.client(user), "rag", "When does it open?")
    finally:
        qdrant.search_seconds = 0

    searches = [span for span in qdrant.spans if "/query" in span[0]]
    memories = [span for span in searches if "memories" in span[0]]
    documents = [span for span in searches if "documents" in span[0]]
    assert memories
    assert documents
    assert all(end - start >= SECONDS for _, start, end in searches)
    assert max(start for _, start, _ in searches) < min(end for _, _, end in searches), "one waited for the other"
