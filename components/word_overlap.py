"""What question and candidates have in common by words, weighed by how rare a word is among the candidates."""

import math
from collections.abc import Sequence

from haystack.dataclasses import SparseEmbedding


class WordOverlap:
    """
    Compares the terms of a question with those of the candidates of one search.

    ### Usage example

    ```python
    from components.sparse_encoder import encode_passage, encode_question
    from components.word_overlap import WordOverlap

    memories = ["Likes green tea", "Lives in Bern", "Works in Bern"]
    overlap = WordOverlap(
        encode_question("Which tea do I like?", "en"), [encode_passage(memory, "en") for memory in memories]
    )
    assert overlap.scores[0] > overlap.scores[1] == 0.0
    assert overlap.coverage == [1.0, 0.0, 0.0]
    ```
    """

    def __init__(self, question: SparseEmbedding, candidates: Sequence[SparseEmbedding]) -> None:
        """
        Compare.

        :param question: Terms of the question.
        :param candidates: Saturated term frequencies of each candidate.
        """
        weights = [dict(zip(candidate.indices, candidate.values, strict=True)) for candidate in candidates]
        rarity = {}
        for term in question.indices:
            holding = sum(term in held for held in weights)
            rarity[term] = math.log(1 + (len(weights) - holding + 0.5) / (holding + 0.5))
        whole = sum(rarity.values()) or 1.0
        #: BM25 of each candidate.
        self.scores = [sum(rarity[term] * held.get(term, 0.0) for term in rarity) for held in weights]
        #: Share of the question's terms, weighed by rarity, that each candidate holds.
        self.coverage = [sum(rarity[term] for term in rarity if term in held) / whole for held in weights]
