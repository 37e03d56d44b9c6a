"""The encoder as an ONNX graph that multiplies in 8 bits, twice as fast as in 32."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hayrecall.local.embedder.graph import MICROSOFT, EncoderGraph
from hayrecall.local.embedder.weights import E5Weights

_LARGEST = 127
_ZERO = 128  # what stands for 0 in unsigned bytes
_GELU_LEAST = -0.17
_TINY = 1e-12  # keeps a row of zeros from being divided by zero
_SMOOTHING = 0.7  # how much of the difference between channels moves to the weights: the best of 0.3, 0.4, ... 0.7


@dataclass(frozen=True)
class Range:
    """
    Where the values of each channel lie.

    :param least: Shape [hidden].
    :param most: Shape [hidden].
    """

    least: NDArray[np.float32]
    most: NDArray[np.float32]


@dataclass(frozen=True)
class _Source:
    """What products begin with: bytes, the scale of each token, and what each channel was divided and lowered by."""

    values: str
    scale: str
    factors: NDArray[np.float32] | None = None
    middles: NDArray[np.float32] | None = None
    zero: str = "zero"


class EightBitGraph(EncoderGraph):
    """
    Builds the same encoder with weights and activations rounded to 8 bits; inputs and output are the same.

    A weight has a scale for its row, an activation one for its token, found as it comes. A few channels behind a layer
    norm are far from the others, and would cost those their precision: each is moved to its middle and divided by what
    it amounts to (as in Outlier Suppression+, Wei et al. 2023), and the weights and biases behind it make up for it.
    """

    def __init__(self, weights: E5Weights, ranges: Mapping[str, Range]) -> None:
        """
        Build it.

        :param weights: Weights to put in.
        :param ranges: What each layer norm gives, by its name.
        """
        self._ranges = ranges
        self._last_norm = ("", "")
        super().__init__(weights)

    def _build(self) -> None:
        self._constant("step", np.array(1 / _LARGEST, np.float32))
        self._constant("tiny", np.array(_TINY, np.float32))
        self._constant("one", np.array(1, np.float32))
        self._constant("zero", np.array(_ZERO, np.uint8))
        self._constant("half_step", np.array(1 / (2 * _LARGEST + 1), np.float32))
        self._constant("bottom", np.array(0, np.uint8))
        self._constant("gelu_least", np.array(_GELU_LEAST, np.float32))
        super()._build()

    def _layer(self, layer: str, hidden: str) -> str:
        shape = self._weights.shape
        source = self._smooth()
        query, key, value = (self._product(f"{layer}.{part}", source, shape.hidden) for part in "qkv")
        biases = np.concatenate([self._bias(f"{layer}.{part}", source) for part in "qkv"])
        attended = self._node(
            "MultiHeadAttention",
            [query, key, value, self._constant(f"{layer}.qkv.b", biases), "attended_tokens"],
            f"{layer}.attended",
            MICROSOFT,
            num_heads=shape.heads,
        )
        source = self._rounded(attended)
        projected = self._product(f"{layer}.ao", source, shape.hidden)
        hidden = self._norm(f"{layer}.aln", self._sum(f"{layer}.ao", projected, hidden, source))
        source = self._smooth()
        bias = self._constant(f"{layer}.fi.b", self._bias(f"{layer}.fi", source))
        inner = self._product(f"{layer}.fi", source, shape.hidden)
        gelu = self._node("BiasGelu", [inner, bias], f"{layer}.gelu", MICROSOFT)
        source = self._rounded_up(gelu)
        outer = self._product(f"{layer}.fo", source, shape.feed_forward)
        return self._norm(f"{layer}.oln", self._sum(f"{layer}.fo", outer, hidden, source))

    def _norm(self, name: str, source: str) -> str:
        self._last_norm = (name, source)
        return super()._norm(name, source)

    def _smooth(self) -> _Source:
        """Round what the last norm gives, its channels made alike."""
        norm, source = self._last_norm
        found = self._ranges[norm]
        middles = ((found.most + found.least) / 2).astype(np.float32)
        logarithms = _SMOOTHING * np.log(np.maximum((found.most - found.least) / 2, _TINY))
        factors = np.exp(logarithms - logarithms.mean()).astype(np.float32)
        weight = self._constant(f"{norm}.smooth_w", self._weights.vector(f"{norm}.w") / factors)
        bias = self._constant(f"{norm}.smooth_b", (self._weights.vector(f"{norm}.b") - middles) / factors)
        epsilon = self._weights.shape.epsilon
        smooth = self._node("LayerNormalization", [source, weight, bias], f"{norm}.smooth", axis=-1, epsilon=epsilon)
        return replace(self._rounded(smooth), factors=factors, middles=middles)

    def _rounded(self, source: str) -> _Source:
        size = self._node("Abs", [source], f"{source}.size")
        largest = self._node("ReduceMax", [size], f"{source}.largest", axes=[-1], keepdims=1)
        steps = self._node("Mul", [largest, "step"], f"{source}.steps")
        scale = self._node("Add", [steps, "tiny"], f"{source}.scale")
        scaled = self._node("Div", [source, scale], f"{source}.scaled")
        return _Source(self._node("QuantizeLinear", [scaled, "one", "zero"], f"{source}.bytes"), scale)

    def _rounded_up(self, gelu: str) -> _Source:
        """Round what is never below `_GELU_LEAST`, which leaves twice as many steps."""
        raised = self._node("Sub", [gelu, "gelu_least"], f"{gelu}.raised")
        largest = self._node("ReduceMax", [raised], f"{gelu}.largest", axes=[-1], keepdims=1)
        scale = self._node("Mul", [largest, "half_step"], f"{gelu}.scale")
        scaled = self._node("Div", [raised, scale], f"{gelu}.scaled")
        values = self._node("QuantizeLinear", [scaled, "one", "bottom"], f"{gelu}.bytes")
        return _Source(
            values, scale, zero="bottom", middles=np.full(self._weights.shape.feed_forward, _GELU_LEAST, np.float32)
        )

    def _product(self, name: str, source: _Source, width: int) -> str:
        weights = self._weights.matrix(f"{name}.w", width).in_full()
        if source.factors is not None:
            weights = weights * source.factors
        scales = np.abs(weights).max(axis=1) / _LARGEST
        rows = np.round(weights / scales[:, None]).astype(np.int8)
        inputs = [
            source.values,
            self._constant(f"{name}.w", rows.T),
            "one",
            self._constant(f"{name}.scales", scales.astype(np.float32)),
            source.zero,
        ]
        product = self._node("MatMulIntegerToFloat", inputs, f"{name}.product", MICROSOFT)
        return self._node("Mul", [product, source.scale], f"{name}.out")

    def _bias(self, name: str, source: _Source) -> NDArray[np.float32]:
        bias = self._weights.vector(f"{name}.b")
        if source.middles is None:
            return bias
        return bias + self._weights.matrix(f"{name}.w", len(source.middles)).in_full() @ source.middles

    def _sum(self, name: str, product: str, hidden: str, source: _Source) -> str:
        bias = self._constant(f"{name}.b", self._bias(name, source))
        return self._node("Add", [self._node("Add", [product, bias], f"{name}.biased"), hidden], f"{name}.sum")
