"""Every way in which a run may end, in every language, streamed and plain: text, outcome, log line and metric."""

import logging
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from components.locale_prompt import LocalePrompt
from components.refusal_texts import refusal_text
from contracts.errors import Outcome
from contracts.turn import LOCALES
from tests.conftest import wait_until
from tests.integration.assistants.conftest import counted
from tests.integration.assistants.talking import ask
from tests.scripted_model_server import Failure, ScriptedModelServer

pytestmark = pytest.mark.integration

QUESTIONS = {
    "de": "Wann öffnet die Kantine am Montag?",
    "fr": "À quelle heure est-ce que la cantine ouvre ?",
    "it": "A che ora apre la mensa il lunedì?",
    "en": "When does the canteen open on Monday?",
}
YES = {"de": "Ja, bitte", "fr": "Oui", "it": "Sì, grazie", "en": "Yes, please"}
NO = {"de": "Nein danke", "fr": "Non merci", "it": "No", "en": "No"}
INSUFFICIENT = {"verdict": "insufficient", "reason": "No hours are given.", "query": ""}
Said = tuple[str, dict[str, Any]]
Say = Callable[..., Said]  # (assistant, text) -> what it said


def echo_prompt(body: dict[str, Any]) -> str:
    """Answer with the language and the name of the prompt that the model was given."""
    system = body["messages"][0]["content"]
    for folder in ("answer", "meta", "insufficient"):
        for locale, source in LocalePrompt(Path("pipelines/rag/prompts") / folder).sources.items():
            rules = [line for line in source.splitlines() if len(line) > 80 and not set(line) & set("{}")]
            if rules and all(rule in system for rule in rules):
                return f"{folder} {locale}"
    return "no prompt of ours"


def answered(say: Say, locale: str, models: ScriptedModelServer) -> tuple[Said, str]:
    return say("rag", QUESTIONS[locale]), f"answer {locale}"


def meta(say: Say, locale: str, models: ScriptedModelServer) -> tuple[Said, str]:
    models.default("gate", {"label": "meta"})
    return say("rag", QUESTIONS[locale]), f"meta {locale}"


def input_too_large(say: Say, locale: str, models: ScriptedModelServer) -> tuple[Said, str]:
    said = say("rag", QUESTIONS[locale] * 700)
    assert models.log == []
    return said, refusal_text("input_too_large", locale)


def condensation_empty(say: Say, locale: str, models: ScriptedModelServer) -> tuple[Said, str]:
    models.default("condenser", "<think>What do they want?</think>")
    return say("rag", QUESTIONS[locale]), refusal_text("condensation_empty", locale)


def few_shot_rejected(say: Say, locale: str, models: ScriptedModelServer) -> tuple[Said, str]:
    models.default("few_shot_guard", {"verdict": "block", "reason": "Not about work."})
    text, told = say("picky", QUESTIONS[locale])
    assert told["reason"] == "Not about work."
    return (text, told), refusal_text("few_shot_rejected", locale)


def context_insufficient(say: Say, locale: str, models: ScriptedModelServer) -> tuple[Said, str]:
    models.default("context_guard", INSUFFICIENT)
    text, told = say("guarded", QUESTIONS[locale])
    assert told["reason"] == "No hours are given."
    return (text, told), f"insufficient {locale}"


def no_accessible_knowledge(say: Say, locale: str, models: ScriptedModelServer) -> tuple[Said, str]:
    return say("locked", QUESTIONS[locale]), refusal_text("no_accessible_knowledge", locale)


def expert_consent(say: Say, locale: str, models: ScriptedModelServer) -> tuple[Said, str]:
    models.default("context_guard", INSUFFICIENT)
    return say("expert-rag", QUESTIONS[locale]), refusal_text("expert_consent", locale, question=QUESTIONS[locale])


def expert_pending(say: Say, locale: str, models: ScriptedModelServer) -> tuple[Said, str]:
    expert_consent(say, locale, models)
    return say("expert-rag", YES[locale]), refusal_text("expert_pending", locale)


def expert_declined(say: Say, locale: str, models: ScriptedModelServer) -> tuple[Said, str]:
    expert_consent(say, locale, models)
    return say("expert-rag", NO[locale]), refusal_text("expert_declined", locale)


def expert_errored(say: Say, locale: str, models: ScriptedModelServer, *, channel: Any) -> tuple[Said, str]:
    channel.status = 500
    expert_consent(say, locale, models)
    return say("expert-rag", YES[locale]), refusal_text("expert_errored", locale)


SCENARIOS = (
    answered,
    meta,
    input_too_large,
    condensation_empty,
    few_shot_rejected,
    context_insufficient,
    no_accessible_knowledge,
    expert_consent,
    expert_pending,
    expert_declined,
    expert_errored,
)
SERVED_BY = {"few_shot_rejected": "picky", "context_insufficient": "guarded", "no_accessible_knowledge": "locked"}


def test_every_outcome_has_a_scenario():
    assert {scenario.__name__ for scenario in SCENARIOS} == set(get_args(Outcome))


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_an_outcome_has_its_text_field_log_line_and_count(assistants, model_server, channel, caplog, scenario, locale):
    outcome = scenario.__name__
    caplog.set_level(logging.INFO, "hayrecall.server.run_watch")
    model_server.default("condenser", QUESTIONS[locale])
    model_server.default("answer", echo_prompt)
    played = partial(scenario, channel=channel) if scenario is expert_errored else scenario
    assistant = SERVED_BY.get(outcome, "expert-rag" if outcome.startswith("expert") else "rag")
    labels = {"assistant": assistant, "outcome": outcome}
    before = counted(assistants, "hayrecall_runs_total", **labels)
    runs = []

    for stream in (False, True):
        client = assistants.client(f"eva {uuid.uuid4()}", **{"X-OpenWebUI-Chat-Id": str(uuid.uuid4())})
        (text, told), expected = played(partial(ask, client, stream=stream), locale, model_server)
        assert (text, told["outcome"]) == (expected, outcome)
        runs.append(told["run_id"])

    wait_until(lambda: counted(assistants, "hayrecall_runs_total", **labels) == before + 2)
    logged = {record.run_id: record.outcome for record in caplog.records if hasattr(record, "outcome")}
    assert [logged.get(run) for run in runs] == [outcome, outcome]


BLANK = ["", " \n ", "<think>Hm.</think>", "Hm.</think>", '""', "N/A", "n.a.", "None.", "`null`", "«»", "Keine Frage."]


@pytest.mark.parametrize("blank", BLANK)
def test_a_blank_condensation_ends_the_turn_before_any_search(assistants, model_server, qdrant, user, blank):
    model_server.default("condenser", blank)
    qdrant.requests.clear()
    before = counted(assistants, "hayrecall_blank_condensations_total")

    assert ask(assistants.client(user), "rag", "Hm, well …")[1]["outcome"] == "condensation_empty"

    assert sorted(call.stage for call in model_server.log) == ["condenser", "gate"]
    assert qdrant.requests == []
    assert counted(assistants, "hayrecall_blank_condensations_total") == before + 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("failure", [Failure(503), "<think>I should say something.</think>"], ids=["down", "blank"])
def test_a_refusal_that_the_model_does_not_word_has_a_text_of_ours(assistants, model_server, user, failure, stream):
    model_server.default("context_guard", INSUFFICIENT)
    model_server.default("answer", failure)

    text, told = ask(assistants.client(user), "guarded", QUESTIONS["it"], stream=stream)

    assert (text, told["outcome"]) == (refusal_text("context_insufficient", "it"), "context_insufficient")
