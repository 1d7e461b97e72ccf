"""The operators that weigh and sum: products, convolutions, recurrent layers, norms.

Knows what one such node does. Those that only move or map values are in onnx_ops.py, whose table these join.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from training.onnx_ops import OPERATORS, Place, Value, axes_of, on_device, operator

# Sums and products


def _reduce(name: str, torch_function: Callable[..., Any], numpy_function: Callable[..., Any]) -> None:
    def run(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
        axes, keep = axes_of(attributes, values), bool(attributes.get("keepdims", 1))
        axes = list(range(values[0].ndim)) if axes is None else axes
        if on_device(values[:1]):
            return torch_function(values[0], axes, keep)
        return np.asarray(numpy_function(values[0], tuple(axes), keepdims=keep))

    OPERATORS[name] = run


_reduce("ReduceMean", torch.mean, np.mean)
_reduce("ReduceSum", torch.sum, np.sum)
_reduce("ReduceMax", torch.amax, np.max)


@operator("CumSum")
def _cum_sum(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    return torch.cumsum(place.tensor(values[0]), int(np.asarray(values[1]).item()))


@operator("MatMul")
def _mat_mul(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    x, y = place.tensor(values[0]), place.tensor(values[1])
    return torch.matmul(x.transpose(-1, -2) if attributes.get("transA") else x, y)


OPERATORS["FusedMatMul"] = _mat_mul


@operator("Linear")
def _linear(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    """x [..., in], weight [out, in], bias [out]: a product and a sum of the file, joined by the rewriter."""
    return F.linear(place.tensor(values[0]), *(place.tensor(value) for value in values[1:]))


@operator("Conv")
def _conv(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    left, right = attributes.get("pads", [0, 0])
    x = place.tensor(values[0])
    if left != right:
        x, left = F.pad(x, (left, right)), 0
    bias = place.tensor(values[2]) if len(values) > 2 and values[2] is not None else None
    return F.conv1d(x, place.tensor(values[1]), bias, attributes.get("strides", [1]), left,
                    attributes.get("dilations", [1]), attributes.get("group", 1))


@operator("ConvTranspose")
def _conv_transpose(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    bias = place.tensor(values[2]) if len(values) > 2 else None
    return F.conv_transpose1d(place.tensor(values[0]), place.tensor(values[1]), bias, attributes["strides"],
                              attributes["pads"][0], attributes.get("output_padding", [0]), attributes["group"])


@operator("Polyphase")
def _polyphase(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    """A transposed convolution as a plain one with stride * channels outputs (see onnx_rewrite.polyphase)."""
    x, weight = place.tensor(values[0]), place.tensor(values[1])
    stride, (left, right) = attributes["stride"], attributes["pads"]
    taps, channels = weight.shape[-1], weight.shape[0] // stride
    y = F.conv1d(x, weight, padding=taps - 1)
    y = y.unflatten(1, (channels, stride)).transpose(2, 3).flatten(2)
    y = y[..., left : y.shape[-1] - right]
    return y + place.tensor(values[2])[:, None] if len(values) > 2 else y


@operator("STFT")
def _stft(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    """signal [1, samples, 1] -> [1, frames, bins, 2]."""
    step, length = int(np.asarray(values[1]).item()), int(np.asarray(values[3]).item())
    window = place.tensor(values[2])
    frames = place.tensor(values[0]).squeeze(-1).unfold(-1, length, step) * window
    return torch.view_as_real(torch.fft.rfft(frames, dim=-1))


@operator("LSTM")
def _lstm(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    """x [steps, batch, in] -> [steps, directions, batch, hidden]; begins at zero."""
    module = attributes["module"]
    y, _ = module(values[0])
    return y.unflatten(-1, (1 + module.bidirectional, -1)).transpose(1, 2)


# Norms


@operator("LayerNormalization")
def _layer_normalization(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    weight, bias = place.tensor(values[1]), place.tensor(values[2])
    return F.layer_norm(values[0], weight.shape, weight, bias, attributes["epsilon"])


@operator("SkipLayerNormalization")
def _skip_layer_normalization(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    return _layer_normalization(place, attributes, [values[0] + place.tensor(values[1]), *values[2:]])


@operator("InstanceNormalization")
def _instance_normalization(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    """Over time, x [1, channels, length]; weight and bias [channels] or none."""
    x = place.tensor(values[0])
    weight, bias = (place.tensor(value) for value in values[1:]) if len(values) > 1 else (None, None)
    return F.group_norm(x, x.shape[1], weight, bias, attributes["epsilon"])


@operator("Snake")
def _snake(place: Place, attributes: dict[str, Any], values: Sequence[Value]) -> Value:
    """x + sin(alpha x)^2 / alpha, with alpha and its inverse [1, channels, 1]."""
    x, alpha, inverse = (place.tensor(value) for value in values)
    wave = (x * alpha).sin_()
    return torch.addcmul(x, inverse, wave.mul_(wave))
