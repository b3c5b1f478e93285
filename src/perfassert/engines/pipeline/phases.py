"""Phase of a channel that an instruction belongs to, as a linear form of its loop counters.

Arrivals and waits of a warp are counted in program order. The phase of an instruction follows from
its place in the program and from its loop counters, so a simulation does not have to count.

For example, a wait in a loop is the only one of the loop, and 3 waits precede the loop. In
iteration i it is the warp's wait number 3 + i, and without a lead it belongs to phase 3 + i. With a
lead of 2 it belongs to phase 1 + i.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfassert.errors import GraphError
from perfassert.kernel.graph import BodyItem, InstructionGraph, ItemKind, Node, Signal

if TYPE_CHECKING:  # of which programs are made
    from perfassert.engines.pipeline.program import OutlineNode, WarpLoop

_Key = tuple[int, bool]  # channel; True if the node waits and does not arrive
_Counts = Counter[_Key]


@dataclass(frozen=True, slots=True)
class ProgramSignal:
    """The effect of a node on ``channel``, in phase ``first`` + Σ ``steps`` · loop counter.

    ``steps`` are ordered by loop, outermost first. A negative phase is always complete.
    """

    channel: int
    arrives: bool
    waits: bool
    copies: bool
    expects: int
    first: int
    steps: tuple[int, ...]

    def phase(self, counters: Sequence[int]) -> int:
        """Return the phase for the counters of the loops around the node, outermost first."""
        return self.first + sum(s * c for s, c in zip(self.steps, counters, strict=True))


def program_signals(
    graph: InstructionGraph,
    nodes: Sequence[OutlineNode],
    loops: Sequence[WarpLoop],
    body: Sequence[BodyItem],
) -> dict[int, ProgramSignal]:
    """Return the signals of one warp's nodes, by their numbers in its program."""
    if not graph.channels:
        return {}
    numbering = _Numbering(graph, nodes, loops)
    numbering.walk(body, Counter(), ())
    return numbering.signals


class _Numbering:
    def __init__(
        self, graph: InstructionGraph, nodes: Sequence[OutlineNode], loops: Sequence[WarpLoop]
    ) -> None:
        self.graph = graph
        self.nodes = nodes
        self.loops = loops
        self.signals: dict[int, ProgramSignal] = {}
        self.inside: dict[int, _Counts] = {}

    def node(self, index: int) -> Node:
        return self.graph.nodes[self.nodes[index].graph_node]

    def walk(self, body: Sequence[BodyItem], before: _Counts, around: tuple[_Counts, ...]) -> None:
        """Number the signals of a body whose first iteration follows the counts in ``before``."""
        before = before.copy()
        for kind, index in body:
            if kind is ItemKind.LOOP:
                self.walk(self.loops[index].body, before, (*around, self.iteration(index)))
                before += self.times(index)
                continue
            signal = self.node(index).signal
            if signal is not None:
                self.signals[index] = self.number_signal(index, signal, before, around)
                before += _counts(signal)

    def number_signal(
        self, index: int, signal: Signal, before: _Counts, around: tuple[_Counts, ...]
    ) -> ProgramSignal:
        node, key = self.node(index), _key(signal)
        if signal.channel >= len(self.graph.channels):
            raise GraphError(f"{node}: there is no channel {signal.channel}")
        if signal.copies and not before[key]:
            name = self.graph.channels[signal.channel].name
            raise GraphError(f"{node}: a copy on channel {name!r} before an arrival expects it")
        late = 1 if signal.copies else signal.lead
        return ProgramSignal(
            signal.channel, signal.arrives, signal.waits, signal.copies, signal.expects,
            before[key] - late, tuple(counts[key] for counts in around),
        )  # fmt: skip

    def iteration(self, loop: int) -> _Counts:
        """Return the counts of one iteration of a loop."""
        if loop not in self.inside:
            total: _Counts = Counter()
            for kind, index in self.loops[loop].body:
                signal = None if kind is ItemKind.LOOP else self.node(index).signal
                if kind is ItemKind.LOOP:
                    total += self.times(index)
                elif signal is not None:
                    total += _counts(signal)
            self.inside[loop] = total
        return self.inside[loop]

    def times(self, loop: int) -> _Counts:
        trips = self.loops[loop].trips
        return Counter({key: trips * count for key, count in self.iteration(loop).items()})


def _key(signal: Signal) -> _Key:
    return signal.channel, signal.waits and not signal.arrives


def _counts(signal: Signal) -> _Counts:
    """Return the counts of one signal; a copy has none, since it belongs to an earlier arrival."""
    return Counter() if signal.copies else Counter({_key(signal): 1})
