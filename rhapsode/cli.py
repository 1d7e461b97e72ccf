"""The command line: parse, call one function, print.

Knows options and sentences. A problem of the user's ends with code 2 and one sentence on stderr; Ctrl-C with 130.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rhapsode import __version__
from rhapsode.errors import OutputError, UserError
from rhapsode.narrator import DEFAULT

_FORMAT_HELP = (
    "float32, bfloat16, int8, auto: the fastest that bench measured here, whose logits are at most 5%% (bfloat16) or "
    "10%% (int8) of their spread from float32 and the sound 0.5%% of its peak; unmeasured what suits the device (auto)"
)
_DEVICE_HELP = "cpu, cuda, cuda:1, cuda:0,1 or cuda:all for several, mps, mlx (the best there is)"
_JSON_KEYS = ("out", "audio_s", "wall_s", "rtf", "lines", "useful", "retakes", "bad_lines", "peak_rss_mb")


def main(arguments: Sequence[str] | None = None) -> int:
    _open_missing_streams()
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the terminal cannot show is no reason to fail
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        chosen.run(chosen)
        sys.stdout.flush()
    except UserError as error:
        print(f"rhapsode: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        goes_on = "; the same command goes on from here" if chosen.run is _narrate else ""
        print(f"\nrhapsode: stopped{goes_on}.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has left
        _let_go(sys.stdout)
        return 1
    finally:
        try:
            sys.stderr.flush()
        except OSError:  # the reader of the progress has left; the exit code is that of the work
            _let_go(sys.stderr)
    return 0


def _open_missing_streams() -> None:
    """A service or a window starts a process without them; what is said then goes nowhere, and no file of ours may
    get the number of one."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = open(os.devnull, mode)  # noqa: SIM115 - for the life of the process
            os.set_inheritable(nothing.fileno(), True)  # processes of our own have it too
            setattr(sys, name, nothing)


