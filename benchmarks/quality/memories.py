"""CANARD and LoCoMo: what a memory search finds, and what it should leave out."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

from haystack import Document
from haystack.utils import Secret

from benchmarks.quality.datasets import Fact, canard, inlined, locomo
from benchmarks.quality.parts import each, percent, turn, vectors
from components.memory_retriever import MemoryRetriever
from components.memory_store import MemoryRecord, MemoryStore, Scope
from contracts.settings import Settings
from contracts.turn import Vector

WINDOW_CHARACTERS = 1_800  # about the 512 tokens at which most servers cut a text
REPORTED = range(5, 10)  # conversations of LoCoMo that nothing was tuned on
WRITE_BATCH = 200


def store(settings: Settings, collection: str) -> MemoryStore:
    assert settings.qdrant_url
    key = Secret.from_env_var("HAYRECALL_QDRANT_API_KEY", strict=False)
    return MemoryStore(
        settings.qdrant_url,
        api_key=key,
        collection=f"quality_{collection}",
        dimension=settings.embedding_dimension,
        timeout_seconds=30,
    )


async def measure_canard(settings: Settings, data: Path) -> dict[str, float]:
    """Give R@5 by what is searched with: the last utterance, the same with a document, the standalone question."""
    memories, questions = canard(data)
    held = store(settings, "canard")
    await _fill(held, "canard", "everybody", [(text, "") for text in memories], settings)
    retriever = MemoryRetriever(held, top_k=5, timeout_seconds=60)
    ways = {
        "raw": [question.raw for question in questions],
        "inlined": [inlined(data, question.raw, number) for number, question in enumerate(questions)],
        "gold": [question.gold for question in questions],
    }
    figures = {}
    for name, texts in ways.items():
        asked = await vectors(settings, "query: ", [text[:WINDOW_CHARACTERS] for text in texts])

        async def hit(number: int, texts: list[str] = texts, asked: list[Vector] = asked) -> bool:
            found = await retriever.run_async(texts[number], asked[number], turn("canard", "everybody"))
            return questions[number].memory in [_number(memory) for memory in found["user_memories"]]

        figures[name] = percent(await each(range(len(questions)), hit))
    await held.close()
    return figures


async def measure_locomo(settings: Settings, data: Path) -> dict[str, float]:
    """Give evidence R@10 over facts alone, and over facts beside the statements that they were taken from."""
    conversations = [locomo(data)[0][number] for number in REPORTED]
    held = store(settings, "locomo")
    retriever = MemoryRetriever(held, top_k=10, timeout_seconds=60)
    found: dict[str, list[float]] = {"fact": [], "fact_and_statement": [], "fact_dense": []}
    for number, conversation in enumerate(conversations):
        facts, user = conversation.facts, str(number)
        await _fill(held, "fact", user, [(fact.text, "") for fact in facts], settings)
        await _fill(held, "fact_and_statement", user, [(fact.text, fact.statement) for fact in facts], settings)
        asked = await vectors(settings, "query: ", [question for question, _ in conversation.questions])
        for index, (question, evidence) in enumerate(conversation.questions):
            for tenant in ("fact", "fact_and_statement"):
                result = await retriever.run_async(question, asked[index], turn(tenant, user))
                found[tenant].append(_covered(result["user_memories"], facts, evidence))
            (nearest,) = await held.search(asked[index], [Scope("fact", user_id=user)], top_k=10)
            found["fact_dense"].append(_covered(nearest, facts, evidence))
    await held.close()
    return {name: percent(shares) for name, shares in found.items()}


async def measure_gating(settings: Settings, data: Path) -> dict[str, float]:
    """
    Ask each question of its own user's memory and of another's, all names masked.

    `auc_masked`: how often a gold memory is judged more relevant than the best of the other user's; `auc_cosine` the
    same by cosine. `own_kept`: questions of which a gold memory is kept; `foreign_passed`: questions for which anything
    of the other user's memory is.
    """
    conversations, names = locomo(data)
    masked = [conversation.masked(names[number]) for number, conversation in enumerate(conversations)]
    held = store(settings, "masked")
    for number, conversation in enumerate(masked):
        texts = [(fact.text, fact.statement) for fact in conversation.facts]
        await _fill(held, "masked", str(number), texts, settings)
    ranking = MemoryRetriever(held).ranking
    chance = random.Random(0)
    own: dict[str, list[float]] = {"judged": [], "cosine": []}
    foreign: dict[str, list[float]] = {"judged": [], "cosine": []}
    kept, passed = [], []
    for number in REPORTED:
        other = chance.choice([candidate for candidate in range(len(masked)) if candidate != number])
        conversation = masked[number]
        asked = await vectors(settings, "query: ", [question for question, _ in conversation.questions])
        for (question, evidence), vector in zip(conversation.questions, asked, strict=True):
            gold = {index for index, fact in enumerate(conversation.facts) if fact.cites & evidence}
            if not gold:
                continue
            scopes = [Scope("masked", user_id=str(number)), Scope("masked", user_id=str(other))]
            mine, theirs = await held.search(vector, scopes, top_k=100)
            judged = {_number(m): value for m, value in zip(mine, ranking.judge(question, "en", mine), strict=True)}
            own["judged"].append(max((judged[index] for index in gold & judged.keys()), default=float("-inf")))
            foreign["judged"].append(max(ranking.judge(question, "en", theirs)))
            own["cosine"].append(max((m.score or 0 for m in mine if _number(m) in gold), default=0))
            foreign["cosine"].append(max(m.score or 0 for m in theirs))
            kept.append(own["judged"][-1] >= ranking.min_relevance)
            passed.append(bool(ranking.best(question, "en", theirs, top_k=10)))
    await held.close()
    return {
        "auc_masked": _auc(own["judged"], foreign["judged"]),
        "auc_cosine": _auc(own["cosine"], foreign["cosine"]),
        "own_kept": percent(kept),
        "foreign_passed": percent(passed),
    }


async def _fill(
    held: MemoryStore, tenant: str, user: str, memories: Sequence[tuple[str, str]], settings: Settings
) -> None:
    embedded = await vectors(settings, "passage: ", [text for text, _ in memories])
    now = datetime.now(UTC)
    records = [
        MemoryRecord(
            id=str(uuid5(NAMESPACE_OID, f"{tenant}/{user}/{number}")),
            text=text,
            statement=statement,
            vector=embedded[number].values,
            created_at=now,
            stated_at=now,
            locale="en",
            message_id=str(number),
        )
        for number, (text, statement) in enumerate(memories)
    ]
    for start in range(0, len(records), WRITE_BATCH):
        await held.apply(Scope(tenant, user_id=user), records[start : start + WRITE_BATCH])


def _number(memory: Document) -> int:
    return int(memory.meta["message_id"])


def _covered(memories: Sequence[Document], facts: Sequence[Fact], evidence: frozenset[str]) -> float:
    cited = frozenset().union(*(facts[_number(memory)].cites for memory in memories))
    return len(cited & evidence) / len(evidence)


def _auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    wins = sum((own > other) + 0.5 * (own == other) for own in positive for other in negative)
    return round(wins / (len(positive) * len(negative)), 3)
