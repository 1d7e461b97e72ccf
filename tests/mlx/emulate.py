"""A GPU's place taken by threads of the processor: the body of a kernel as it would be sent, compiled as C++ and run.

Knows the few words of Metal and CUDA that our bodies use. A place beyond an input or the output is found, and what
nobody writes stays NaN.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

COMPILER = shutil.which("g++") or shutil.which("clang++")
_HEADER = "emulated.h"  # what all of them include, which takes longer to read than they do
_TYPES = {mx.float32: "float", mx.int32: "int", mx.uint32: "unsigned int"}
_WORDS = """
#include <barrier>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>
#include <atomic>
struct Place { unsigned x, y, z; };
static std::atomic<bool> strayed;
template <typename N> struct Held {
    N* at; long size; N nothing{};
    N& operator[](long place) {
        if (place >= 0 && place < size) return at[place];
        strayed = true;
        return nothing;
    }
};
static std::barrier<>* everyone;
static std::unique_ptr<std::barrier<>> teams[32];
static float offered[32][32];
static thread_local Place thread_place, block_place;
static float from_team(float mine, int other) {
    const int team = thread_place.x / 32, turn = thread_place.x % 32;
    offered[team][turn] = mine;
    teams[team]->arrive_and_wait();
    const float found = offered[team][other];
    teams[team]->arrive_and_wait();
    return found;
}
"""
_METAL = """
#define threadgroup static
#define thread_position_in_threadgroup thread_place
#define threadgroup_position_in_grid block_place
namespace metal {
    enum class mem_flags { mem_threadgroup };
    namespace precise { static float sin(float x) { return std::sin(x); } }
    static void threadgroup_barrier(mem_flags) { everyone->arrive_and_wait(); }
    static float simd_sum(float x) {
        float sum = 0;
        for (int other = 0; other < 32; ++other) sum += from_team(x, other);
        return sum;
    }
}
"""
_CUDA = """
#define __shared__ static
#define __device__ static
#define threadIdx thread_place
#define blockIdx block_place
static void __syncthreads() { everyone->arrive_and_wait(); }
static float __shfl_xor_sync(unsigned, float x, int apart) { return from_team(x, (thread_place.x % 32) ^ apart); }
"""
_RUN = """
extern "C" bool run(void** in, long* sizes, unsigned gx, unsigned gy, unsigned gz, unsigned threads) {
    for (unsigned z = 0; z < gz; ++z) for (unsigned y = 0; y < gy; ++y) for (unsigned x = 0; x < gx; ++x) {
        std::barrier<> all(threads);
        everyone = &all;
        for (unsigned t = 0; t < threads; t += 32) teams[t / 32] = std::make_unique<std::barrier<>>(32);
        std::vector<std::thread> running;
        for (unsigned t = 0; t < threads; ++t) running.emplace_back([=, &all] {
            thread_place = {t, 0, 0}; block_place = {x, y, z};
            body(CALL);
            all.arrive_and_drop();
        });
        for (auto& one : running) one.join();
    }
    return strayed;
}
"""


def maker(folder: Path, metal: bool, launches: list[str]) -> Callable[..., Any]:
    """In the place of `mx.fast.metal_kernel` or `cuda_kernel`. Notes the names of what is launched."""

    def make(*, name: str, input_names: list[str], output_names: list[str], header: str, source: str) -> Any:
        def launch(**call: Any) -> list[mx.array]:
            launches.append(name)
            text = _program(metal, header, source, input_names, output_names[0], call)
            library = _compiled(folder, text)
            return [_run(library, call)]

        return launch

    return make


def _program(metal: bool, header: str, source: str, inputs: list[str], output: str, call: dict[str, Any]) -> str:
    held = [*((array.dtype, name) for array, name in zip(call["inputs"], inputs, strict=True))]
    held.append((call["output_dtypes"][0], output))
    kinds = [f"Held<{_TYPES[dtype]}> {name}" for dtype, name in held]
    constants = [
        f"constexpr int {name} = {value};" if isinstance(value, int) else f"using {name} = {_TYPES[value]};"
        for name, value in call["template"]
    ]
    given = [f"{{({_TYPES[dtype]}*)in[{n}], sizes[{n}]}}" for n, (dtype, _) in enumerate(held)]
    body = f"static void body({', '.join(kinds)}) {{\n" + "\n".join(constants) + source + "}\n"
    dialect = f'#include "{_HEADER}"\n' + (_METAL if metal else _CUDA)
    return dialect + header + body + _RUN.replace("CALL", ", ".join(given))


def _compiled(folder: Path, text: str) -> ctypes.CDLL:
    if not (folder / _HEADER).exists():
        (folder / _HEADER).write_text(_WORDS, encoding="utf-8")
        if COMPILER is not None and COMPILER.endswith("g++"):  # which finds by itself what it has read before
            _compile("-x", "c++-header", str(folder / _HEADER))
    stem = folder / hashlib.sha256(text.encode()).hexdigest()[:16]
    if not stem.with_suffix(".so").exists():
        stem.with_suffix(".cpp").write_text(text, encoding="utf-8")
        _compile("-shared", str(stem.with_suffix(".cpp")), "-o", str(stem.with_suffix(".so")))
    return ctypes.CDLL(str(stem.with_suffix(".so")))


def _compile(*words: str) -> None:
    assert COMPILER is not None
    flags = ["-std=c++20", "-O1", "-fPIC", "-pthread", "-Wall", "-Wno-unused-function", "-Werror"]
    done = subprocess.run([COMPILER, *flags, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _run(library: ctypes.CDLL, call: dict[str, Any]) -> mx.array:
    grid, block = call["grid"], call["threadgroup"]
    assert all(length % size == 0 for length, size in zip(grid, block, strict=True))
    (shape,) = call["output_shapes"]
    held = [*(np.array(array) for array in call["inputs"]), np.full(shape, np.nan, np.float32)]
    pointers = (ctypes.c_void_p * len(held))(*(array.ctypes.data for array in held))
    sizes = (ctypes.c_long * len(held))(*(array.size for array in held))
    blocks = [length // size for length, size in zip(grid, block, strict=True)]
    library.run.restype = ctypes.c_bool
    assert not library.run(pointers, sizes, *blocks, block[0]), "a place beyond an array was asked for"
    return mx.array(held[-1])
