"""Put the memories that a search found into the order in which they help, and leave out what does not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from haystack import Document

from components.fusion import fuse
from components.language import detect_locale
from components.memory_relevance import FEWEST_TO_COMPARE, Background, relevance
from components.sparse_encoder import encode_passage, encode_question
from components.word_overlap import WordOverlap
from contracts.turn import Locale


@dataclass(frozen=True, kw_only=True)
class MemoryRanking:
    """
    Settings of the order and the selection.

    :param words_weight: What one point of BM25 counts against the whole spread of the cosines.
    :param min_score: Cosine below which a memory is left out.
    :param min_relevance: Log-odds below which a memory is left out; see `memory_relevance`.
    :param background: How the embedder's cosines lie.
    """

    words_weight: float
    min_score: float
    min_relevance: float
    background: Background

    def best(self, question: str, locale: Locale, found: Sequence[Document], *, top_k: int) -> list[Document]:
        """
        Order what was found for a question by meaning and words, each statement once.

        :param question: The condensed question.
        :param locale: Language of the question where none can be told.
        :param found: Memories by cosine, `meta` with `statement` and `locale`.
        :param top_k: Most memories to return.
        :returns: Memories, best first; `content` is the fact and, if it adds something, the statement it came from.
        """
        if not found:
            return []
        language = detect_locale(question, locale)
        overlap = _overlap(question, language, found)
        by_words = [replace(memory, score=score) for memory, score in zip(found, overlap.scores, strict=True)]
        ordered = fuse(found, by_words, top_k=len(found), words_weight=self.words_weight)
        kept = self._relevant(found, overlap, language)
        fit = [memory for memory in _each_statement_once(ordered) if memory.id in kept]
        return [_shown(memory) for memory in fit[:top_k]]

    def judge(self, question: str, locale: Locale, found: Sequence[Document]) -> list[float]:
        """
        Weigh what was found without leaving anything out.

        :returns: Log-odds of each memory, as `relevance` gives them.
        """
        overlap = _overlap(question, detect_locale(question, locale), found)
        return relevance([memory.score or 0.0 for memory in found], overlap.coverage, self.background)

    def _relevant(self, found: Sequence[Document], overlap: WordOverlap, language: Locale) -> set[str]:
        above = {memory.id for memory in found if (memory.score or 0.0) >= self.min_score}
        if len(found) < FEWEST_TO_COMPARE:
            return above
        judged = relevance([memory.score or 0.0 for memory in found], overlap.coverage, self.background)
        # Words cannot speak for a memory in another language; there the cosine alone decides.
        unfit = {
            memory.id
            for memory, log_odds in zip(found, judged, strict=True)
            if log_odds < self.min_relevance and _locale(memory, language) == language
        }
        return above - unfit


def _overlap(question: str, language: Locale, found: Sequence[Document]) -> WordOverlap:
    texts = [f"{memory.content}\n{memory.meta.get('statement') or ''}" for memory in found]
    terms = [encode_passage(text, _locale(memory, language)) for text, memory in zip(texts, found, strict=True)]
    return WordOverlap(encode_question(question, language), terms)


def _each_statement_once(memories: Sequence[Document]) -> list[Document]:
    """Put further facts from a statement that was shown already behind everything else."""
    first: list[Document] = []
    further: list[Document] = []
    seen: set[str] = set()
    for memory in memories:
        statement = memory.meta.get("statement") or memory.id
        (further if statement in seen else first).append(memory)
        seen.add(statement)
    return first + further


def _locale(memory: Document, otherwise: Locale) -> Locale:
    return memory.meta.get("locale") or otherwise


def _shown(memory: Document) -> Document:
    statement = (memory.meta.get("statement") or "").strip()
    text = (memory.content or "").strip()
    return replace(memory, content=f"{text} ({statement})" if statement and statement != text else text)
