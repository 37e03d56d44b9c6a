"""Join what was found by meaning and by words into one order that is no worse than the better of the two."""

from collections.abc import Sequence
from dataclasses import replace

from haystack import Document


def fuse(
    by_meaning: Sequence[Document],
    by_words: Sequence[Document],
    *,
    top_k: int,
    words_weight: float,
    words_half_at: float = 0.0,
) -> list[Document]:
    """
    Add to each passage's cosine, scaled to 0..1 over what was found, its BM25 score times a weight.

    BM25 scores are not scaled: they are small where question and passages share little more than stop words or are
    written in different languages, so that the words then hardly move the order by meaning. Ranks, which reciprocal
    rank fusion adds, cannot tell that. A single word in common is often chance (a title, a cognate), so small
    scores can be made to count even less. After the convex combination with a theoretical minimum of Bruch, Gai and
    Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval" (2023).

    :param by_meaning: Passages by cosine, best first; empty if there was no embedding.
    :param by_words: Passages by BM25, best first.
    :param top_k: Most passages to return.
    :param words_weight: What one point of BM25 counts against the whole spread of the cosines.
    :param words_half_at: BM25 score that counts half; smaller ones count less than that, larger ones nearly in full. 0
        to count all in full.
    :returns: Passages, best first. `score` is the cosine, for one found by words only the lowest cosine that was found;
        without any cosines the BM25 score relative to the best one.
    """
    if not by_meaning:
        best = max((document.score or 0.0 for document in by_words), default=0.0) or 1.0
        return [replace(document, score=(document.score or 0.0) / best) for document in by_words[:top_k]]
    cosines = {document.id: document.score or 0.0 for document in by_meaning}
    words = {document.id: document.score or 0.0 for document in by_words}
    lowest, highest = min(cosines.values()), max(cosines.values())
    spread = (highest - lowest) or 1.0
    found = {document.id: document for document in (*by_words, *by_meaning)}

    def fused(document_id: str) -> float:
        meaning = (cosines.get(document_id, lowest) - lowest) / spread
        score = words.get(document_id, 0.0)
        return meaning + words_weight * (score * score / (score + words_half_at) if score else 0.0)

    order = sorted(found, key=lambda document_id: (-fused(document_id), document_id))[:top_k]
    return [replace(found[document_id], score=cosines.get(document_id, lowest)) for document_id in order]
