"""Interface to the compiled engine: a unit is packed into integers, and the totals are unpacked."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, fields
from functools import partial
from hashlib import sha256
from itertools import accumulate, chain
from operator import itemgetter

from perfassert.engines.extension import compiled_core
from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.phases import ProgramSignal
from perfassert.engines.pipeline.program import NodeCost, ProgramOutline, WarpProgram
from perfassert.engines.pipeline.results import (
    MOST_EVENTS,
    Duration,
    StallProfile,
    Totals,
    TraceEvent,
    WaitTicks,
    deadlock,
    trace_full,
)
from perfassert.kernel.graph import BodyItem, ItemKind

_LIMIT = 2**61  # ticks; beyond this, times and sums of times could overflow 64 bits
_core = partial(compiled_core, "pipeline")
_TIME, _TOTALS, _PROFILE = range(3)  # what is heard of a run
_DURATION = len(fields(Duration))  # words
_KINDS = ("launched", "issued", "completed", "barrier", "retired")


def available() -> bool:
    """Return True if the extension was built when the package was installed."""
    return _core() is not None


def run_compiled(
    unit: Unit, fast_forward: bool, limit: int = 0, window: tuple[int, int] = (0, 0)
) -> Totals:
    """Run a unit that :func:`fits`; ``limit``: stop after this number of instructions (0: never).

    ``window`` in ticks asks for a trace, which disables fast-forward.
    """
    window = max(window[0], 0), min(window[1], _LIMIT)
    traced = window[0] < window[1]
    heard = _PROFILE if unit.profile else _TOTALS
    window = window if traced else (0, 0)
    result = _simulate(unit, heard, fast_forward and not traced, limit, window)
    rest = list(result[_DURATION + 5 :])
    operations, pipes = len(unit.pipelines.operations), len(unit.pipelines.names)
    nodes = unit.graph_nodes
    cuts = tuple(accumulate((operations, pipes, nodes, pipes)))
    launched, retired, not_selected, drained, resident = result[_DURATION : _DURATION + 5]
    return Totals(
        **asdict(_duration(result)),
        launched=launched,
        retired=retired,
        not_selected=not_selected,
        drained=drained,
        resident=resident,
        issued=rest[: cuts[0]],
        busy=rest[cuts[0] : cuts[1]],
        dependence=rest[cuts[1] : cuts[2]],
        pipeline=rest[cuts[2] : cuts[3]],
        profile=_profile(unit, rest[cuts[3] :]) if unit.profile else None,
        trace=_trace(unit, rest[cuts[3] + _profile_words(unit) :]),
    )


def time_compiled(unit: Unit, limit: int = 0, fast_forward: bool = True) -> Duration:
    """Run a unit that :func:`fits` for its time alone; ``limit``: as of :func:`run_compiled`."""
    return _duration(_simulate(unit, _TIME, fast_forward, limit, (0, 0)))


def content_of(unit: Unit, limit: int) -> bytes:
    """Return a key of all that the time of a unit that :func:`fits` depends on."""
    return _head(unit, _TIME, True, limit, (0, 0)).tobytes() + b"".join(map(_digest, unit.programs))


def find_sums(
    unit: Unit, watched: Collection[int], unrolled: int
) -> tuple[Sequence[int], Sequence[Sequence[int]]]:
    """Compute the sums from which bounds of a unit that :func:`fits` follow, in ticks.

    Returns the sums of :class:`~perfassert.engines.pipeline.bounds.Sums` in order, and what follows
    a warp of each program; of longer programs than ``unrolled``, loops are shortened.
    """
    words = _unit_words(unit, _TIME, False, 0, (0, 0))
    words.extend((unrolled, len(watched), *watched))
    result = array("q")
    result.frombytes(_core().bounds(words.tobytes()))
    sums = len(unit.pipelines.names) + 2
    return result[:sums], [result[at : at + 4] for at in range(sums, len(result), 4)]


def _duration(words: Sequence[int]) -> Duration:
    end, instructions, simulated, cut_short, half_time, half_count = words[:_DURATION]
    return Duration(end, instructions, simulated, bool(cut_short), half_time, half_count)


def _simulate(
    unit: Unit, heard: int, fast_forward: bool, limit: int, window: tuple[int, int]
) -> array[int]:
    words = _unit_words(unit, heard, fast_forward, limit, window)
    result = array("q")
    try:
        result.frombytes(_core().simulate(words.tobytes()))
    except LookupError as waiting:  # its argument is the node at which a warp waits for ever
        raise deadlock(waiting.args[0]) from None
    except OverflowError:  # too many events
        raise trace_full() from None
    return result


def _trace(unit: Unit, words: Sequence[int]) -> list[TraceEvent]:
    """Return the events, sorted by time, from five words each.

    The core reports completions when their instruction issues.
    """
    events = [words[i : i + 5] for i in range(0, len(words), 5)]
    events.sort(key=itemgetter(0))
    return [
        TraceEvent(time / unit.pipelines.ticks, _KINDS[kind], block, warp, node)
        for time, kind, block, warp, node in events
    ]


def _profile_words(unit: Unit) -> int:
    nodes = [n for p in unit.programs for n in p.outline.nodes] if unit.profile else []
    return sum(len(WaitTicks.__slots__) + 2 * sum(map(len, n.sources)) for n in nodes)


def _profile(unit: Unit, words: Sequence[int]) -> StallProfile:
    """Return the profile; each program has counts per node, then two per source of each edge."""
    profile = StallProfile()
    at = 0
    width = len(WaitTicks.__slots__)
    for nodes in [program.outline.nodes for program in unit.programs]:
        for node in nodes:
            profile.at(node.graph_node).add(words[at : at + width])
            at += width
        for node in nodes:
            for edge in node.sources:
                for producer, _, _ in edge:
                    if words[at]:
                        origin = nodes[producer].graph_node
                        profile.wait(node.graph_node, origin, words[at], words[at + 1])
                    at += 2
    return profile


def fits(unit: Unit, margin: int = 1) -> bool:
    """Return True if all times fit into 64 bits; with very fine ticks long runs do not.

    ``margin``: so many times as long ones do, too.
    """
    longest = 0
    for program in unit.programs:
        longest = max(longest, program.length * (program.slowest + unit.pipelines.ticks))
    rounds = -(-unit.blocks // unit.resident)
    return longest * unit.warps * unit.resident * rounds * margin < _LIMIT


def _unit_words(
    unit: Unit, heard: int, fast_forward: bool, limit: int, window: tuple[int, int]
) -> array[int]:
    words = _head(unit, heard, fast_forward, limit, window)
    for program in unit.programs:
        words.extend(_words(program))
    return words


def _head(
    unit: Unit, heard: int, fast_forward: bool, limit: int, window: tuple[int, int]
) -> array[int]:
    words = array("q", (
        len(unit.programs), unit.warps, unit.blocks, unit.resident, int(unit.in_order),
        int(unit.oldest_first), unit.schedulers, unit.width, unit.pipelines.ticks,
        len(unit.pipelines.operations), len(unit.pipelines.names), int(fast_forward), limit,
        unit.graph_nodes, unit.stagger, heard, *window, MOST_EVENTS,
    ))  # fmt: skip
    words.extend(unit.variant)
    words.extend(map(int, unit.pipelines.per_scheduler))
    words.extend(unit.pipelines.depths)
    words.extend((len(unit.channels), *unit.channels))
    return words


def _words(program: WarpProgram) -> array[int]:
    """Return the packed program, which several runs of a prediction share."""
    return program.found.once("words", lambda: _pack_program(program))


def _digest(program: WarpProgram) -> bytes:
    """Return the digest of the packed program, which the keys of several runs share."""
    return program.found.once("digest", lambda: sha256(_words(program)).digest())


def _pack_program(program: WarpProgram) -> array[int]:
    outline = program.outline
    words = array("q", outline.found.once("words", lambda: _pack_outline(outline)))
    packed = {cost: _pack_cost(cost) for cost in set(program.costs)}
    words.extend(list(chain.from_iterable([packed[cost] for cost in program.costs])))
    words.append(program.length)
    for loop in program.loops:
        words.extend((loop.trips, loop.length, loop.offset))
    words.append(len(program.signals))
    for node, signal in program.signals.items():
        words.extend((node, *_pack_signal(signal)))
    return words


def _pack_outline(outline: ProgramOutline) -> array[int]:
    words = [len(outline.nodes), len(outline.loops)]
    for node in outline.nodes:
        words += (node.graph_node, node.loop, node.fence, node.partial, node.stall)
        words.append(len(node.sources))
        for edge in node.sources:
            words.append(len(edge))
            for source in edge:
                words += source
    for loop in outline.loops:
        words.append(loop.parent)
        words += _items(loop.body)
    words += _items(outline.body)
    return array("q", words)


def _pack_cost(cost: NodeCost) -> tuple[int, ...]:
    return (
        cost.operation, cost.pipeline, cost.issue, cost.completion, cost.produces,
        len(cost.demands), *chain.from_iterable(cost.demands),
    )  # fmt: skip


def _pack_signal(signal: ProgramSignal) -> tuple[int, ...]:
    return (
        signal.channel, int(signal.arrives), int(signal.waits), int(signal.copies), signal.expects,
        signal.first, len(signal.steps), *signal.steps,
    )  # fmt: skip


def _items(body: tuple[BodyItem, ...]) -> Iterator[int]:
    yield len(body)
    for kind, index in body:
        yield from (int(kind is ItemKind.LOOP), index)
