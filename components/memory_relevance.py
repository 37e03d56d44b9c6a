"""Judge whether what a search of memories found has to do with the question, or is only the nearest of the far."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST_TO_COMPARE = 30  # memories; fewer say nothing about what is usual for a question


@dataclass(frozen=True)
class Background:
    """
    How an embedder's cosines lie for questions and memories that have nothing to do with each other.

    Measured by `hayrecall calibrate`; the defaults are those of multilingual-e5-small.

    :param cosine: Their mean.
    :param spread: Their standard deviation, above 0.
    """

    cosine: float = 0.788
    spread: float = 0.026


# Logistic regression on five conversations of LoCoMo with all names masked: gold memories against the best of another
# user's. AUC 0.86 on the five others, where the cosine alone has 0.73 (`python -m benchmarks.quality`).
_INTERCEPT = -5.86
_COSINE = 0.12
_SPREAD = 6.69
_AGREEMENT = 3.08
_COVERAGE = 0.79
_BEST_COVERAGE = 1.99


def relevance(cosines: Sequence[float], coverage: Sequence[float], background: Background) -> list[float]:
    """
    Weigh each memory, and the whole of what was found with it.

    A question that the memories are about stands out: some are much nearer than the rest, the near ones hold more of
    its words than the far ones, and one holds many. A question about something else finds memories that are all about
    equally far. A cosine by itself tells neither.

    :param cosines: Those of the memories found, at least `FEWEST_TO_COMPARE`.
    :param coverage: Share of the question's words that each memory holds.
    :param background: Of the embedder.
    :returns: Log-odds that a memory has to do with the question, where half of the questions do.
    """
    near, held = np.asarray(cosines), np.asarray(coverage)
    agreement = float(np.corrcoef(near, held)[0, 1]) if near.std() and held.std() else 0.0
    shared = (
        _INTERCEPT + _SPREAD * near.std() / background.spread + _AGREEMENT * agreement + _BEST_COVERAGE * held.max()
    )
    own = _COSINE * (near - background.cosine) / background.spread + _COVERAGE * held
    return [float(value) for value in shared + own]
