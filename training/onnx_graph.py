"""Runs an ONNX graph node by node with torch, on any device.

Knows the order of the nodes, how long each value must live, which part may run in half precision, and how to work
out once what depends on constants alone. Knows nothing of any teacher. Only the operators in onnx_ops.py and
onnx_layers.py exist.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from training import onnx_rewrite
from training.onnx_layers import OPERATORS
from training.onnx_ops import Node, Place, Value
from training.onnx_rewrite import Model

HOST_FLOATS = 32  # a float constant of at most this many elements stays on the host beside the shapes
_RANDOM = {"RandomNormalLike"}


def read(source: Path | bytes) -> Model:
    """A file, or the bytes of one. Half-precision constants become float32; needs the package `onnx`."""
    onnx, numpy_helper = import_module("onnx"), import_module("onnx.numpy_helper")  # needed only where a file is read
    proto = onnx.load_model_from_string(source) if isinstance(source, bytes) else onnx.load(source)

    def plain(attribute: Any) -> Any:
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            return numpy_helper.to_array(value)
        if isinstance(value, bytes):
            return value.decode()
        return list(value) if hasattr(value, "__len__") and not isinstance(value, str) else value

    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    nodes = []
    for node in proto.graph.node:
        attributes = {attribute.name: plain(attribute) for attribute in node.attribute}
        if node.op_type == "Constant":
            constants[node.output[0]] = np.asarray(attributes["value"])
        else:
            nodes.append(Node(node.op_type, tuple(node.input), tuple(node.output), attributes))
    inputs = tuple(value.name for value in proto.graph.input if value.name not in constants)
    return Model(tuple(nodes), constants, inputs, tuple(value.name for value in proto.graph.output))


class Graph:
    """A model that is ready to run.

    outputs: names of the values to give back; the model's own if left out.
    given: inputs that will never change; what depends on them alone is worked out now.
    half: the first node that reads a value with the first text in its name starts the half-precision part, and the
    first one after it that reads one with the second text ends it (None: to the end). None: no such part.
    """

    def __init__(self, model: Model, device: torch.device | str, *, outputs: Sequence[str] = (),
                 given: Mapping[str, np.ndarray] | None = None, half: tuple[str, str | None] | None = None) -> None:
        self._place = Place(device)
        constants = dict(model.constants) | dict(given or {})
        model = replace(model, outputs=tuple(outputs) or model.outputs, constants=constants)
        model = onnx_rewrite.dequantise(onnx_rewrite.prune(model))
        model = self._fold(replace(model, constants={k: self._settled(v) for k, v in model.constants.items()}))
        for rewrite in (onnx_rewrite.polyphase, onnx_rewrite.fuse_norms, onnx_rewrite.fuse_snakes):
            model = rewrite(model)
        self.nodes = model.nodes
        self.outputs = model.outputs
        self._constants = model.constants
        for node in self.nodes:
            if "module" in node.attributes:
                node.attributes["module"].to(self._place.device).flatten_parameters()
        self._half = self._half_part(half)
        self._halved = self._half_constants()
        self._dead = self._last_uses()

    def _settled(self, value: Value) -> Value:
        if isinstance(value, np.ndarray) and value.dtype == np.float16:
            value = value.astype(np.float32)
        floating = isinstance(value, np.ndarray) and value.dtype == np.float32 and value.size > HOST_FLOATS
        return torch.tensor(value, device=self._place.device) if floating else value

    @torch.no_grad()
    def _fold(self, model: Model) -> Model:
        """Without the nodes of which all inputs are known."""
        constants, left = dict(model.constants), []
        for node in model.nodes:
            if node.op in _RANDOM or any(name and name not in constants for name in node.inputs):
                left.append(node)
                continue
            constants.update(self._run(node, constants))
        return onnx_rewrite.prune(replace(model, nodes=tuple(left), constants=constants))

    def _run(self, node: Node, values: Mapping[str, Value]) -> dict[str, Value]:
        if node.op not in OPERATORS:
            raise NotImplementedError(f"operator {node.op}")
        result = OPERATORS[node.op](self._place, node.attributes, [values[n] if n else None for n in node.inputs])
        many = result if isinstance(result, list | tuple) else (result,)
        return dict(zip(node.outputs, many, strict=True))

    def _half_part(self, half: tuple[str, str | None] | None) -> range:
        if half is None:
            return range(0)

        def first(text: str, start: int) -> int:
            for at, node in enumerate(self.nodes[start:], start):
                if any(text in name for name in node.inputs):
                    return at
            raise ValueError(f"no node reads a value with {text!r} in its name")

        start = first(half[0], 0)
        return range(start, len(self.nodes) if half[1] is None else first(half[1], start))

    def _half_constants(self) -> dict[str, torch.Tensor]:
        names = {name for at in self._half for name in self.nodes[at].inputs}
        return {name: value.half() for name, value in self._constants.items()
                if name in names and isinstance(value, torch.Tensor) and value.dtype == torch.float32}

    def _last_uses(self) -> list[list[str]]:
        """For each node the values that nothing reads after it."""
        last: dict[str, int] = {}
        for at, node in enumerate(self.nodes):
            last.update({name: at for name in (*node.outputs, *node.inputs)})
        dead: list[list[str]] = [[] for _ in self.nodes]
        for name, at in last.items():
            if name and name not in self._constants and name not in self.outputs:
                dead[at].append(name)
        return dead

    @torch.no_grad()
    def __call__(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """Inputs by name, arrays (stay on the host) or tensors; the wanted values by name."""
        values: dict[str, Value] = dict(self._constants)
        values.update({k: v.to(self._place.device) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()})
        for at, node in enumerate(self.nodes):
            if self._half and at == self._half.start:
                self._change(values, torch.float32, torch.float16)
            if self._half and at == self._half.stop:
                self._change(values, torch.float16, torch.float32)
            values.update(self._run(node, values))
            for name in self._dead[at]:
                values.pop(name, None)
        if self._half and self._half.stop == len(self.nodes):
            self._change(values, torch.float16, torch.float32)
        return {name: values[name] for name in self.outputs}

    def _change(self, values: dict[str, Value], old: torch.dtype, new: torch.dtype) -> None:
        """Every float value that is alive changes its type; constants have a copy in both."""
        self._place.float = new
        for name, value in values.items():
            if name not in self._constants and isinstance(value, torch.Tensor) and value.dtype == old:
                values[name] = value.to(new)
        values.update(self._halved if new == torch.float16 else {name: self._constants[name] for name in self._halved})

    def device_nodes(self) -> int:
        """How many nodes work on tensors rather than on shapes, roughly: those that lead to no shape arithmetic."""
        host = {name for name, value in self._constants.items() if not isinstance(value, torch.Tensor)} | {""}
        count = 0
        for node in self.nodes:
            if node.op in ("Shape", "ConstantOfShape", "Range") or all(name in host for name in node.inputs):
                host.update(node.outputs)
            else:
                count += 1
        return count
