"""Recordings of the product's own sentences for `rhapsode verify --recordings`: a teacher's, and the codec's of them.

`python -m training.recordings teacher --voice joe --teachers FOLDER --out FOLDER` lets a teacher speak (and needs
espeak, as `training.prepare` does); `... codec --checkpoint FOLDER --recordings FOLDER --out FOLDER` turns recordings
into codes and back. With the checkpoint's own reading these are the three figures of a voice: how well its teacher is
understood, what the codec costs, and what the talker adds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from rhapsode.audio.wave import to_pcm, wav_header
from rhapsode.verify.recordings import find_recordings, read_recordings
from rhapsode.verify.sentences import read_sentences
from training.layout import SAMPLE_RATE


def teacher(voice: str, style: str, teachers: Path, out: Path, device: str) -> None:
    """Every sentence as `NUMBER.wav` in the teacher's voice, cut and levelled as what the networks learned from."""
    from training.phonemes import Espeak, read_vocabularies
    from training.prepare import tracks_of
    from training.teachers import Joe, Kokoro

    vocabularies = read_vocabularies()
    which = ("joe", "kokoro").index(voice)
    espeak, sentences = Espeak(), read_sentences()
    ids = [tracks_of(sentence.text, espeak, vocabularies)[which].ids for sentence in sentences]
    speaker = Joe(teachers, device) if voice == "joe" else Kokoro(teachers, style, device)
    for start in range(0, len(sentences), 16):
        part = sentences[start : start + 16]
        for sentence, spoken in zip(part, speaker.speak(ids[start : start + 16]), strict=True):
            _write(out, sentence.number, spoken.samples.cpu().numpy())


def codec(checkpoint: Path, recordings: Path, out: Path, device: str) -> None:
    """Every recording as codes and back."""
    from rhapsode.qwen3.checkpoint import open_checkpoint
    from rhapsode.qwen3.torch.load import load_codec_encoder
    from rhapsode.qwen3.torch.weights import load_codec

    opened = open_checkpoint(checkpoint, str(checkpoint))
    encoder, decoder = load_codec_encoder(opened, device), load_codec(opened, torch.device(device))
    sentences = read_sentences()
    files = find_recordings(recordings, sentences)
    for sentence, (wave, rate) in zip(sentences, read_recordings(files), strict=True):
        if rate != SAMPLE_RATE:
            raise ValueError(f"{recordings} is at {rate} Hz; the codec hears {SAMPLE_RATE}")
        with torch.inference_mode():
            codes = encoder(torch.from_numpy(wave).to(device).unsqueeze(0))
            made = decoder(codes)[0, : len(wave)]
        _write(out, sentence.number, made.cpu().numpy())


def _write(out: Path, number: int, wave: np.ndarray) -> None:
    out.mkdir(parents=True, exist_ok=True)
    sound = to_pcm(wave.astype(np.float32))
    (out / f"{number:03d}.wav").write_bytes(wav_header(SAMPLE_RATE, len(sound)) + sound.tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    commands = parser.add_subparsers(required=True, dest="what")
    speaking = commands.add_parser("teacher")
    speaking.add_argument("--voice", choices=("joe", "kokoro"), required=True)
    speaking.add_argument("--style", default="jf_gongitsune", help="of Kokoro")
    speaking.add_argument("--teachers", type=Path, required=True)
    coding = commands.add_parser("codec")
    coding.add_argument("--checkpoint", type=Path, required=True)
    coding.add_argument("--recordings", type=Path, required=True)
    for command in (speaking, coding):
        command.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.what == "teacher":
        teacher(options.voice, options.style, options.teachers, options.out, options.device)
    else:
        codec(options.checkpoint, options.recordings, options.out, options.device)


if __name__ == "__main__":
    main()
