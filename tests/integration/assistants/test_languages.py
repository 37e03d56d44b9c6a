"""A refusal is worded in the language of the question, whatever was pasted around it, else in the next best known."""

import uuid

import pytest

from components.refusal_texts import refusal_text
from tests.integration.assistants.talking import ask

pytestmark = pytest.mark.integration

GERMAN = "Die Kantine ist von Montag bis Freitag geöffnet, und am Wochenende bleibt sie geschlossen. " * 20
FRENCH = "Quand est-ce que la cantine ouvre le dimanche ?"


@pytest.mark.parametrize(
    ("assistant", "headers", "locale"),
    [
        ("rag", {}, "en"),
        ("picky", {}, "it"),
        ("rag", {"Accept-Language": "fr-CH, de;q=0.8"}, "fr"),
        ("picky", {"Accept-Language": "pt, de;q=0.5"}, "de"),
        ("picky", {"Accept-Language": "pt"}, "it"),
    ],
    ids=["the default", "the assistant's", "the client's", "the client's second", "none of the client's"],
)
def test_where_no_language_can_be_told_the_next_best_known_counts(
    assistants, model_server, user, assistant, headers, locale
):
    model_server.default("condenser", "")

    text, _ = ask(assistants.client(user, **headers), assistant, "XR-2000?")

    assert text == refusal_text("condensation_empty", locale)


@pytest.mark.parametrize("message", [f"{FRENCH}\n\n{GERMAN}", f"{GERMAN}\n\n{FRENCH}"], ids=["first", "last"])
def test_a_pasted_document_does_not_change_the_language(assistants, model_server, user, message):
    model_server.default("condenser", FRENCH)
    model_server.default("few_shot_guard", {"verdict": "block", "reason": ""})

    text, _ = ask(assistants.client(user), "picky", message)

    assert text == refusal_text("few_shot_rejected", "fr")


def test_a_yes_without_a_language_is_answered_in_that_of_the_question(assistants, model_server, user):
    client = assistants.client(user, **{"X-OpenWebUI-Chat-Id": str(uuid.uuid4())})
    model_server.default("condenser", FRENCH)
    model_server.default("context_guard", {"verdict": "insufficient", "reason": "", "query": ""})
    ask(client, "expert-rag", FRENCH)

    text, _ = ask(client, "expert-rag", "ok")

    assert text == refusal_text("expert_pending", "fr")
