"""A result as lines for the terminal.

Knows a `Result` and how wide columns are. Measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rhapsode.bench import ways
from rhapsode.bench.result import Result
from rhapsode.bench.sweep import Sweep


def terminal(result: Result) -> str:
    return "\n".join(_parts(result))


def _parts(result: Result) -> Iterator[str]:
    machine = result.machine
    yield f"{result.source} on {machine.get('accelerator', machine['processor'])}"
    said = ("device", "cores", "threads", "python", "torch", "mlx")
    yield "  " + ", ".join(f"{name} {machine[name]}" for name in said if name in machine)
    yield f"  book of {result.book_lines} lines, hash {result.book_hash}; no audio of it is kept"
    yield ""
    yield from _scheduling(result)
    yield ""
    yield from _ceiling(result)
    yield ""
    yield from formats(result.sweep)
    yield ""
    yield from _alone(result)
    yield from _whole(result)
    if result.stages is not None:
        yield ""
        yield from _stages(result)
    if result.beside is not None and result.stages is not None:
        yield from _beside(result)
    if result.against is not None:
        yield ""
        yield from _against(result)
    if result.ways:
        yield ""
        yield "Ways to compute the same, tried before the first step (one call at each size in use, summed)"
        yield from ways.lines(result.ways)
    yield from (f"note: {note}" for note in result.notes)


def short(number: float) -> str:
    """Three digits, and whole numbers as they are: 15.9, 1,803."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as what is in them, the first to the left and the others to the right."""
    table = [list(head), *map(list, rows)]
    widths = [max(len(row[n]) for row in table) for n in range(len(head))]
    return ["  " + "  ".join(_cell(text, w, n) for n, (text, w) in enumerate(zip(row, widths, strict=True))).rstrip()
            for row in table]  # fmt: skip


def _cell(text: str, width: int, column: int) -> str:
    return text.rjust(width) if column else text.ljust(width)


def _scheduling(result: Result) -> Iterator[str]:
    yield f"Useful frames of all {result.book_lines} lines, by schedule alone"
    slots = sorted(next(iter(result.scheduling.values())))
    rows = [[name, *(f"{useful[n]:.3f}" for n in slots)] for name, useful in result.scheduling.items()]
    yield from grid(["slots", *map(str, slots)], rows)


def _ceiling(result: Result) -> Iterator[str]:
    ceiling, counts = result.sweep.ceiling, result.counts
    yield "The ceiling"
    yield f"  copy {ceiling.copy_bytes_s / 1e9:.1f} GB/s (read and written)"
    for format, rate in ceiling.operations_s.items():
        floors = ", ".join(
            f"{1e3 * seconds / lanes:.3g} ms at {lanes}" for lanes, seconds in ceiling.floor_s[format].items()
        )
        yield f"  {format}: products {rate / 1e9:.0f} GFLOP/s; floor of a lane's frame {floors} slots"
    yield (
        f"  a lane's frame: talker {counts.talker.operations / 1e9:.3g}, predictor "
        f"{counts.predictor.operations / 1e9:.3g}, codec {counts.codec.operations / 1e9:.3g} GFLOP; a step reads "
        f"{counts.talker.weights / 1e6:.4g} and {counts.predictor.weights / 1e6:.4g} million weights"
    )


def formats(sweep: Sweep) -> Iterator[str]:
    """Rows are formats, columns slots."""
    yield "Formats: ms per lane and frame (talker, predictor, choice), and deviation from float32"
    slots = sorted({cell.slots for cell in sweep.cells})
    found = {(cell.format, cell.slots): cell for cell in sweep.cells}
    rows = []
    for format in sweep.weights_bytes:
        far = sweep.deviations.get(format)
        columns = [f"{found[format, n].ms_lane_frame:.3g}" for n in slots]
        apart = [f"{100 * value:.2g}%" for value in (far.talker, far.predictor, far.codec)] if far else ["-"] * 3
        rows.append([format, *columns, f"{sweep.weights_bytes[format] / 1e6:.0f}", *apart])
    yield from grid(["slots", *map(str, slots), "weights, MB", "talker", "predictor", "waveform"], rows)
    yield "  x floor: a step over all its products alone"
    over = [[format, *(f"{found[format, n].x_floor:.2f}" for n in slots)] for format in sweep.weights_bytes]
    yield from grid(["slots", *map(str, slots)], over)


