"""`rhapsode doctor`: what this machine is, which devices and formats there are, and whether its libraries are right.

Knows which room to ask, and asks none before it is needed: where MLX reads, torch is never imported.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rhapsode import __version__, machine
from rhapsode.errors import UserError
from rhapsode.qwen3.backends import MLX, backend_of
from rhapsode.qwen3.checkpoint import embedded_checkpoint, open_checkpoint
from rhapsode.qwen3.config import CodecConfig, ModelConfig, codec_config, model_config
from rhapsode.qwen3.trials import Device, Trial

PACKAGES = ("mlx", "torch", "numpy", "safetensors", "tokenizers", "av")
GB = 1e9
_TRIED = "the sizes of 1.7B"  # where no checkpoint is named or embedded


@dataclass(frozen=True, slots=True)
class Findings:
    system: Mapping[str, str | int]
    memory_bytes: int | None
    packages: Mapping[str, str]  # "" for what is not installed
    sizes: str  # whose sizes were tried
    device: Device

    @property
    def bad(self) -> list[Trial]:
        """Tasks that no way does right."""
        return [trial for trial in self.device.trials if not trial.taken]

    def as_json(self) -> dict[str, Any]:
        device = self.device
        return {
            "rhapsode": __version__, "system": dict(self.system), "memory_bytes": self.memory_bytes,
            "packages": dict(self.packages), "sizes": self.sizes, "device": device.name, "hardware": device.hardware,
            "device_memory_bytes": device.memory_bytes, "formats": list(device.formats), "format": device.format,
            "slots": device.slots, "checks": [trial.as_json() for trial in device.trials],
            "notes": list(device.notes), "right": not self.bad,
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        system, device = self.system, self.device
        yield f"rhapsode {__version__}, Python {system['python']}, {system['system']} on {system['machine']}"
        yield f"{system['processor']}, {system['cores']} cores, {_size(self.memory_bytes)} of memory"
        yield "packages: " + ", ".join(f"{name} {found or 'not installed'}" for name, found in self.packages.items())
        yield f"device: {device.name} ({device.hardware}), {_size(device.memory_bytes)} for it, {device.slots} slots"
        yield f"formats: {', '.join(device.formats)}; tried in {device.format} at {self.sizes}"
        width = max(len(trial.task) for trial in device.trials)
        for trial in device.trials:
            state = "wrong" if not trial.taken else "slow " if trial.wrong else "right"
            yield f"  {state}  {trial.task.ljust(width)}  {trial.size}: {_ways(trial)}"
        yield from (f"note: {note}" for note in device.notes)
        slow = sum(bool(trial.wrong) for trial in device.trials) - len(self.bad)
        yield f"{len(device.trials)} checks, {len(self.bad)} wrong" + (f", {slow} by a slower way" if slow else "")


def doctor(
    device: str = "auto", format: str = "auto", checkpoint: str | None = None, slots: int | None = None
) -> Findings:
    """Look at this machine. Raises `UserError` for a device, format or checkpoint that there is not."""
    if slots is not None and slots < 1:
        raise UserError(f"--slots must be 1 or more, not {slots}.")
    sizes, model, codec = _configuration(checkpoint)
    if backend_of(device) == MLX:
        from rhapsode.qwen3.mlx.doctor import examine
    else:
        from rhapsode.qwen3.torch.doctor import examine
    return Findings(
        {
            "system": f"{platform.system()} {platform.release()}", "machine": platform.machine(),
            "processor": machine.processor(), "cores": machine.cores(), "python": platform.python_version(),
        },
        machine.total_bytes(),
        {name: _version(name) for name in PACKAGES},
        sizes,
        examine(model, codec, device, format, slots),
    )  # fmt: skip


def _configuration(checkpoint: str | None) -> tuple[str, ModelConfig, CodecConfig]:
    folder = Path(checkpoint) if checkpoint is not None else embedded_checkpoint()
    if folder is not None:
        opened = open_checkpoint(folder)
        return opened.name, opened.model, opened.codec
    from rhapsode.bench.shapes import CODEC, PUBLISHED

    file = Path("config.json")
    return _TRIED, model_config(PUBLISHED["1.7b"](), file), codec_config(CODEC, file)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _size(count: int | None) -> str:
    return "unknown" if count is None else f"{count / GB:.1f} GB"


def _ways(trial: Trial) -> str:
    def one(name: str) -> str:
        error, seconds = trial.errors[name], trial.seconds.get(name)
        found = name + (f" off by {error:.1g}" if error else " exact")
        return found + (f", {1e3 * seconds:.3g} ms" if seconds is not None else "")

    names: Sequence[str] = list(trial.errors)
    said = "; ".join(one(name) for name in names)
    return said if len(names) == 1 else f"{said}; {trial.taken or 'none'} is taken"
