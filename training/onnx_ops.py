"""The operators of the two teachers' graphs, each in a few lines of torch or, for shape arithmetic, numpy.

Knows what one node does with its inputs. Knows nothing of order, memory or files: onnx_graph.py runs the nodes,
onnx_rewrite.py replaces groups of them. A value is a torch tensor on the device or a numpy array on the host;
a node of which all inputs are on the host stays there, so that shapes never wait for an accelerator.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

Value = Any  # torch.Tensor, numpy.ndarray or, for an input that is left out, None
HOST_LIMIT = 4096  # elements; a larger constant is made on the device, for copying it there costs more than making it


@dataclass(frozen=True)
class Node:
    """One operator: its name, the names of inputs ("" = left out) and outputs, and its attributes."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


class Place:
    """Where tensors live, the float type of the moment, and small host arrays that were already copied there."""

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self.float = torch.float32
        self._copies: dict[tuple[str, tuple[int, ...], bytes], torch.Tensor] = {}

    def tensor(self, value: Value) -> torch.Tensor:
        """`value` as a tensor on the device; a host array is copied there once and then remembered."""
        if isinstance(value, torch.Tensor):
            return value
        array = np.ascontiguousarray(value)
        if array.size > HOST_LIMIT:
            return self._typed(torch.from_numpy(array).to(self.device))
        key = (array.dtype.str, np.shape(value), array.tobytes())
        if key not in self._copies:
            self._copies[key] = torch.tensor(array, device=self.device).reshape(np.shape(value))
        return self._typed(self._copies[key])

    def _typed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.float) if tensor.dtype == torch.float32 else tensor

    def operand(self, value: Value) -> Any:
        """As `tensor`, but a host array of one element becomes a plain number, which needs no copy at all."""
        if isinstance(value, np.ndarray | np.generic) and value.size == 1 and value.ndim == 0:
            return value.item()
        return self.tensor(value)


Operator = Callable[[Place, dict[str, Any], Sequence[Value]], Any]
OPERATORS: dict[str, Operator] = {}


def operator(*names: str) -> Callable[[Operator], Operator]:
    def register(function: Operator) -> Operator:
        for name in names:
            OPERATORS[name] = function
        return function

    return register


def on_device(values: Sequence[Value]) -> bool:
    return any(isinstance(value, torch.Tensor) for value in values)


def integers(value: Value) -> list[int]:
    """A shape-like input as plain integers. From a device tensor this waits for the device."""
    if isinstance(value, torch.Tensor):
        value = value.cpu().numpy()
    return [int(v) for v in np.atleast_1d(value)]


