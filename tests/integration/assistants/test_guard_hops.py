"""The context guard searches again with the model's queries, up to its limit, and what it finds is answered from."""

import pytest

from tests.integration.assistants.conftest import DOCUMENTS, counted
from tests.integration.assistants.talking import ask
from tests.scripted_model_server import Failure

pytestmark = pytest.mark.integration

QUESTION = "When does the canteen open?"
SUFFICIENT = {"verdict": "sufficient", "reason": "", "query": ""}


def insufficient(query: str) -> dict[str, str]:
    return {"verdict": "insufficient", "reason": "No prices are given.", "query": query}


@pytest.fixture
def models(model_server):
    model_server.default("condenser", QUESTION)
    return model_server


def embedded(models) -> list[str]:
    """Give what was searched with, in order."""
    inputs = [call.body["input"] for call in models.calls("embed")]
    texts = [text for given in inputs for text in ([given] if isinstance(given, str) else given)]
    return [text.removeprefix("query: ") for text in texts]


@pytest.mark.parametrize("stream", [False, True])
def test_the_documents_of_both_further_searches_are_answered_from(assistants, models, user, stream):
    queries = ["What do lunch vouchers cost?", "How are parking permits issued?"]
    models.script("context_guard", *map(insufficient, queries), SUFFICIENT)

    _, told = ask(assistants.client(user), "guarded", QUESTION, stream=stream)

    (answering,) = models.calls("answer")
    assert told["outcome"] == "answered"
    assert embedded(models) == [QUESTION, *queries]
    assert all(text in answering.text for text in DOCUMENTS.values())
    assert {source["source"] for source in told["sources"]} == DOCUMENTS.keys()
    assert [source["index"] for source in told["sources"]] == [1, 2, 3, 4]
    seen = [sum(text in call.text for text in DOCUMENTS.values()) for call in models.calls("context_guard")]
    assert (seen[0], seen[2]) == (2, 4), "documents accumulate"


def test_the_hops_end_at_their_limit(assistants, models, user):
    queries = iter(["lunch vouchers", "parking permits", "opens", "closes"])
    models.default("context_guard", lambda body: insufficient(next(queries)))

    _, told = ask(assistants.client(user), "guarded", QUESTION)

    assert (told["outcome"], told["reason"]) == ("context_insufficient", "No prices are given.")
    assert len(models.calls("context_guard")) == 3
    assert embedded(models) == [QUESTION, "lunch vouchers", "parking permits"]


@pytest.mark.parametrize("query", ["", "  "])
def test_a_blank_query_ends_the_hops(assistants, models, user, query):
    models.default("context_guard", insufficient(query))

    assert ask(assistants.client(user), "guarded", QUESTION)[1]["outcome"] == "context_insufficient"

    assert len(models.calls("context_guard")) == 1


@pytest.mark.parametrize(
    ("reply", "unreadable"), [("Perhaps.", 1), ({"verdict": "unsure"}, 1), ("", 1), (Failure(500), 0)]
)
def test_a_guard_that_fails_or_cannot_be_read_takes_what_was_found_as_enough_and_is_counted(
    assistants, models, user, reply, unreadable
):
    def counts():
        names = ("hayrecall_fail_open_total", "hayrecall_unreadable_verdicts_total")
        return [counted(assistants, name, stage="context_guard") for name in names]

    failed, unread = counts()
    models.script("context_guard", insufficient("lunch vouchers"), reply)

    assert ask(assistants.client(user), "guarded", QUESTION)[1]["outcome"] == "answered"

    assert DOCUMENTS["vouchers.txt"] in models.calls("answer")[0].text
    assert counts() == [failed + 1, unread + unreadable]
