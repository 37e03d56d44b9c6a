"""Turn text into BM25 term weights, offline, with the stemming of its language."""

from functools import cache

from haystack.dataclasses import SparseEmbedding
from qdrant_edge import Bm25, Bm25Config

from contracts.turn import Locale

_LANGUAGES: dict[Locale, str] = {"de": "german", "fr": "french", "it": "italian", "en": "english"}


@cache
def _encoder(locale: Locale) -> Bm25:
    return Bm25(Bm25Config(language=_LANGUAGES[locale]))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")  # the encoder raises on a lone surrogate


def encode_passage(text: str, locale: Locale) -> SparseEmbedding:
    """
    Weigh the terms of a passage; the store adds how rare each of them is.

    :param text: The passage.
    :param locale: Its language: stop words go, and inflected forms of a word become one term.
    :returns: Saturated term frequencies, as in BM25 with k1 1.2, b 0.75 and an average length of 256 terms; empty for
        a text without terms.
    """
    vector = _encoder(locale).embed_document(_encodable(text))
    return SparseEmbedding(indices=list(vector.indices), values=list(vector.values))


def encode_question(text: str, locale: Locale) -> SparseEmbedding:
    """
    Give the terms of a question.

    :param text: The condensed question.
    :param locale: Its language.
    :returns: Each different term with weight 1; empty for a text without terms.
    """
    vector = _encoder(locale).embed_query(_encodable(text))
    return SparseEmbedding(indices=list(vector.indices), values=list(vector.values))
