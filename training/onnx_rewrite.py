"""Rewrites a teacher's graph into one with far fewer, larger nodes that give the same sound.

Knows patterns: what a quantiser, a norm over time or a snake activation looks like after export. Knows nothing of
devices. Each function takes a model and gives a new one; nodes that then serve nothing go in `prune`.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from training.onnx_ops import Node


@dataclass(frozen=True)
class Model:
    """Nodes in an order in which they can run; constants by name (arrays, or tensors once placed)."""

    nodes: tuple[Node, ...]
    constants: dict[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Links:
    """Who makes a value, and who reads it."""

    def __init__(self, model: Model) -> None:
        self.constants = model.constants
        self.maker = {name: node for node in model.nodes for name in node.outputs if name}
        self.readers: dict[str, list[Node]] = defaultdict(list)
        for node in model.nodes:
            for name in node.inputs:
                self.readers[name].append(node)
        self._outputs = set(model.outputs)

    def only(self, name: str, op: str) -> Node | None:
        """The only reader of `name`, if there is just one, it is an `op`, and nobody outside wants the value."""
        readers = self.readers[name]
        return readers[0] if len(readers) == 1 and readers[0].op == op and name not in self._outputs else None

    def made(self, name: str, op: str) -> Node | None:
        node = self.maker.get(name)
        return node if node is not None and node.op == op else None

    def other(self, node: Node, name: str) -> str:
        """The other input of a node of two inputs."""
        first, second = node.inputs
        return second if first == name else first

    def number(self, name: str) -> float | None:
        """The value of a constant of one element."""
        value = self.constants.get(name)
        return None if value is None or np.prod(tuple(value.shape)) != 1 else float(value.reshape(-1)[0])


def prune(model: Model) -> Model:
    """Without the nodes and constants that no output needs."""
    wanted, kept = set(model.outputs), []
    for node in reversed(model.nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(node.inputs)
    constants = {name: value for name, value in model.constants.items() if name in wanted}
    return replace(model, nodes=tuple(reversed(kept)), constants=constants)


def _swapped(model: Model, swaps: dict[int, Node], constants: dict[str, Any]) -> Model:
    """`model` with some nodes, named by id(), exchanged: the new one stands where the old one stood."""
    nodes = tuple(swaps.get(id(node), node) for node in model.nodes)
    return prune(replace(model, nodes=nodes, constants=model.constants | constants))


def dequantise(model: Model) -> Model:
    """Integer products, convolutions, look-ups and recurrent layers become float ones; no rounding remains.

    The weights are what the integers stand for; inputs are no longer rounded to 8 bits, and biases no longer to
    whole steps, so the result is closer to the network that was quantised than the quantised one is.
    """
    links = Links(model)
    swaps: dict[int, Node] = {}
    constants: dict[str, Any] = {}
    for node in model.nodes:
        if node.op in ("MatMulInteger", "ConvInteger"):
            _float_product(node, links, swaps, constants)
        elif node.op == "DequantizeLinear":
            _float_table(node, links, swaps, constants)
        elif node.op == "DynamicQuantizeLSTM":
            swaps[id(node)] = replace(node, op="LSTM", inputs=node.inputs[:1], outputs=node.outputs[:1],
                                      attributes={"module": _lstm(node, model.constants)})
    return _swapped(model, swaps, constants)


def _float_product(node: Node, links: Links, swaps: dict[int, Node], constants: dict[str, Any]) -> None:
    """x_int, w_int -> [+ bias / scale, rounded] -> Cast -> * scale, all in one node."""
    source = links.maker[node.inputs[0]].inputs[0]
    name = node.inputs[1]
    weight = links.constants[name].astype(np.float32) - links.constants[node.inputs[3]].astype(np.float32)
    value, bias = node.outputs[0], None
    add = links.only(value, "Add")
    if add is not None:
        value, rounded = add.outputs[0], links.other(add, value)
        while rounded not in links.constants:  # Reshape, Cast, Floor and Div: the first input leads to the bias
            rounded = links.maker[rounded].inputs[0]
        bias = rounded
    cast = links.only(value, "Cast")
    scale_node = None if cast is None else links.only(cast.outputs[0], "Mul")
    if cast is None or scale_node is None:
        raise NotImplementedError(f"an integer product that is not scaled afterwards: {node.outputs[0]}")
    scales = links.maker[links.other(scale_node, cast.outputs[0])]
    scale = next(links.constants[n] for n in scales.inputs if n in links.constants)
    if node.op == "ConvInteger":
        weight = weight * scale.reshape(-1, 1, 1)
        new = Node("Conv", (source, f"{name}:float", *([bias] if bias else [])), scale_node.outputs, node.attributes)
    else:
        weight = weight * scale
        new = Node("MatMul", (source, f"{name}:float"), scale_node.outputs)
    constants[f"{name}:float"] = weight.astype(np.float32)
    swaps[id(scale_node)] = new


def _float_table(node: Node, links: Links, swaps: dict[int, Node], constants: dict[str, Any]) -> None:
    """Rows looked up as integers and scaled afterwards become rows of a float table."""
    gather = links.made(node.inputs[0], "Gather")
    if gather is None:
        raise NotImplementedError(f"a scaled value that is not looked up: {node.outputs[0]}")
    table, scale, zero = (links.constants[n] for n in (gather.inputs[0], *node.inputs[1:3]))
    name = f"{gather.inputs[0]}:float"
    constants[name] = (table.astype(np.float32) - zero.astype(np.float32)) * scale
    swaps[id(node)] = Node("Gather", (name, gather.inputs[1]), node.outputs, gather.attributes)


def _lstm(node: Node, constants: dict[str, Any]) -> torch.nn.LSTM:
    """Weights [directions, in, 4 hidden], gates in the order input, output, forget, cell; torch has i, f, c, o."""
    if any(np.any(constants[n]) for n in node.inputs[5:7] if n in constants):
        raise NotImplementedError("a recurrent layer that does not begin at zero")
    hidden = node.attributes["hidden_size"]
    weight = {}
    for name, at, scales in (("ih", 1, 8), ("hh", 2, 10)):
        scale, zero = (constants[node.inputs[i]].astype(np.float32) for i in (scales, scales + 1))
        values = constants[node.inputs[at]].astype(np.float32)
        weight[name] = (values - zero.reshape(-1, 1, 1)) * scale.reshape(len(values), 1, -1)
    bias = constants[node.inputs[3]]
    directions = len(bias)
    module = torch.nn.LSTM(weight["ih"].shape[1], hidden, bidirectional=directions == 2)
    order = np.r_[0:hidden, 2 * hidden : 4 * hidden, hidden : 2 * hidden]
    for d, suffix in enumerate(("", "_reverse")[:directions]):
        for part, values in (("weight_ih", weight["ih"][d].T[order]), ("weight_hh", weight["hh"][d].T[order]),
                             ("bias_ih", bias[d, : 4 * hidden][order]), ("bias_hh", bias[d, 4 * hidden :][order])):
            getattr(module, f"{part}_l0{suffix}").data = torch.from_numpy(np.ascontiguousarray(values))
    return module.requires_grad_(False).eval()


def polyphase(model: Model) -> Model:
    """Transposed convolutions whose kernel is a multiple of their stride become plain ones of kernel / stride taps.

    Output sample u * stride + r is the sum over taps j of x[u - j] * w[:, :, r + j * stride]: a convolution with
    stride * channels outputs that are then interleaved. The plain kernels are many times faster than the transposed.
    """
    swaps: dict[int, Node] = {}
    constants: dict[str, Any] = {}
    for node in model.nodes:
        weight = model.constants.get(node.inputs[1]) if node.op == "ConvTranspose" else None
        if weight is None or node.attributes.get("group", 1) != 1:
            continue
        (stride,), pads = node.attributes["strides"], node.attributes["pads"]
        extra = node.attributes.get("output_padding", [0])[0]
        if weight.shape[2] % stride or extra > pads[1]:
            continue
        name = f"{node.inputs[1]}:phases"
        taps = weight.reshape(*weight.shape[:2], -1, stride)[:, :, list(reversed(range(weight.shape[2] // stride)))]
        flat = torch.as_tensor(taps).permute(1, 3, 0, 2).reshape(weight.shape[1] * stride, weight.shape[0], -1)
        constants[name] = flat.contiguous()
        swaps[id(node)] = Node("Polyphase", (node.inputs[0], name, *node.inputs[2:]), node.outputs,
                               {"stride": stride, "pads": [pads[0], pads[1] - extra]})
    return _swapped(model, swaps, constants)


def fuse_norms(model: Model) -> Model:
    """(x - mean) / sqrt(var + eps) over time, then * gamma + beta where these are constant: one node instead of 9."""
    links = Links(model)
    swaps: dict[int, Node] = {}
    constants: dict[str, Any] = {}
    for node in model.nodes:
        found = _norm(node, links) if node.op == "Div" else None
        if found is None:
            continue
        source, epsilon = found
        attributes = {"epsilon": epsilon}
        ends = [_affine(mul, node.outputs[0], links) for mul in links.readers[node.outputs[0]]]
        if ends and None not in ends:
            for end, gamma, beta in (e for e in ends if e is not None):
                names = []
                for name in (gamma, beta):
                    names.append(f"{name}:flat")
                    constants[names[-1]] = model.constants[name].reshape(-1)
                swaps[id(end)] = Node("InstanceNormalization", (source, *names), end.outputs, attributes)
        else:
            swaps[id(node)] = Node("InstanceNormalization", (source,), node.outputs, attributes)
    return _swapped(model, swaps, constants)


def _norm(div: Node, links: Links) -> tuple[str, float] | None:
    """The input and epsilon of a norm over the last axis that ends in `div`."""
    root, centred = links.made(div.inputs[1], "Sqrt"), links.made(div.inputs[0], "Sub")
    total = None if root is None else links.made(root.inputs[0], "Add")
    if total is None or centred is None:
        return None
    square = next((m for m in (links.made(n, "ReduceMean") for n in total.inputs) if m is not None), None)
    epsilon = next((e for e in map(links.number, total.inputs) if e is not None), None)
    mean = links.made(centred.inputs[1], "ReduceMean")
    if square is None or epsilon is None or mean is None or mean.inputs[0] != centred.inputs[0]:
        return None
    product = links.made(square.inputs[0], "Mul")
    same = product is not None and product.inputs == (centred.outputs[0],) * 2
    last = all(links.number(n.inputs[1]) in (-1, 2) for n in (mean, square) if len(n.inputs) > 1)
    return (centred.inputs[0], epsilon) if same and last and len(mean.inputs) > 1 else None


def _affine(mul: Node, value: str, links: Links) -> tuple[Node, str, str] | None:
    """The sum that ends `value * gamma + beta`, if gamma and beta are constants of one number per channel."""
    if mul.op != "Mul" or mul.inputs == (value, value):
        return None
    gamma, add = links.other(mul, value), links.only(mul.outputs[0], "Add")
    if add is None or gamma not in links.constants:
        return None
    beta = links.other(add, mul.outputs[0])
    per_channel = all(n in links.constants and len(links.constants[n].shape) == 3 and links.constants[n].shape[2] == 1
                      and links.constants[n].shape[0] == 1 for n in (gamma, beta))
    return (add, gamma, beta) if per_channel else None


def fuse_snakes(model: Model) -> Model:
    """x + sin(alpha x)^2 / alpha: one node instead of five."""
    links = Links(model)
    swaps: dict[int, Node] = {}
    for node in model.nodes:
        found = None
        if node.op == "Add":
            found = _first(_snake(name, links.other(node, name), links) for name in node.inputs)
        if found is not None:
            swaps[id(node)] = Node("Snake", found, node.outputs)
    return _swapped(model, swaps, {})


def _snake(value: str, wave: str, links: Links) -> tuple[str, str, str] | None:
    scaled = links.made(wave, "Mul")
    if scaled is None:
        return None
    inverse = _first(n for n in scaled.inputs if n in links.constants)
    power = _first(links.made(n, "Pow") for n in scaled.inputs)
    if inverse is None or power is None or links.number(power.inputs[1]) != 2:
        return None
    sine = links.made(power.inputs[0], "Sin")
    inner = None if sine is None else links.made(sine.inputs[0], "Mul")
    if inner is None or value not in inner.inputs:
        return None
    alpha = links.other(inner, value)
    return (value, alpha, inverse) if alpha in links.constants else None


def _first(found: Iterable[Any]) -> Any:
    return next((item for item in found if item is not None), None)
