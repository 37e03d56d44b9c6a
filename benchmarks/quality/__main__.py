"""Measure all of it, and print the figures beside what plain methods reach on the same data."""

import asyncio
import time
from pathlib import Path
from typing import Any

from benchmarks.quality import __doc__ as description
from benchmarks.quality import documents, memories
from benchmarks.quality.parts import parts
from benchmarks.report import arguments, show, write
from contracts.settings import Settings

# Measured with plain methods on all questions of the same sets: BM25, cosine, and reciprocal rank fusion of both.
BASELINES: dict[str, dict[str, float]] = {
    "de-de": {"BM25": 89.3, "cosine": 90.9, "rank fusion": 91.1},
    "en-en": {"BM25": 92.6, "cosine": 93.1, "rank fusion": 93.4},
    "de-en": {"BM25": 37.7, "cosine": 83.9, "rank fusion": 57.1},
    "en-de": {"BM25": 31.9, "cosine": 83.9, "rank fusion": 53.7},
    "raw": {"BM25": 16.4, "cosine": 30.6, "rank fusion": 26.0},
    "inlined": {"BM25": 0.4, "cosine": 0.2, "rank fusion": 0.2},
    "gold": {"BM25": 67.6, "cosine": 79.6, "rank fusion": 77.0},
    "fact": {"BM25": 57.1, "cosine": 62.8, "rank fusion": 62.3},
    "fact_and_statement": {"cosine": 67.3, "rank fusion": 69.4},
    "auc_masked": {"cosine": 0.73},
}


def main() -> None:
    parser = arguments(description)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of the data")
    chosen = parser.parse_args()
    started = time.monotonic()
    with parts() as settings:
        figures = asyncio.run(measure(settings, chosen.data))
    show("Documents: R@1 (%)", {name: row | _baselines(name) for name, row in figures["xquad"].items()})
    for part, title in (
        ("canard", "Memory search with a follow-up question: R@5 (%)"),
        ("locomo", "Evidence in long-term memory: R@10 (%)"),
        ("gating", "Own memory against another user's, names masked"),
    ):
        show(title, {name: {"Hayrecall": value} | _baselines(name) for name, value in figures[part].items()})
    print(f"{time.monotonic() - started:.0f} s")
    write(chosen.json, figures)


def _baselines(name: str) -> dict[str, float]:
    return {f"{way}, measured before": value for way, value in BASELINES.get(name, {}).items()}


async def measure(settings: Settings, data: Path) -> dict[str, Any]:
    return {
        "xquad": await documents.measure(settings, data),
        "canard": await memories.measure_canard(settings, data),
        "locomo": await memories.measure_locomo(settings, data),
        "gating": await memories.measure_gating(settings, data),
    }


if __name__ == "__main__":
    main()
