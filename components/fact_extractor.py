"""Find what a turn tells about its user."""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from haystack import component, logging

from components.async_only import async_only
from components.language import detect_locale, load_languages
from components.locale_prompt import LocalePrompt
from components.model_call import AsyncChatGenerator, close_model, open_model, structured_reply
from components.redaction import redact
from components.relative_dates import with_dates
from contracts.errors import UnreadableModelOutputError
from contracts.turn import TurnContext

logger = logging.getLogger(__name__)

MAX_FACTS = 10
MAX_FACT_CHARACTERS = 149
_ANSWER_CHARACTERS = 2000  # enough to understand a message by

_SCHEMA = {
    "type": "object",
    "properties": {
        "facts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "about": {"type": "string", "enum": ["user", "other"]}},
                "required": ["text", "about"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["facts"],
    "additionalProperties": False,
}


@component
class FactExtractor:
    """
    Asks a model, once, which facts about the user a turn tells that are worth keeping.

    Facts come from what the user said, the condensed question, which stands by itself. The answer is never a source: a
    prompt may show it as context with `{{ answer }}` (the one that comes with the writer does not: small models take
    facts from it), and a fact that repeats it word for word is left out. Secrets, IBANs and card numbers are taken out
    before the model sees the text. A reply that cannot be read is a failure, never "no facts".

    ### Usage example

    ```python
    import asyncio
    from datetime import UTC, datetime

    from haystack.components.generators.chat import MockChatGenerator

    from components.fact_extractor import FactExtractor
    from contracts.turn import Agent, TurnContext

    model = MockChatGenerator(responses=['{"facts": [{"text": "The user works in Basel.", "about": "user"}]}'])
    extractor = FactExtractor(model, prompt_dir="writer/prompts/extract")
    turn = TurnContext(
        tenant_id="acme", run_id="r1", agent=Agent("rag"), locale="en", said_at=datetime(2026, 11, 30, tzinfo=UTC)
    )

    found = asyncio.run(extractor.run_async("I work in Basel, where can I park?", turn))
    assert found == {"facts": ["The user works in Basel."]}
    ```
    """

    def __init__(self, chat_generator: AsyncChatGenerator, *, prompt_dir: str) -> None:
        """
        Load the prompt; nothing is opened here.

        :param chat_generator: Model for the stage `extract`.
        :param prompt_dir: Folder of the prompt in four locales.
        :raises ConfigurationError: If the prompt is not there in every locale.
        """
        self.chat_generator = chat_generator
        self.prompt_dir = prompt_dir
        self._prompt = LocalePrompt(prompt_dir, provides=("question", "answer", "said_at", "tomorrow", "agent"))

    async def warm_up_async(self) -> None:
        """Load the language models, open the model's client."""
        await load_languages()
        await open_model(self.chat_generator)

    async def close_async(self) -> None:
        """Close the model's client."""
        await close_model(self.chat_generator)

    @component.output_types(facts=list[str])
    def run(self, question: str, turn: TurnContext, answer: str | None = None) -> dict[str, Any]:
        """Refuse to run: the model is asked asynchronously."""
        raise async_only(self)

    @component.output_types(facts=list[str])
    async def run_async(self, question: str, turn: TurnContext, answer: str | None = None) -> dict[str, Any]:
        """
        Extract facts.

        :param question: The condensed question: what the user said.
        :param turn: Language, assistant, and the time and zone that relative dates are resolved against.
        :param answer: What the assistant said; None for a half turn.
        :returns: `facts`: at most 10, each under 150 characters, no two equal; often none.
        :raises UnreadableModelOutputError: If the reply is empty or not of the schema.
        :raises ModelUnavailableError: If the model cannot be asked now.
        :raises RejectedRequestError: If the model's endpoint rejects the request.
        """
        question, answer = redact(question), redact(answer or "")
        locale, said_at = detect_locale(question, turn.locale), local_time(turn.said_at, turn.time_zone)
        prompt = self._prompt.messages(
            locale,
            question=json.dumps(question, ensure_ascii=False),
            answer=json.dumps(answer[:_ANSWER_CHARACTERS], ensure_ascii=False),
            said_at=said_at,
            tomorrow=said_at + timedelta(days=1),
            agent=turn.agent,
        )
        reply = await structured_reply(self.chat_generator, prompt, schema_name="facts", schema=_SCHEMA)
        said = [fact for fact in map(redact, _texts(reply)) if not _repeats(answer, fact, question)]
        return {"facts": _bounded(with_dates(fact, locale, said_at) for fact in said)}


def local_time(said_at: datetime, time_zone: str) -> datetime:
    """
    Give the time as the user's clock showed it.

    :param said_at: Time with any zone.
    :param time_zone: IANA name; of one that nobody knows, the zone of `said_at` is kept.
    """
    try:
        return said_at.astimezone(ZoneInfo(time_zone))
    except (KeyError, ValueError, OSError):  # an unknown name, or one that is no name at all, like a path
        logger.warning("unknown time zone of a turn; relative dates are resolved in that of its timestamp")
        return said_at


def _texts(reply: dict[str, Any]) -> list[str]:
    facts = reply.get("facts")
    if not isinstance(facts, list):
        msg = "the reply to facts has no list `facts`"
        raise UnreadableModelOutputError(msg)
    texts = [fact.get("text") if isinstance(fact, dict) else fact for fact in facts]
    if not all(isinstance(text, str) for text in texts):
        msg = "the reply to facts has a fact without a `text`"
        raise UnreadableModelOutputError(msg)
    # JSON can spell what UTF-8 cannot hold (lone surrogates), and C strings end at NUL.
    return [str(text).replace("\0", " ").encode("utf-8", "replace").decode() for text in texts]


def _repeats(answer: str, fact: str, question: str) -> bool:
    """Tell whether a fact stands word for word in the answer, and not in what the user said."""
    key = _plain(fact)
    if not key or key not in _plain(answer) or key in _plain(question):
        return False
    logger.info("left out a fact that stands word for word in the answer: the user did not say it")
    return True


def _bounded(texts: Iterable[str]) -> list[str]:
    """Keep to the bounds, whatever the model made of them; no fact is given twice."""
    facts: dict[str, str] = {}
    for text in texts:
        fact = _shortened(" ".join(text.split()))
        if key := _plain(fact):
            facts.setdefault(key, fact)
    if len(facts) > MAX_FACTS:
        logger.warning("kept the first {most} of {count} facts of a turn", most=MAX_FACTS, count=len(facts))
    return list(facts.values())[:MAX_FACTS]


def _shortened(fact: str) -> str:
    if len(fact) <= MAX_FACT_CHARACTERS:
        return fact
    logger.warning("cut a fact of {count} characters to {most}", count=len(fact), most=MAX_FACT_CHARACTERS)
    return fact[: MAX_FACT_CHARACTERS - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!…\"'")