def _alone(result: Result) -> Iterator[str]:
    """Codec and single lane, where they were measured."""
    codec, lane = result.codec, result.lane
    if codec is not None:
        far = "" if codec.deviation is None else f", {100 * codec.deviation:.2g}% of the peak from float32"
        speeds = ", ".join(f"{short(group.x)} x with {group.lines}" for group in codec.groups)
        yield f"The codec alone, {codec.format}{far}: {speeds} lines of {codec.groups[0].audio_s:.0f} s at once"
    if lane is not None:
        first = f"the first {lane.first_samples_s:.2f} s of sound after {1e3 * lane.first_sound.median:.0f} ms"
        yield f"One lane: {lane.x:.3g} x real time; {first}"
    if codec is not None or lane is not None:
        yield ""


def _whole(result: Result) -> Iterator[str]:
    whole = result.whole
    peak = ", ".join(f"{name} {size:.0f} MB" for name, size in result.peak_mb.items())
    weights = result.sweep.weights_bytes[whole.format]
    yield (
        f"The book: {whole.lines} lines (hash {result.sample_hash}), {whole.audio_s:.1f} s of sound, {whole.format}, "
        f"{whole.slots} slots, {whole.schedule}"
    )
    yield (
        f"  RTF {whole.rtf:.3g}, {short(whole.x)} x real time useful, {short(whole.x_total)} x total "
        f"({whole.useful:.1%} of frames useful)"
    )
    yield (
        f"  median {whole.seconds.median:.2f} s of {len(whole.seconds.runs)} runs, spread {whole.seconds.spread:.1%}; "
        f"{whole.steps} steps, {whole.prefills} prefills; warm-up {whole.warm_up_s:.1f} s before"
    )
    for row in result.devices:
        peaks = ", ".join(f"{name} {size:.0f} MB" for name, size in row.peak_mb.items())
        yield (
            f"  {row.device}: {row.lines} lines, {row.audio_s:.1f} s of sound in {row.seconds:.2f} s, "
            f"{short(row.audio_s / row.seconds)} x; peak memory: {peaks}"
        )
    yield f"  peak memory: {peak}; weights {weights / 1e6:.0f} MB, keys and values {whole.kv_bytes / 1e6:.0f} MB"
    yield f"  peak of the model without keys and values: {result.memory()['over']:.2f} x its weights"


def _stages(result: Result) -> Iterator[str]:
    stages = result.stages
    assert stages is not None
    yield "Where the time goes (a pass of its own, the queue emptied on both sides of each stage)"
    rows = [
        [
            row.name,
            f"{row.seconds:.2f}",
            f"{row.share:.1%}",
            f"{row.ms_frame:.3g}",
            "-" if row.bytes_s is None else short(row.bytes_s / 1e9),
            "-" if row.operations_s is None else short(row.operations_s / 1e9),
        ]
        for row in stages.rows
    ]
    yield from grid(["stage", "s", "share", "ms/frame", "GB/s", "GFLOP/s"], rows)
    ceiling = result.sweep.ceiling
    rate = ceiling.operations_s[result.whole.format]
    copied, made = short(ceiling.copy_bytes_s / 1e9), short(rate / 1e9)
    yield f"  ceiling: {copied} GB/s copied, {made} GFLOP/s in {result.whole.format}"
    yield (
        f"  sum of stages {stages.whole_s:.2f} s against {result.whole.seconds.median:.2f} s undisturbed: "
        f"{stages.excess:+.1%}"
    )


def _beside(result: Result) -> Iterator[str]:
    beside, stages = result.beside, result.stages
    assert beside is not None and stages is not None
    whole = result.whole.seconds.median + beside.seconds
    both = stages.whole_s + beside.seconds
    yield (
        f"Beside the model: text {beside.text_s:.2f} s ({beside.text_s / both:.1%}), container "
        f"{beside.container_s:.2f} s ({beside.container_s / both:.1%}), "
        f"{beside.lines} lines of made-up text and {beside.audio_s:.0f} s of M4B"
    )
    yield f"  everything {whole:.2f} s; sum of all stages {both:.2f} s: {both / whole - 1:+.1%}"


def _against(result: Result) -> Iterator[str]:
    against = result.against
    assert against is not None
    yield (
        f"Against the official package ({against.version}, {against.lines} lines, {against.audio_s:.1f} s of sound, "
        f"the same weights, alternating)"
    )
    rows = [
        [
            row.name,
            str(row.lines),
            f"{row.seconds.median:.2f}",
            f"{1 / row.rtf:.4g}",
            f"{row.rtf:.3f}",
            f"{row.ratio:.2f}",
        ]  # fmt: skip
        for row in against.rows
    ]
    yield from grid(["", "lines", "s", "x", "RTF", "we are faster by"], rows)
    yield "  s: median; x: seconds of sound a second; RTF: the inverse; the last column is the row's RTF over ours"
