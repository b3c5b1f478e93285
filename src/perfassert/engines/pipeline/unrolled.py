"""Programs with their loops unrolled, as the reference engine executes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perfassert.engines.pipeline.program import NO_LOOP, ProgramNode, WarpProgram
from perfassert.kernel.graph import BodyItem, ItemKind


@dataclass(slots=True)
class Unrolled:
    """A program with its loops unrolled: nodes, producers and consumers per dynamic instruction.

    ``phases`` holds the phase of each instruction that affects a channel, by number.
    """

    nodes: list[ProgramNode]
    producers: list[list[int]]
    consumers: list[list[int]]
    phases: dict[int, int]


def unroll(program: WarpProgram) -> Unrolled:
    """Unroll all loops.

    A node waits for the last barrier before it. A full barrier waits for all instructions since the
    last full barrier.
    """
    nodes: list[ProgramNode] = []
    offsets = _offsets(program)
    producers: list[list[int]] = []
    phases: dict[int, int] = {}
    fence = full_fence = -1
    for index, counters in _dynamic(program, program.body, {}):
        node = program.nodes[index]
        place = len(nodes)
        # For example, instructions 0 and 1, a full barrier 2, instructions 3 and 4, a full barrier
        # 5: 2 waits for 0 and 1, 3 and 4 wait for 2, and 5 waits for 3, 4 and 2.
        waits = {
            s for edge in node.sources if (s := _producer(program, offsets, edge, counters)) >= 0
        }
        if node.fence and not node.partial:
            waits.update(range(full_fence + 1, place))
            full_fence = place
        if fence >= 0:
            waits.add(fence)
        nodes.append(node)
        producers.append(sorted(waits))
        if node.signal is not None:
            phases[place] = node.signal.phase([counters[x] for x in program.chain(node.loop)])
        if node.fence:
            fence = place
    consumers: list[list[int]] = [[] for _ in nodes]
    for consumer, waits_for in enumerate(producers):
        for producer in waits_for:
            consumers[producer].append(consumer)
    return Unrolled(nodes, producers, consumers, phases)


def _dynamic(
    program: WarpProgram, body: tuple[BodyItem, ...], counters: dict[int, int]
) -> Iterator[tuple[int, dict[int, int]]]:
    for kind, index in body:
        if kind is ItemKind.NODE:
            yield index, counters
        else:
            loop = program.loops[index]
            for i in range(loop.trips):
                yield from _dynamic(program, loop.body, {**counters, index: i})


def _offsets(program: WarpProgram) -> dict[int, int]:
    """Return the place of each node in an iteration of its loop, or outside of loops."""
    offsets = {}
    for body in (program.body, *(loop.body for loop in program.loops)):
        place = 0
        for kind, index in body:
            if kind is ItemKind.NODE:
                offsets[index] = place
                place += 1
            else:
                place += program.loops[index].trips * program.loops[index].length
    return offsets


def _producer(
    program: WarpProgram,
    offsets: Mapping[int, int],
    edge: tuple[tuple[int, int, int], ...],
    counters: dict[int, int],
) -> int:
    """Return the program-order number of the instruction that an edge refers to, or -1 for none."""
    for producer, loop, distance in edge:
        if distance and counters[loop] < distance:
            continue
        node = program.nodes[producer]
        # For example, a loop with offset 2 and 3 instructions per iteration carries the value of
        # its instruction 1. With a distance of 1, iteration 2 reads from 1 + 2 + (2 - 1) · 3 = 6.
        place, inside = offsets[producer], loop != NO_LOOP
        for level in program.chain(node.loop):
            if inside:
                iteration = counters[level] - (distance if level == loop else 0)
            else:
                iteration = program.loops[level].trips - 1
            place += program.loops[level].offset + iteration * program.loops[level].length
            inside = inside and level != loop
        return place
    return -1
