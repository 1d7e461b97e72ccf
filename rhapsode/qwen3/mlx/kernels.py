"""Kernels of our own for a GPU: one body for Metal and CUDA, and how each language calls what the body needs.

Knows the words of both languages and how work is cut into blocks of threads. None is used but where `check.py` found
it right and faster on the spot: what a kernel declares and nobody supplies, or a size that it was not made for, fails
in silence. The plain twins are in `library.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

THREADS = 128  # of a block
TEAM = 32  # threads that add up together
LARGEST = 2**31 - 1  # places are counted in 32 bits
MOST_LANES = 32  # rows that share one read of the weights; more are for the library
LANES, OUTPUTS = 24, 2  # that a team works on at once
STEPS, OUTS, CHUNK = 64, 96, 16  # of a convolution: time steps and channels of a block, channels of a round


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the bodies call by our names: SHARED, WAIT, SINE, TOGETHER; me, block_x, block_y, block_z."""

    header: str
    prelude: str


METAL = Dialect(
    """
#define SHARED threadgroup
#define WAIT threadgroup_barrier(metal::mem_flags::mem_threadgroup)
#define SINE(x) metal::precise::sin(x)
#define TOGETHER(x) metal::simd_sum(x)
""",
    """
    const int me = int(thread_position_in_threadgroup.x);
    const int block_x = int(threadgroup_position_in_grid.x);
    const int block_y = int(threadgroup_position_in_grid.y);
    const int block_z = int(threadgroup_position_in_grid.z);
    (void)block_y; (void)block_z;
""",
)
CUDA = Dialect(
    """
#define SHARED __shared__
#define WAIT __syncthreads()
#define SINE(x) sinf(x)
#define TOGETHER(x) rhapsode_together(x)
__device__ inline float rhapsode_together(float x) {
    for (int apart = 16; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffffu, x, apart);
    return x;
}
""",
    """
    const int me = int(threadIdx.x);
    const int block_x = int(blockIdx.x);
    const int block_y = int(blockIdx.y);
    const int block_z = int(blockIdx.z);
    (void)block_y; (void)block_z;
""",
)
# One number for each thread. Channels lie side by side, so the channel of a number is the rest of its place.
_SNAKE = """
    const int place = block_x * THREADS + me;
    if (place >= count[0]) return;
    const int channel = place % C;
    const float wave = SINE(x[place] * alpha[channel]);
    y[place] = x[place] + wave * wave * height[channel];
"""
# A block makes STEPS times OUTS numbers, each of its threads 8 times 6, 8 steps and 16 channels apart. Sines are taken
# once for each number that a block reads, and all taps of the convolution read it where the threads share it.
_SNAKED = """
    constexpr int PAST = (K - 1) * D;
    SHARED float near[(STEPS + PAST) * CHUNK];
    SHARED float taps[CHUNK * (OUTS + 1)];
    const int time = size[0];
    const int first = block_x * STEPS, out_first = block_y * OUTS, row = block_z * time;
    const int line = me / 16, column = me % 16;
    float sums[8][6];
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 6; ++j) sums[i][j] = 0.0f;
    for (int begin = 0; begin < C; begin += CHUNK) {
        for (int i = me; i < (STEPS + PAST) * CHUNK; i += THREADS) {
            const int c = begin + i % CHUNK, t = first - PAST + i / CHUNK;
            float value = 0.0f;
            if (c < C && t >= 0 && t < time) {
                value = x[(row + t) * C + c];
                const float wave = SINE(value * alpha[c]);
                value += wave * wave * height[c];
            }
            near[i] = value;
        }
        for (int k = 0; k < K; ++k) {
            for (int i = me; i < CHUNK * OUTS; i += THREADS) {
                const int c = begin + i % CHUNK, o = out_first + i / CHUNK;
                taps[i % CHUNK * (OUTS + 1) + i / CHUNK] = c < C && o < O ? weight[(o * K + k) * C + c] : 0.0f;
            }
            WAIT;
            for (int c = 0; c < CHUNK; ++c) {
                float tap[6];
                for (int j = 0; j < 6; ++j) tap[j] = taps[c * (OUTS + 1) + column + 16 * j];
                for (int i = 0; i < 8; ++i) {
                    const float value = near[(line + 8 * i + k * D) * CHUNK + c];
                    for (int j = 0; j < 6; ++j) sums[i][j] += value * tap[j];
                }
            }
            WAIT;
        }
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 6; ++j) {
            const int t = first + line + 8 * i, o = out_first + column + 16 * j;
            if (t < time && o < O) y[(row + t) * O + o] = sums[i][j];
        }
"""
# A team makes OUTPUTS numbers of each of LANES rows: it reads a word of weights once and uses it for all of them.
_SHARED_READ = """
    constexpr int EACH = 32 / BITS, WORDS = INTO / EACH, GROUPS = INTO / GROUP;
    constexpr unsigned int MASK = (1u << BITS) - 1u;
    const int turn = me % TEAM, out = (block_x * (THREADS / TEAM) + me / TEAM) * OUTPUTS, lane = block_y * LANES;
    if (out >= OUT) return;
    float sums[OUTPUTS][LANES];
    for (int r = 0; r < OUTPUTS; ++r)
        for (int l = 0; l < LANES; ++l) sums[r][l] = 0.0f;
    for (int word = turn; word < WORDS; word += TEAM) {
        float weight[OUTPUTS][EACH];
        for (int r = 0; r < OUTPUTS; ++r) {
            const int row = out + r < OUT ? out + r : OUT - 1;
            const unsigned int bits = packed[row * WORDS + word];
            const float scale = float(scales[row * GROUPS + word * EACH / GROUP]);
            const float offset = float(offsets[row * GROUPS + word * EACH / GROUP]);
            for (int e = 0; e < EACH; ++e) weight[r][e] = scale * float((bits >> (BITS * e)) & MASK) + offset;
        }
        for (int l = 0; l < LANES; ++l) {
            const int from = (lane + l < ALL ? lane + l : ALL - 1) * INTO + word * EACH;
            for (int e = 0; e < EACH; ++e) {
                const float value = float(x[from + e]);
                for (int r = 0; r < OUTPUTS; ++r) sums[r][l] += weight[r][e] * value;
            }
        }
    }
    for (int r = 0; r < OUTPUTS; ++r)
        for (int l = 0; l < LANES; ++l) {
            const float sum = TOGETHER(sums[r][l]);
            if (turn == 0 && out + r < OUT && lane + l < ALL) y[(lane + l) * OUT + out + r] = T(sum);
        }
"""
BODIES: dict[str, tuple[tuple[str, ...], str]] = {  # name -> the inputs that it declares, its body
    "snake": (("x", "alpha", "height", "count"), _SNAKE),
    "snaked_convolution": (("x", "alpha", "height", "weight", "size"), _SNAKED),
    "shared_read": (("x", "packed", "scales", "offsets"), _SHARED_READ),
}


