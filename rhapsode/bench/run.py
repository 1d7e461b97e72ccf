"""`rhapsode bench`: the options to a result, top to bottom.

Knows the order of what is measured: the schedule without a model, then each format, then the book with the fastest of
them. Progress goes to stderr; the result is returned.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date

from rhapsode.bench.alone import codec_alone, group_sizes, one_lane
from rhapsode.bench.beside import beside
from rhapsode.bench.choices import Options
from rhapsode.bench.counts import count
from rhapsode.bench.gauge import Gauge, gauge_of
from rhapsode.bench.measure import BookRun
from rhapsode.bench.result import Read, Result
from rhapsode.bench.schedule import SCHEDULES, plan
from rhapsode.bench.source import Source, find_source
from rhapsode.bench.spread import Job, read_together
from rhapsode.bench.stopwatch import Clock
from rhapsode.bench.sweep import REFERENCE, Cell, Sweep, sweep
from rhapsode.bench.ways import compared
from rhapsode.bench.workload import BOOK_LINES, Workload, draw
from rhapsode.errors import UserError
from rhapsode.qwen3.backends import MLX, backend_of
from rhapsode.qwen3.devices import Device
from rhapsode.qwen3.remembered import Measured

# One reading of the sample takes about this long where --lines does not say how many lines are read.
SAMPLE_S = 60.0
CODEC_SHARE = 1.4  # the whole over talker and predictor, for that guess alone
ROUNDS = 3  # of all slots, that a sample has at least: fewer would show little but how a book ends


def bench(options: Options, clock: Clock = time.perf_counter, tick: Callable[[str], None] | None = None) -> Result:
    """Everything the options ask for. Raises `UserError` for what cannot be had."""
    source = find_source(options.shapes, options.checkpoint)
    devices = _several(options)
    gauge = gauge_of(options.device)
    device = gauge.choose_device(devices[0].name if devices else options.device)
    slots = options.slots[0] if options.slots else 1
    if not options.slots:
        widest = gauge.pick(options.formats, device, source.model, slots)[0].format
        slots = gauge.default_slots(device, source.model, source.codec, widest)[-1]
    picked = gauge.pick(options.formats, device, source.model, slots)
    formats = tuple(dict.fromkeys(one.format for one in picked))
    if options.against:
        _require_others(device, options.others)
    with gauge.threads(options.threads):
        result = measure(source, device, formats, options, clock, tick or _to_stderr, devices=devices)
        notes = [one.note for one in picked if one.note]
        if options.remember:
            notes += _remember(gauge, result.sweep, source, device, trained=options.checkpoint is not None)
        return replace(result, notes=(*notes, *result.notes))


def measure(
    source: Source, device: str, formats: Sequence[str], options: Options, clock: Clock, tick: Callable[[str], None],
    book: Workload | None = None, devices: Sequence[Device] = (),
) -> Result:  # fmt: skip
    """As `bench`, of networks that are there; `book` in place of the fixed one.

    `devices`: where the book is read on several, what they are; tables are measured on `device` alone.
    """
    gauge = gauge_of(device)
    slots = tuple(dict.fromkeys(options.slots or gauge.default_slots(device, source.model, source.codec, formats[0])))
    if book is None:
        book = draw(options.lines) if options.lines is not None and options.lines > BOOK_LINES else draw()
    scheduling = {name: {n: plan(book, n, name, gauge.refill(device, n)).useful for n in slots} for name in SCHEDULES}
    tick(f"the book: {len(book.lines)} lines, hash {book.hash}")
    notes: list[str] = []
    room = _room_for_reference(gauge, source, device, formats, notes)
    found = sweep(source, device, formats, slots, book, repeats=options.repeats, clock=clock, compare=room, tick=tick)
    cell = found.fastest
    sample = book.first(options.lines or _sample(cell, book))
    tick(f"{cell.format}, {cell.slots} slots: reading {len(sample.lines)} lines, {options.schedule}")
    if len(devices) > 1:
        read = _on_several(source, devices, cell, sample, options, clock, tick)
    else:
        read = _on_one(source, device, found, sample, book, options, clock, tick)
    if options.stages and read.beside is None:
        notes.append("text and container are not measured: what reads books and writes audio is not installed.")
    gauge.forget()
    return Result(
        source=source.name,
        machine=gauge.describe(device),
        book_lines=len(book.lines),
        book_hash=book.hash,
        sample_hash=sample.hash,
        frame_rate=source.codec.frame_rate,
        scheduling=scheduling,
        counts=count(source.model, source.codec),
        sweep=found,
        whole=read.whole,
        stages=read.stages,
        seats=plan(sample, cell.slots, options.schedule, gauge.refill(device, cell.slots)),
        peak_mb=read.peak_mb,
        beside=read.beside,
        against=read.against,
        notes=tuple(notes),
        codec=read.codec,
        lane=read.lane,
        devices=read.devices,
        ways=compared((name, trial) for name in formats for trial in gauge.ways(source.model, source.codec, name)),
    )


def _on_one(
    source: Source, device: str, found: Sweep, sample: Workload, book: Workload, options: Options, clock: Clock,
    tick: Callable[[str], None],
) -> Read:  # fmt: skip
    """The sample on one device, and what else is asked of the same model."""
    gauge, cell = gauge_of(device), found.fastest
    before = gauge.forget_peak(device)
    model = source.build(device, cell.format)
    run = BookRun(model, source.model, source.codec, sample, cell.slots, options.schedule, clock)
    whole = run.whole(options.repeats, tick)
    peak = {"before the model": before, **gauge.peak_mb(device)}
    stages = run.stages(whole, count(source.model, source.codec)) if options.stages else None
    apart = beside(sample, source.codec.sample_rate, source.codec.frame_rate, clock) if options.stages else None
    far = found.deviations.get(cell.format)
    codec = codec_alone(run, group_sizes(run), options.repeats, None if far is None else far.codec)
    against = None
    if options.against:
        from rhapsode.bench.official import compare

        if options.lines is None:  # the others take long: one round of all slots will do
            sample_of_all = book.first(cell.slots)
            run = BookRun(model, source.model, source.codec, sample_of_all, cell.slots, options.schedule, clock)
        against = compare(run, source, options.repeats, tick, options.others)
    del run
    lane = None
    if any(one.slots == 1 for one in found.cells):
        lane = one_lane(model, source.model, source.codec, options.repeats, clock)
        tick(f"one lane: {lane.x:.3g} x")
    return Read(whole, peak, stages, apart, against, codec, lane)


def _on_several(
    source: Source, devices: Sequence[Device], cell: Cell, sample: Workload, options: Options, clock: Clock,
    tick: Callable[[str], None],
) -> Read:  # fmt: skip
    """The sample on all of them, each in a process of its own."""
    job = Job(options.shapes, options.checkpoint, "", cell.format, cell.slots, options.threads, sample, ())
    whole, rows = read_together(job, devices, options.repeats, source.codec.frame_rate, clock, tick)
    peak = {name: max(row.peak_mb[name] for row in rows) for name in rows[0].peak_mb}
    return Read(whole, {"before the model": 0.0, **peak}, devices=rows)


def _remember(gauge: Gauge, found: Sweep, source: Source, device: str, *, trained: bool) -> list[str]:
    """Keep the table for `auto`, where it compares anything; notes of what became of it."""
    tables: dict[int, dict[str, Measured]] = {}
    for cell in found.cells:
        far = found.deviations.get(cell.format)
        if cell.format == REFERENCE:
            tables.setdefault(cell.slots, {})[cell.format] = Measured(cell.ms_lane_frame, 0.0, 0.0, 0.0)
        elif far is not None:
            one = Measured(cell.ms_lane_frame, far.talker, far.predictor, far.codec)
            tables.setdefault(cell.slots, {})[cell.format] = one
    tables = {slots: formats for slots, formats in tables.items() if len(formats) > 1}
    if not tables:  # one format compares nothing
        return []
    try:
        gauge.remember(device, source.model, tables, date.today().isoformat(), trained=trained)
    except OSError as error:
        return [f"the table of formats is not remembered: {error.strerror or error}."]
    return ["the table of formats is remembered for --format auto on this machine."]


def _sample(cell: Cell, book: Workload) -> int:
    """Lines that take about `SAMPLE_S`, a few rounds of all slots at least."""
    seconds_a_line = cell.ms_lane_frame / 1e3 * CODEC_SHARE * book.frames / len(book.lines)
    return min(len(book.lines), max(ROUNDS * cell.slots, math.ceil(SAMPLE_S / seconds_a_line)))


def _room_for_reference(gauge: Gauge, source: Source, device: str, formats: Sequence[str], notes: list[str]) -> bool:
    """Whether float32 can be built to compare with; where not, that is noted."""
    counts = count(source.model, source.codec)
    talker = source.model.talker
    text = talker.text_vocab * talker.text_hidden
    needed = 4 * (text + counts.prefill.weights + counts.predictor.weights // 4 + 2 * counts.codec.weights)
    free = gauge.free_bytes(device)
    if free is None or needed < 0.8 * free or all(format == REFERENCE for format in formats):
        return True
    notes.append(
        f"no deviation is shown: float32 to compare with needs {needed / 1e9:.0f} GB, and {free / 1e9:.0f} are free."
    )
    return False


def _several(options: Options) -> list[Device]:
    """The devices that one name stands for; none where it stands for one. Raises `UserError`."""
    if not options.device.startswith("cuda:"):
        return []
    backend_of(options.device)  # says what is missing
    from rhapsode.qwen3.torch.several import several

    devices = several(options.device)
    if len(devices) == 1:
        return []
    if options.against or options.stages or options.schedule != SCHEDULES[0]:
        raise UserError(
            "On several devices the book is read as a whole and refilled; --against, --stages, --report and --schedule "
            "are for one."
        )
    return devices


def _require_others(device: str, others: Sequence[str]) -> None:
    if device == MLX:
        raise UserError("The official package runs on PyTorch; --against is for --device cpu or cuda.")
    from rhapsode.bench.official import require_official

    require_official()
    if "faster" in others:
        from rhapsode.bench.faster import require_faster

        require_faster(device)


def _to_stderr(message: str) -> None:
    print(f"bench: {message}", file=sys.stderr, flush=True)
