"""Blocks with long loops, simulated with shorter ones.

A simulation that is cut short before the first blocks end tells of their beginning alone, and what
comes later may be as different as the two loops of a softmax. So loops are made shorter, all by the
same factor, until several waves of blocks can be simulated to their ends; twice, with one half of
the iterations and with all, so that a straight line through both gives the time of the whole ones.
"""

from __future__ import annotations

from dataclasses import replace

from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.results import Duration
from perfassert.kernel.graph import BodyItem, InstructionGraph, ItemKind
from perfassert.predictor.model import Model

_ENDED = 2  # sets of resident blocks after which a simulation that is cut short tells of all
_WAVES = 6  # sets of resident blocks that are simulated, where there are so many
_FEWEST = 4  # iterations that are left of a loop
_APART = 1.5  # times as long as the shorter one the longer one is, at least


def represents_all_blocks(duration: Duration, unit: Unit) -> bool:
    """Return True if a simulation was not cut short, or has seen enough blocks end."""
    return (
        not duration.cut_short or duration.simulated >= _ENDED * unit.block_length * unit.resident
    )


def shorter_units(model: Model, limit: int) -> tuple[Unit, Unit] | None:
    """Return two units with shortened loops, for about ``limit`` instructions together.

    One keeps a third, the other two thirds of the affordable share of iterations. The result is
    None where there is too little to leave out.
    """
    unit = model.unit
    share = limit / (model.length * min(unit.blocks, _WAVES * unit.resident))
    lengths = [unit.block_length]
    units = []
    for part in (2 / 3 * share, 1 / 3 * share):
        shorter = unit.with_trips(shorten_loops(model.graph, part))
        if shorter.block_length * _APART > lengths[-1]:
            return None
        units.append(shorter)
        lengths.append(shorter.block_length)
    return units[1], units[0]


def shorten_loops(graph: InstructionGraph, share: float) -> InstructionGraph:
    """Return the graph with ``share`` of its iterations.

    Iterations of outer loops are left out first, then those of inner loops as far as needed.
    """
    loops = list(graph.loops)

    def shorten(body: tuple[BodyItem, ...], share: float) -> None:
        for kind, number in body:
            if kind is ItemKind.LOOP:
                loop, before = loops[number], graph.trips(number)
                trips = _shorten_trips(before, share)
                each = tuple(_shorten_trips(own, share) for own in loop.each)
                loops[number] = replace(loop, trips=trips, each=each)
                shorten(loop.body, min(1.0, share * before / max(trips, 1)))

    # A share of 0.1: an outer loop of 100 trips runs 10 times, and its inner loops keep all trips.
    shorten(graph.body, share)
    return replace(graph, loops=tuple(loops))


def _shorten_trips(trips: int, share: float) -> int:
    return max(min(trips, _FEWEST), round(trips * share))
