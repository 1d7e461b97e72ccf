"""The official package on the same weights and the same lines, in the same process, by turns with ours.

Knows how `qwen-tts` is put together without files, how its talker is made to end lines where they are scripted, and
how its users group lines. Its parts that are not called here may be missing: empty modules take their place.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from rhapsode.bench.measure import BookRun
from rhapsode.bench.source import Source
from rhapsode.bench.stopwatch import Seconds
from rhapsode.bench.workload import batches
from rhapsode.errors import UserError
from rhapsode.qwen3.prompt import Prompt
from rhapsode.qwen3.torch.codec import CausalUpsample, CodecDecoder
from rhapsode.qwen3.torch.load import FORMATS, Model
from rhapsode.qwen3.torch.weights import Sources, codec_sources, decoder_tables, predictor_sources, talker_sources

TRANSFORMERS = "4.57.3"  # the version that qwen-tts 0.1.1 asks for; others fail while it is imported
# What the official package imports at its top and calls only for sound files, spectra and its other tokenizer.
_NOT_CALLED: dict[str, tuple[str, ...]] = {
    "librosa": (), "librosa.filters": ("mel",), "soundfile": (), "sox": (), "onnxruntime": (), "torchaudio": (),
    "torchaudio.compliance": (), "torchaudio.compliance.kaldi": (), "einops": ("rearrange", "repeat"),
}  # fmt: skip
ALONE = 2  # lines that are read one at a time, of more: a frame takes as long in any of them
Asked = tuple[Prompt, int]  # a line's prompt, and the frames that it is to have
_HEAD, _TAIL = 3, 5  # ids that its chat template puts before and after the text of a line


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    seconds: Seconds
    lines: int
    audio_s: float
    ratio: float  # seconds for a second of sound, over ours

    @property
    def rtf(self) -> float:
        return self.seconds.median / self.audio_s


@dataclass(frozen=True, slots=True)
class Against:
    version: str
    lines: int
    audio_s: float
    rows: tuple[Row, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "version": self.version, "lines": self.lines, "audio_s": self.audio_s,
            "rows": [
                {"name": row.name, "seconds": row.seconds.median, "spread": row.seconds.spread,
                 "lines": row.lines, "audio_s": row.audio_s, "rtf": row.rtf, "ratio": row.ratio}
                for row in self.rows
            ],
        }  # fmt: skip


def require_official() -> ModuleType:
    """The module `qwen_tts`. Raises `UserError` where it cannot be had."""
    try:
        found = importlib.metadata.version("transformers")
        importlib.metadata.version("qwen-tts")
    except importlib.metadata.PackageNotFoundError as error:
        raise UserError(
            f"--against official runs the package qwen-tts with transformers {TRANSFORMERS}; {error.name} is not "
            "installed."
        ) from None
    if found != TRANSFORMERS:
        raise UserError(f"--against official wants transformers {TRANSFORMERS}, not {found}: qwen-tts asks for it.")
    try:
        importlib.import_module("transformers")  # it looks for optional packages itself, and must not find empty ones
        for name, members in _NOT_CALLED.items():
            if not _is_there(name):
                _put_empty(name, members)
        return importlib.import_module("qwen_tts")
    except ImportError as error:
        raise UserError(f"--against official runs the package qwen-tts, which cannot be imported: {error}.") from None


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return True
    top = name.partition(".")[0]
    if top in sys.modules:
        return not hasattr(sys.modules[top], "_rhapsode_empty")
    return importlib.util.find_spec(top) is not None


def _put_empty(name: str, members: tuple[str, ...]) -> None:
    module = ModuleType(name)
    module.__dict__.update({member: None for member in members}, __path__=[], _rhapsode_empty=True)
    module.__spec__ = importlib.util.spec_from_loader(name, loader=None)
    parent, _, leaf = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], leaf, module)
    sys.modules[name] = module


class Official:
    """The official model over our weights: what has the same shape and type is shared, not copied.

    Its codec runs in the format of the talker, as it does for those who load the package in that format.
    """

    def __init__(self, source: Source, model: Model) -> None:
        package = require_official()
        dtype = FORMATS[model.format]
        core = importlib.import_module("qwen_tts.core")
        models = importlib.import_module("qwen_tts.core.models")
        model_json, codec_json = source.read_json()
        self._eos = source.model.talker.eos
        self._speaker = next(iter(source.model.talker.speakers), None)
        with _unfilled():
            build = models.Qwen3TTSForConditionalGeneration._from_config
            whole = build(models.Qwen3TTSConfig(**model_json), dtype=dtype, attn_implementation="sdpa")
            codec = core.Qwen3TTSTokenizerV2Model._from_config(
                core.Qwen3TTSTokenizerV2Config(**codec_json), dtype=dtype, attn_implementation="sdpa"
            )
        _adopt(whole, [(model.talker, talker_sources(model.talker)), (model.predictor, _predictor(model))], {}, dtype)
        # What is faster on a device keeps the decoder that it was made of.
        decoder = getattr(model.codec, "plain", model.codec)
        _adopt(codec, [(decoder, codec_sources(source.codec.decoder))], _tables(decoder, source), dtype)
        self.model = whole.to(model.device).eval()
        self.tokenizer = package.Qwen3TTSTokenizer()
        self.tokenizer.model, self.tokenizer.device = codec.to(model.device).eval(), torch.device(model.device)
        self.device = model.device

    @torch.inference_mode()
    def read(self, lines: Sequence[tuple[Prompt, int]]) -> list[int]:
        """One batch of prompts, each with its scripted frames, to sound; the samples of each line."""
        codes = self.codes(lines)
        waves, _ = self.tokenizer.decode([{"audio_codes": line} for line in codes])
        for line, (_, frames) in zip(codes, lines, strict=True):
            if len(line) != frames:
                raise RuntimeError(f"the official package made {len(line)} frames where {frames} were scripted")
        return [len(wave) for wave in waves]

    @torch.inference_mode()
    def inputs(self, lines: Sequence[tuple[Prompt, int]]) -> dict[str, Any]:
        """What its talker is given for a batch: rows of the prompts, their mask, what follows them."""
        talker, found = self.model.talker, dict[str, Any]()

        def keep(**given: Any) -> None:
            found.update(given)
            raise _Enough

        kept, talker.generate = talker.generate, keep
        try:
            self._ask(lines)
        except _Enough:
            return found
        finally:
            talker.generate = kept
        raise RuntimeError("the official package did not ask its talker for anything")

    @torch.inference_mode()
    def codes(self, lines: Sequence[tuple[Prompt, int]], **how: Any) -> list[Tensor]:
        """The codes of each line [frames, codebooks]; `how` changes what the official package samples by default."""
        talker, ends = self.model.talker, _Ends([frames for _, frames in lines], self._eos, self.device)
        transformers = importlib.import_module("transformers")
        kept = talker.generate
        talker.generate = partial(kept, logits_processor=transformers.LogitsProcessorList([ends]))
        try:
            return self._ask(lines, **how)
        finally:
            talker.generate = kept

    def _ask(self, lines: Sequence[tuple[Prompt, int]], **how: Any) -> list[Tensor]:
        codes: list[Tensor] = self.model.generate(
            input_ids=[self._ids(prompt) for prompt, _ in lines],
            instruct_ids=[None] * len(lines),
            speakers=[self._speaker] * len(lines),
            languages=["auto"] * len(lines),
            non_streaming_mode=True,
            max_new_tokens=max(frames for _, frames in lines) + 1,  # the last one is drawn and not decoded
            **how,
        )[0]
        return codes

    def _ids(self, prompt: Prompt) -> Tensor:
        text = prompt.text[prompt.shared : -2]  # without the end of the text and the row of the first code
        return torch.tensor([[*prompt.text[:_HEAD], *text, *[prompt.pad] * _TAIL]], device=self.device)


class _Enough(Exception):
    """What the talker is given is known."""


class _Ends:
    """A logits processor: no line ends before its scripted frame, and every line ends there."""

    def __init__(self, frames: list[int], eos: int, device: str) -> None:
        self._frames, self._eos = torch.tensor(frames, device=device), eos

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        over = (ids.shape[1] >= self._frames).unsqueeze(1)
        ends = torch.zeros_like(scores, dtype=torch.bool)
        ends[:, self._eos] = True
        return scores.masked_fill(over ^ ends, float("-inf")).masked_fill(over & ends, 0.0)


@contextmanager
def _unfilled() -> Iterator[None]:
    """Modules that are made meanwhile do not draw weights, which are given to them afterwards."""
    from transformers.modeling_utils import no_init_weights

    with no_init_weights():
        yield


def _predictor(model: Model) -> Sources:
    return predictor_sources(model.predictor)


def _tables(decoder: CodecDecoder, source: Source) -> dict[str, Tensor]:
    tables: dict[str, Tensor] = {}
    for table, (sums, usage) in zip(decoder.quantiser.tables, decoder_tables(source.codec.decoder), strict=True):
        tables[sums], tables[usage] = table.detach(), torch.ones(len(table), device=table.device)
    return tables


def _adopt(
    official: nn.Module, ours: Iterable[tuple[nn.Module, Sources]], more: Mapping[str, Tensor], dtype: torch.dtype
) -> None:
    """Put our tensors into an official module, as views where the type allows it."""
    shapes = {name: value.shape for name, value in official.state_dict().items()}
    found = {name: value.to(dtype) for name, value in more.items()}
    for module, sources in ours:
        for name, theirs in sources.items():
            owner, value = module.get_submodule(name.rpartition(".")[0]), module.get_parameter(name).detach()
            if isinstance(owner, CausalUpsample) and value.dim() == 2:
                value = value.unflatten(0, (-1, owner.out)).permute(2, 1, 0)
            for part, their in zip(value.split([shapes[n][0] for n in theirs]), theirs, strict=True):
                found[their] = part.reshape(shapes[their]).to(dtype)
    official.requires_grad_(False)  # a tensor that was made in inference mode cannot be given a gradient
    missing = official.load_state_dict(found, strict=False, assign=True).missing_keys
    wrong = [name for name in missing if not name.startswith("encoder.") and "input_proj" not in name]
    if wrong:
        raise RuntimeError(f"{len(wrong)} official tensors have no source, such as {wrong[0]}")


def compare(
    run: BookRun, source: Source, repeats: int, tick: Callable[[str], None], names: Sequence[str] = ("official",)
) -> Against:
    """Ours and those that are named, by turns: "official", one line at a time and in batches of as many lines as we
    have slots; "faster" in such batches."""
    # It has no eight-bit weights: against them it runs in the type that ours compute in.
    shared = run.model if run.model.format != "int8" else source.build(run.model.device, "bfloat16")
    official, slots = Official(source, shared), run.stepper.slots
    lines = [(reading.request.prompt, reading.request.cap) for reading in run.readings]
    short = [(prompt, min(3, frames)) for prompt, frames in lines[:slots]]
    work: dict[str, tuple[Sequence[Asked], Callable[[], object]]] = {"ours": (lines, run.once)}
    version = f"qwen-tts {importlib.metadata.version('qwen-tts')}, transformers {TRANSFORMERS}"
    if "official" in names:
        few = lines[:ALONE] if slots > 1 else lines
        work["official, one at a time"] = few, partial(_in_batches, official.read, few, 1)
        if slots > 1:
            in_all = partial(_in_batches, official.read, lines, slots)
            work[f"official, batches of {slots} in book order"] = lines, in_all
        official.read(short)
    if "faster" in names:
        from rhapsode.bench import faster

        other = faster.Faster(official, slots, lines)
        other.read(short)
        version += f", {faster.PACKAGE} {faster.VERSION}"
        in_all = partial(_in_batches, other.read, lines, slots)
        work[f"{faster.PACKAGE}, batches of {slots} in book order"] = lines, in_all
    rows = by_turns(work, run, repeats, tick)
    return Against(version, len(lines), run.workload.frames / run.codec.frame_rate, rows)


def _in_batches(read: Callable[[Sequence[Asked]], object], lines: Sequence[Asked], size: int) -> None:
    for group in batches(range(len(lines)), size):
        read([lines[n] for n in group])


def by_turns(
    work: Mapping[str, tuple[Sequence[Asked], Callable[[], object]]], run: BookRun, repeats: int,
    tick: Callable[[str], None],
) -> tuple[Row, ...]:  # fmt: skip
    """Each name's work once, then all again; "ours" is what the others are held against."""
    runs: dict[str, list[float]] = {name: [] for name in work}
    for number in range(repeats):
        for name, (_, read) in work.items():
            runs[name].append(run.watch.time(read)[0])
            tick(f"{name}, {number + 1} of {repeats}: {runs[name][-1]:.1f} s")
    audio = {name: sum(frames for _, frames in lines) / run.codec.frame_rate for name, (lines, _) in work.items()}
    rows = [Row(name, Seconds(tuple(runs[name])), len(work[name][0]), audio[name], 1.0) for name in work]
    ours = next(row.rtf for row in rows if row.name == "ours")
    return tuple(replace(row, ratio=row.rtf / ours) for row in rows)