def _let_go(stream: Any) -> None:
    """Nothing more goes to whoever had the stream, or the flush at exit would complain again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rhapsode", description="Read whole books aloud with Qwen3-TTS.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"rhapsode {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    narrate = commands.add_parser("narrate", help="a book in, an audiobook out", allow_abbrev=False)
    narrate.add_argument("book", help="an EPUB, text, Markdown or HTML file")
    narrate.add_argument("-o", "--out", help="the audiobook: .m4b .m4a .mp3 .opus .flac .wav (BOOK.m4b here)")
    narrate.add_argument("--chapters", metavar="1-3,7", help="only these chapters")
    narrate.add_argument("--keep-takes", action="store_true", help="keep the sound of every line in OUT.takes")
    _add_voice_options(narrate)
    narrate.set_defaults(run=_narrate)

    say = commands.add_parser("say", help="a few sentences in, a sound file out", allow_abbrev=False)
    say.add_argument("text", help="what to say; - reads it from stdin")
    say.add_argument("-o", "--out", help="the sound file (say.wav here, or the next free name)")
    say.add_argument("--stream", action="store_true", help="a WAV to stdout as it is read, for a player to be piped to")
    say.add_argument("--picture", metavar="FILE.svg", help="draw what was said: waveform and spectrogram")
    _add_voice_options(say)
    say.set_defaults(run=_say)

    voices = commands.add_parser("voices", help="voices and languages of a checkpoint", allow_abbrev=False)
    _add_checkpoint_options(voices)
    voices.add_argument("--json", action="store_true", help="one line of JSON")
    voices.set_defaults(run=_voices)

    verify = commands.add_parser("verify", help="how well voices are understood, by Whisper", allow_abbrev=False)
    _add_checkpoint_options(verify)
    verify.add_argument("--voice", metavar="NAME", action="append", help="one of the voices; may be given again (all)")
    verify.add_argument("--sentences", metavar="FILE", help="one sentence a line, '# name' opens a section (built in)")
    verify.add_argument("--recordings", metavar="FOLDER", help="score 001.wav, 002.wav ... in place of a narrator")
    verify.add_argument("--limit", metavar="N", type=int, help="only the first N sentences of each section")
    verify.add_argument("--asr", metavar="DIR_OR_PACKAGE", help="a Whisper model in CTranslate2 form")
    verify.add_argument("--report", metavar="FILE.md", help="write the tables as Markdown")
    _add_machine_options(verify)
    verify.set_defaults(run=_verify)

    bench = commands.add_parser("bench", help="how fast this machine is, and where the time goes", allow_abbrev=False)
    _add_bench_options(bench)
    bench.set_defaults(run=_bench)

    doctor = commands.add_parser("doctor", help="whether this machine's libraries are right", allow_abbrev=False)
    doctor.add_argument("--device", metavar="D", default="auto", help="cpu, cuda, cuda:1, mps, mlx (the best there is)")
    doctor.add_argument("--format", metavar="F", default="auto", help="that is tried (what suits the device)")
    doctor.add_argument("--checkpoint", metavar="DIR", help="whose sizes are tried (the embedded, or 1.7B)")
    doctor.add_argument("--slots", metavar="N", type=int, help="lines side by side that are tried (as for narrate)")
    doctor.add_argument("--json", action="store_true", help="one line of JSON")
    doctor.set_defaults(run=_doctor)

    inspect = commands.add_parser("inspect", help="what a checkpoint holds, from its headers", allow_abbrev=False)
    inspect.add_argument("checkpoint", help="a folder or a Hub id")
    inspect.add_argument("--json", action="store_true", help="one line of JSON")
    _add_hub_options(inspect)
    inspect.set_defaults(run=_inspect)
    return parser


def _add_voice_options(parser: argparse.ArgumentParser) -> None:
    _add_checkpoint_options(parser)
    parser.add_argument("--voice", metavar="NAME", help="a voice of the checkpoint (its first)")
    parser.add_argument("--dialogue-voice", metavar="NAME", help="another voice for what is in quotation marks")
    _add_machine_options(parser)


def _add_machine_options(parser: argparse.ArgumentParser) -> None:
    """How it is read and what is said of it, whatever is read."""
    parser.add_argument("--language", metavar="L", help="a name or a tag such as en (the text's; else auto)")
    parser.add_argument("--device", metavar="D", default="auto", help=_DEVICE_HELP)
    parser.add_argument("--format", metavar="F", default="auto", help=_FORMAT_HELP)
    parser.add_argument("--slots", metavar="N", type=int, help="lines read side by side (what suits the device)")
    parser.add_argument("--threads", metavar="N", type=int, help="of the processor (as many as it is given cores)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="another number, another reading (0)")
    parser.add_argument("--overwrite", action="store_true", help="replace an output file that is there")
    parser.add_argument("--json", action="store_true", help="end stdout with one line of JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _add_checkpoint_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--narrator", metavar="NAME", default=DEFAULT, help="which model reads, of those installed (%(default)s)"
    )
    parser.add_argument(
        "--checkpoint", metavar="DIR_OR_ID", help="a folder in the official layout, or a Hub id (the embedded one)"
    )
    _add_hub_options(parser)


def _add_bench_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shapes", metavar="NAME", help="random weights: 1.7b, 0.6b, small, demo (1.7b)")
    parser.add_argument("--checkpoint", metavar="DIR", help="a folder in the official layout, in place of --shapes")
    parser.add_argument("--device", metavar="D", default="auto", help=_DEVICE_HELP)
    parser.add_argument("--format", metavar="F,F", default="auto", help="formats to compare (what suits the device)")
    parser.add_argument("--slots", metavar="N,N", default="auto", help="lines side by side (what suits the device)")
    parser.add_argument("--lines", metavar="N", type=int, help="lines of the book that are read (about a minute's)")
    parser.add_argument("--schedule", metavar="S", default="refill", help="refill, sorted or book (refill)")
    parser.add_argument("--against", metavar="WHAT", help="official, faster: packages on the same weights and lines")
    parser.add_argument("--repeats", metavar="N", type=int, default=3, help="measurements of the same work (3)")
    parser.add_argument("--threads", metavar="N", type=int, help="of the processor (as many as it is given cores)")
    parser.add_argument("--no-remember", action="store_true", help="do not keep the table for --format auto")
    parser.add_argument("--stages", action="store_true", help="measure each stage in a pass of its own")
    parser.add_argument("--report", metavar="FILE.html", help="write one page with tables and plots")
    parser.add_argument("--overwrite", action="store_true", help="replace a report that is there")
    parser.add_argument("--json", action="store_true", help="nothing on stdout but the line of JSON that ends it")


def _add_hub_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--revision", help="of a Hub id: branch, tag or commit")
    parser.add_argument("--offline", action="store_true", help="of a Hub id: only what was fetched before")
    parser.add_argument("--token", help="of a Hub id: for repositories that want one")


def _options(chosen: argparse.Namespace, *names: str) -> dict[str, Any]:
    return {name: getattr(chosen, name) for name in names}


_CHECKPOINT_OPTIONS = ("narrator", "checkpoint", "revision", "offline", "token")
_READING_OPTIONS = (*_CHECKPOINT_OPTIONS, "language", "device", "format", "slots", "seed", "threads")
_VOICE_OPTIONS = (*_READING_OPTIONS, "voice", "dialogue_voice")


def _narrate(chosen: argparse.Namespace) -> None:
    from rhapsode.pipeline import narrate
    from rhapsode.progress import Progress

    report = narrate(
        chosen.book,
        chosen.out,
        chapters=chosen.chapters,
        overwrite=chosen.overwrite,
        keep_takes=chosen.keep_takes,
        progress=Progress(quiet=chosen.quiet),
        **_options(chosen, *_VOICE_OPTIONS),
    )
    _print_report(report, chosen.json)


def _say(chosen: argparse.Namespace) -> None:
    from rhapsode.pipeline import say
    from rhapsode.progress import Progress

    if chosen.text == "-" and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    text = sys.stdin.read() if chosen.text == "-" else chosen.text
    if chosen.stream:
        _say_aloud(text, chosen)
        return
    report = say(
        text,
        chosen.out,
        picture=chosen.picture,
        overwrite=chosen.overwrite,
        progress=Progress(quiet=chosen.quiet),
        **_options(chosen, *_VOICE_OPTIONS),
    )
    _print_report(report, chosen.json)


def _say_aloud(text: str, chosen: argparse.Namespace) -> None:
    from rhapsode.pipeline import say_aloud
    from rhapsode.progress import Progress

    for name in ("out", "picture", "json", "overwrite"):
        if getattr(chosen, name):
            raise UserError(f"--stream writes a WAV to stdout and nothing else; leave out --{name}.")
    if sys.stdout.isatty():
        raise UserError("--stream writes a WAV to stdout, and a terminal plays none; pipe it into a player.")

    def write(data: bytes) -> None:
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            _let_go(sys.stdout)
            raise OutputError(f"The sound cannot be written to stdout: {error.strerror}.") from error

    say_aloud(text, write, progress=Progress(quiet=chosen.quiet), **_options(chosen, *_VOICE_OPTIONS))


def _print_report(report: Any, as_json: bool) -> None:
    from rhapsode.progress import clock

    for bad in report.bad[:20]:
        print(f"bad line {bad.line + 1} (chapter {bad.chapter}): {bad.problem}: {bad.text!r:.70}")
    if len(report.bad) > 20:
        print(f"and {len(report.bad) - 20} more bad lines; all are in {report.record}")
    chapters = f"{report.chapters} chapters, " if report.chapters > 1 else ""
    lines = f"{report.lines} line{'s' * (report.lines != 1)}"
    print(
        f"{report.out}: {clock(report.audio_s)} of sound, {chapters}{lines} in {clock(report.wall_s)} "
        f"(RTF {report.rtf:.3f}, {report.useful:.0%} of frames useful, {report.retakes} retakes, "
        f"{report.bad_lines} bad lines)"
    )
    if as_json:
        print(json.dumps({key: getattr(report, key) for key in _JSON_KEYS}))


def _voices(chosen: argparse.Namespace) -> None:
    from rhapsode.narrator import find
    from rhapsode.pipeline import make_options

    options = make_options(_options(chosen, *_CHECKPOINT_OPTIONS))
    found = find(options.narrator).voices(options)
    if chosen.json:
        print(json.dumps({"voices": found.voices, "languages": found.languages}))
        return
    print("voices:    " + (", ".join(found.voices) or "none; the checkpoint makes one up"))
    print("languages: " + ", ".join(found.languages))


def _verify(chosen: argparse.Namespace) -> None:
    from rhapsode.audio.files import check_free, make_folder, write_atomic
    from rhapsode.progress import Progress
    from rhapsode.verify import verify
    from rhapsode.verify.tables import markdown_table, terminal_table

    report = Path(chosen.report) if chosen.report is not None else None
    if report is not None:
        check_free(report, "report", chosen.overwrite)
    result = verify(
        voices=chosen.voice,
        progress=Progress(quiet=chosen.quiet),
        **_options(chosen, "sentences", "recordings", "limit", "asr", *_READING_OPTIONS),
    )
    print(terminal_table(result))
    if report is not None:
        make_folder(report.parent)
        write_atomic(report, markdown_table(result).encode())
    if chosen.json:
        print(json.dumps(result.as_json()))


def _bench(chosen: argparse.Namespace) -> None:
    from rhapsode.audio.files import check_free, make_folder, write_atomic
    from rhapsode.bench.choices import options
    from rhapsode.bench.page import page
    from rhapsode.bench.run import bench
    from rhapsode.bench.table import terminal

    report = Path(chosen.report) if chosen.report is not None else None
    if report is not None:
        check_free(report, "report", chosen.overwrite)
    result = bench(options(chosen))
    if report is not None:
        make_folder(report.parent)
        write_atomic(report, page(result).encode())
    if not chosen.json:
        print(terminal(result))
    print(json.dumps(result.as_json()))


def _doctor(chosen: argparse.Namespace) -> None:
    from rhapsode.doctor import doctor

    found = doctor(**_options(chosen, "device", "format", "checkpoint", "slots"))
    print(json.dumps(found.as_json()) if chosen.json else "\n".join(found.lines()))
    if found.bad:
        tasks = ", ".join(dict.fromkeys(trial.task for trial in found.bad))
        raise UserError(f"{found.device.name} computes wrongly here: {tasks}; take another --device.")


def _inspect(chosen: argparse.Namespace) -> None:
    from rhapsode.qwen3.inspect import inspect

    found = inspect(chosen.checkpoint, **_options(chosen, "revision", "offline", "token"))
    print(json.dumps(found.as_json()) if chosen.json else found.table())