def _either(name: str, torch_function: Callable[..., Any], numpy_function: Callable[..., Any] | None) -> None:
    """Registers an element-wise operator that has a form for the device and one for the host."""

    def run(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
        if on_device(values) or numpy_function is None:
            operands = [place.operand(value) for value in values]
            return torch_function(*operands)
        return np.asarray(numpy_function(*values))

    OPERATORS[name] = run


def _divide(x: Any, y: Any) -> Any:
    whole = isinstance(x, torch.Tensor) and not x.is_floating_point()
    return torch.div(x, y, rounding_mode="trunc") if whole else x / y


def _host_divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x // y if np.issubdtype(np.asarray(x).dtype, np.integer) else x / y


def _atan(x: torch.Tensor) -> torch.Tensor:
    return torch.atan(x).nan_to_num_(0.0)  # the phase of nothing, 0 / 0, is 0


for _name, _torch, _numpy in (
    ("Add", lambda x, y: x + y, np.add), ("Sub", lambda x, y: x - y, np.subtract),
    ("Mul", lambda x, y: x * y, np.multiply), ("Div", _divide, _host_divide),
    ("Pow", lambda x, y: x**y, np.power), ("Equal", lambda x, y: x == y, np.equal),
    ("Less", lambda x, y: x < y, np.less), ("LessOrEqual", lambda x, y: x <= y, np.less_equal),
    ("Greater", lambda x, y: x > y, np.greater), ("GreaterOrEqual", lambda x, y: x >= y, np.greater_equal),
    ("And", torch.logical_and, np.logical_and), ("Not", torch.logical_not, np.logical_not),
    ("Sqrt", torch.sqrt, np.sqrt), ("Exp", torch.exp, np.exp), ("Neg", torch.neg, np.negative),
    ("Ceil", torch.ceil, np.ceil), ("Floor", torch.floor, np.floor), ("Round", torch.round, np.round),
    ("Sin", torch.sin, np.sin), ("Cos", torch.cos, np.cos), ("Atan", _atan, np.arctan),
    ("Tanh", torch.tanh, np.tanh), ("Erf", torch.erf, None), ("Sigmoid", torch.sigmoid, None),
    ("Relu", torch.relu, None), ("Softplus", F.softplus, None),
):
    _either(_name, _torch, _numpy)


@operator("Where")
def _where(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    if not on_device(values):
        return np.where(*values)
    return torch.where(place.tensor(values[0]), place.operand(values[1]), place.operand(values[2]))


@operator("Cast")
def _cast(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    types = {1: (np.float32, place.float), 6: (np.int32, torch.int32), 7: (np.int64, torch.int64),
             9: (np.bool_, torch.bool)}
    host, device = types[attributes["to"]]
    return values[0].to(device) if on_device(values) else np.asarray(values[0]).astype(host)


@operator("Clip")
def _clip(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    low, high = ([*values[1:], None, None])[:2]
    bounds = [None if bound is None else np.asarray(bound).item() for bound in (low, high)]
    return values[0].clamp(*bounds) if on_device(values) else np.clip(values[0], *bounds)


@operator("LeakyRelu")
def _leaky_relu(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    return F.leaky_relu(place.tensor(values[0]), attributes.get("alpha", 0.01))


@operator("FastGelu")
def _fast_gelu(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    x = values[0] if len(values) == 1 else values[0] + place.tensor(values[1])
    return F.gelu(x, approximate="tanh")


@operator("Softmax")
def _softmax(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    return torch.softmax(values[0], attributes.get("axis", -1))


@operator("RandomNormalLike")
def _random_normal_like(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    return torch.randn_like(place.tensor(values[0]), dtype=place.float)


# Shapes and indices


@operator("Shape")
def _shape(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    return np.asarray(values[0].shape[attributes.get("start", 0) : attributes.get("end")], dtype=np.int64)


@operator("Reshape")
def _reshape(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    old = values[0].shape
    keep = not attributes.get("allowzero", 0)
    return values[0].reshape([old[i] if n == 0 and keep else n for i, n in enumerate(integers(values[1]))])


def axes_of(attributes: dict[str, Any], values: Sequence[Value]) -> list[int] | None:
    """Axes came as an attribute in older operator sets, as the second input in newer ones."""
    if "axes" in attributes:
        return [int(a) for a in attributes["axes"]]
    return integers(values[1]) if len(values) > 1 and values[1] is not None else None


@operator("Unsqueeze")
def _unsqueeze(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    axes = axes_of(attributes, values) or []
    x = values[0]
    for axis in sorted(axis % (np.ndim(x) + len(axes)) for axis in axes):
        x = x.unsqueeze(axis) if isinstance(x, torch.Tensor) else np.expand_dims(x, axis)
    return x


@operator("Squeeze")
def _squeeze(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    x, axes = values[0], axes_of(attributes, values)
    for axis in sorted((a % x.ndim for a in axes or [i for i, n in enumerate(x.shape) if n == 1]), reverse=True):
        x = x.squeeze(axis)
    return x


@operator("Transpose")
def _transpose(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    order = attributes["perm"]
    return values[0].permute(*order) if on_device(values) else np.transpose(values[0], order)


@operator("Concat")
def _concat(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    axis = attributes["axis"]
    if not on_device(values):
        return np.concatenate(values, axis)
    return torch.cat([place.tensor(value) for value in values], axis)


@operator("Split")
def _split(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    sizes = attributes["split"] if "split" in attributes else integers(values[1])
    return torch.split(place.tensor(values[0]), list(sizes), attributes.get("axis", 0))


@operator("Slice")
def _slice(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    x = values[0]
    starts, ends = integers(values[1]), integers(values[2])
    axes = integers(values[3]) if len(values) > 3 and values[3] is not None else list(range(len(starts)))
    steps = integers(values[4]) if len(values) > 4 else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        begin, stop, _ = slice(start, end, step).indices(x.shape[axis])
        if step < 0 and end < -x.shape[axis]:
            stop = -1
        if isinstance(x, torch.Tensor) and step < 0:
            if (begin, stop, step) != (x.shape[axis] - 1, -1, -1):
                raise NotImplementedError("only a whole axis is reversed on the device")
            x = x.flip(axis)
            continue
        last = None if step < 0 and stop < 0 else stop
        x = x[(slice(None),) * (axis % x.ndim) + (slice(begin, last, step),)]
    return x


@operator("Gather")
def _gather(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    x, index = values
    axis = attributes.get("axis", 0)
    if not on_device(values):
        return np.take(x, index, axis)
    x = place.tensor(x)
    axis %= x.ndim
    if not isinstance(index, torch.Tensor) and np.ndim(index) == 0:
        return x.select(axis, int(index))
    index = place.tensor(index)
    return x.index_select(axis, index.reshape(-1)).reshape(x.shape[:axis] + index.shape + x.shape[axis + 1 :])


@operator("GatherElements")
def _gather_elements(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    return torch.gather(place.tensor(values[0]), attributes.get("axis", 0), place.tensor(values[1]))


def _points(place: Place, index: Value) -> tuple[torch.Tensor, ...]:
    """The last axis of `index` holds the coordinates: one tensor of positions for each."""
    if index.shape[-1] == 0:
        raise NotImplementedError("an index without coordinates")
    return place.tensor(index).unbind(-1)


@operator("GatherND")
def _gather_nd(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    return place.tensor(values[0])[_points(place, values[1])]


@operator("ScatterND")
def _scatter_nd(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    return place.tensor(values[0]).index_put(_points(place, values[1]), place.tensor(values[2]))


@operator("NonZero")
def _non_zero(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    return values[0].nonzero().t() if on_device(values) else np.asarray(np.nonzero(values[0]), dtype=np.int64)


@operator("Range")
def _range(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    start, end, step = (value.item() for value in values)
    if (end - start) / step > HOST_LIMIT or on_device(values):
        return torch.arange(start, end, step, device=place.device)
    return np.arange(start, end, step)


@operator("ConstantOfShape")
def _constant_of_shape(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    shape, value = integers(values[0]), attributes["value"].reshape(())
    if np.prod(shape) <= HOST_LIMIT:
        return np.full(shape, value)
    dtype = place.float if value.dtype == np.float32 else torch.from_numpy(np.array(value)).dtype
    return torch.full(shape, value.item(), dtype=dtype, device=place.device)


@operator("Expand")
def _expand(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    shape = np.broadcast_shapes(tuple(values[0].shape), tuple(integers(values[1])))
    if not on_device(values) and np.prod(shape) <= HOST_LIMIT:
        return np.broadcast_to(values[0], shape)
    return place.tensor(values[0]).expand(shape)


@operator("Pad")
def _pad(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    pads = integers(values[1])
    half = len(pads) // 2
    flat = [side for axis in reversed(range(half)) for side in (pads[axis], pads[axis + half])]
    mode = attributes.get("mode", "constant")
    while mode != "constant" and flat[-2:] == [0, 0]:
        flat = flat[:-2]  # torch reflects only the last axes, and wants no word about the others
    number = np.asarray(values[2]).item() if len(values) > 2 and values[2] is not None else 0
    return F.pad(place.tensor(values[0]), flat, mode, number if mode == "constant" else None)


@operator("Resize")
def _resize(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    """Along the last axis of [1, channels, length], by a whole factor when repeating."""
    x, scale = values[0], float(np.asarray(values[2])[-1])
    if attributes.get("mode") == "nearest":
        return x.repeat_interleave(round(scale), -1, output_size=x.shape[-1] * round(scale))
    return F.interpolate(x, scale_factor=scale, mode="linear", align_corners=False, recompute_scale_factor=False)