def snake(x: mx.array, alpha: mx.array, height: mx.array) -> mx.array:
    """SnakeBeta in one pass: x + sin(alpha x)^2 height, for float32 x [.., channels].

    Raises `RuntimeError` where there is no GPU that kernels are written for, or for what they are not written for.
    """
    channels = x.shape[-1]
    _require(x, alpha, height)
    _shaped((channels,), alpha, height)
    given = {"x": x, "alpha": alpha, "height": height, "count": mx.array([x.size], mx.int32)}
    return _launch("snake", given, {"C": channels, "THREADS": THREADS}, (-(-x.size // THREADS), 1, 1), x.shape, x.dtype)


def snaked_convolution(
    x: mx.array, alpha: mx.array, height: mx.array, weight: mx.array, dilation: int
) -> mx.array:  # fmt: skip
    """A causal convolution of SnakeBeta, float32 x [rows, time, into] and weight [out, kernel, into], in one pass.

    -> [rows, time, out]. Raises as `snake` does.
    """
    (rows, time, into), (out, kernel, _) = x.shape, weight.shape
    _require(x, alpha, height, weight)
    _shaped((into,), alpha, height)
    _shaped((out, kernel, into), weight)
    given = {"x": x, "alpha": alpha, "height": height, "weight": weight, "size": mx.array([time], mx.int32)}
    sizes = {"C": into, "O": out, "K": kernel, "D": dilation}
    sizes |= {"THREADS": THREADS, "STEPS": STEPS, "OUTS": OUTS, "CHUNK": CHUNK}
    blocks = -(-time // STEPS), -(-out // OUTS), rows
    return _launch("snaked_convolution", given, sizes, blocks, (rows, time, out), mx.float32)


def shared_read(
    x: mx.array, packed: mx.array, scales: mx.array, offsets: mx.array, bits: int, group: int
) -> mx.array:  # fmt: skip
    """x [..., into], at most MOST_LANES rows, times the transpose of quantised weights [out, into] -> [..., out].

    Weights in groups that share a scale and an offset; they are read once for all rows. Raises as `snake` does.
    """
    (into, out), each = (x.shape[-1], packed.shape[0]), 32 // bits
    rows = x.size // into
    if rows > MOST_LANES or into % group or group % each:
        raise RuntimeError(f"{rows} rows of {into} with {bits} bits are not what this kernel is written for.")
    _shaped((out, into // each), packed)
    _shaped((out, into // group), scales, offsets)
    if packed.dtype != mx.uint32 or {scales.dtype, offsets.dtype} != {x.dtype}:
        raise RuntimeError("The types of weights, scales and rows do not fit together.")
    given = {"x": x, "packed": packed, "scales": scales, "offsets": offsets}
    lanes = min(rows, LANES)
    sizes: dict[str, Any] = {"T": x.dtype, "BITS": bits, "INTO": into, "OUT": out, "ALL": rows, "GROUP": group}
    sizes |= {"THREADS": THREADS, "TEAM": TEAM, "LANES": lanes, "OUTPUTS": OUTPUTS}
    blocks = -(-out // (THREADS // TEAM * OUTPUTS)), -(-rows // lanes), 1
    return _launch("shared_read", given, sizes, blocks, (*x.shape[:-1], out), x.dtype)


def _require(*arrays: mx.array) -> None:
    if any(array.dtype != mx.float32 for array in arrays):
        raise RuntimeError("This kernel is written for float32.")


def _shaped(shape: tuple[int, ...], *arrays: mx.array) -> None:
    for array in arrays:
        if array.shape != shape:
            raise RuntimeError(f"An array of shape {array.shape} was given where {shape} is read.")


def _launch(
    name: str, given: Mapping[str, mx.array], sizes: Mapping[str, Any], blocks: Sequence[int],
    shape: tuple[int, ...], dtype: mx.Dtype,
) -> mx.array:  # fmt: skip
    """One array, written by blocks of threads."""
    declared = BODIES[name][0]
    if tuple(given) != declared:
        raise RuntimeError(f"{name} declares {declared} and is given {tuple(given)}.")
    largest = max(array.size for array in given.values())
    made = 1
    for length in shape:
        made *= length
    if max(largest, made) > LARGEST:
        raise RuntimeError(f"{name} counts places in 32 bits.")
    (found,) = _made(name)(
        inputs=list(given.values()), template=list(sizes.items()),
        grid=(blocks[0] * THREADS, blocks[1], blocks[2]), threadgroup=(THREADS, 1, 1),
        output_shapes=[shape], output_dtypes=[dtype],
    )  # fmt: skip
    return found


_kernels: dict[str, Callable[..., Any]] = {}


def _made(name: str) -> Callable[..., Any]:
    """A kernel in the language of this device, made once."""
    if name not in _kernels:
        metal = mx.metal.is_available()
        make: Callable[..., Any] = mx.fast.metal_kernel if metal else mx.fast.cuda_kernel
        dialect, (inputs, body) = METAL if metal else CUDA, BODIES[name]
        _kernels[name] = make(
            name=f"rhapsode_{name}", input_names=list(inputs), output_names=["y"],
            header=dialect.header, source=dialect.prelude + body,
        )  # fmt: skip
    return _kernels[name]
