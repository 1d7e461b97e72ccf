"""What the weights of talker and predictor are kept in, and the products that go with it.

Knows the formats by the names that users type, and eight-bit weights. Knows no device but what a format needs of one.

`int8` keeps a weight as eight bits and a scale for each of its rows, and turns each row of what comes in into eight
bits with a scale of its own: the product is then exact in integers, so that a lane's result is the same to the bit in
any company. Computed where the processor has eight-bit dot products, through oneDNN.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

# What rows are computed in; `int8` is about weights, its rows are those of bfloat16.
FORMATS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.bfloat16}
_LARGEST = 127
_ZERO = 128  # unsigned rows are what the library is fast with
_LEAST = 1e-12  # a row of zeros has no scale
_AT_ONCE = 1 << 20  # weights that are wide at the same time while they become narrow


def has_int8() -> bool:
    """Whether this build of PyTorch has the products that `int8` is made of."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.onednn, "qlinear_pointwise")


class Int8Linear(nn.Module):
    """A linear layer with eight-bit weights: [..., into] -> [..., out] in the type that came in."""

    def __init__(self, weight: Tensor) -> None:
        """weight [out, into] of any float type, on the CPU."""
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.scale, whole = torch.empty(self.out_features), torch.empty(weight.shape, dtype=torch.int8)
        step = max(1, _AT_ONCE // self.in_features)
        for start in range(0, self.out_features, step):
            rows = slice(start, start + step)
            wide = weight.detach()[rows].float()
            self.scale[rows] = (wide.abs().amax(1) / _LARGEST).clamp(min=_LEAST)
            whole[rows] = (wide / self.scale[rows].unsqueeze(1)).round_()
        self.packed = torch.ops.onednn.qlinear_prepack(whole, None)
        self.points = torch.zeros(self.out_features, dtype=torch.int32)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features).float()
        scale = rows.abs().amax(1, keepdim=True).div_(_LARGEST).clamp_(min=_LEAST)
        # Positive after the shift, so that the cut to whole numbers rounds.
        whole = (rows / scale).add_(_ZERO + 0.5).to(torch.uint8)
        made = torch.ops.onednn.qlinear_pointwise(
            whole, 1.0, _ZERO, self.packed, self.scale, self.points, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return made.mul_(scale).to(x.dtype).view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}"


def shrink(module: nn.Module, weight: str) -> None:
    """Put eight bits in place of the linear layer that has a weight of this name, if every frame reads it.

    Those are the layers without a bias of both trunks and the predictor's heads. The talker's head stays: it is read
    once a frame, and chooses what is said.
    """
    name, _, leaf = weight.rpartition(".")
    layer = module.get_submodule(name)
    if leaf == "weight" and isinstance(layer, nn.Linear) and layer.bias is None and name != "head":
        owner, _, child = name.rpartition(".")
        setattr(module.get_submodule(owner), child, Int8Linear(layer.weight))


def shrink_all(module: nn.Module) -> None:
    """`shrink` for a talker or a predictor whose weights are all there."""
    for name in [name for name, _ in module.named_parameters()]:
        shrink(module, name)
