"""The compute unit that is simulated, and the raw totals that every engine returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfassert.engines.pipeline.events import EventTotals, Simulation, TraceEvent
from perfassert.engines.pipeline.program import Pipelines, Program


@dataclass(frozen=True, slots=True)
class Unit:
    """One compute unit and what it has to run; ``width`` 0 means no issue limit.

    ``stagger``: ticks by which each of the first resident blocks starts after the one before (in
    order only). ``profile``: count where the warps' time at each node goes (in order only).
    """

    programs: tuple[Program, ...]
    variant: tuple[int, ...]
    pipelines: Pipelines
    blocks: int
    resident: int
    in_order: bool
    oldest_first: bool
    schedulers: int
    width: int
    stagger: int = 0
    profile: bool = False

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return len(self.variant)

    @property
    def graph_nodes(self) -> int:
        """One more than the largest number of a node in the graph."""
        return 1 + max((n.graph_node for p in self.programs for n in p.nodes), default=-1)

    @property
    def copies(self) -> tuple[tuple[int, ...], ...]:
        """Per pipeline: the number of its copy for each scheduler."""
        result: list[tuple[int, ...]] = []
        count = 0
        for scoped in self.pipelines.per_scheduler:
            own = range(count, count + self.schedulers) if scoped else [count] * self.schedulers
            result.append(tuple(own))
            count = result[-1][-1] + 1
        return tuple(result)


@dataclass(slots=True)
class Spent:
    """Ticks that warps spent at one node before they issued it, by cause; ``issued``: how often.

    ``stall``: the stall count of the instruction before; ``not_selected``: another warp took the
    slot; ``pipe``: the pipeline was taken or its queue full; ``fence``: at a barrier, for it or for
    what came before it. ``…_idle``: the part in which the scheduler issued nothing.
    """

    issued: int = 0
    stall: int = 0
    stall_idle: int = 0
    not_selected: int = 0
    pipe: int = 0
    pipe_idle: int = 0
    fence: int = 0
    fence_idle: int = 0

    def add(self, other: Sequence[int]) -> None:
        """Add counts in the order of the fields."""
        for name, value in zip(self.__slots__, other, strict=True):
            setattr(self, name, getattr(self, name) + value)


@dataclass(slots=True)
class Profile:
    """Where the warps' time went: by graph node, and by (waiting node, producer): ticks, and those
    of them in which the scheduler issued nothing.

    Of the wait before an issue its scheduler's idle ticks are exact; between the stall count and
    the producer, which follow one another, they are shared out by length.
    """

    spent: dict[int, Spent] = field(default_factory=dict)
    waits: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def at(self, node: int) -> Spent:
        """The counts of a node."""
        return self.spent.setdefault(node, Spent())

    def wait(self, use: int, producer: int, ticks: int, idle: int) -> None:
        """Add to what ``use`` waited for ``producer``."""
        before = self.waits.get((use, producer), (0, 0))
        self.waits[use, producer] = (before[0] + ticks, before[1] + idle)


@dataclass(slots=True)
class Totals:
    """Counts and ticks, by operation class and by pipeline; ``dependence`` by graph node.

    ``half_time``, ``half_count``: where half of a limited simulation lay, if it was cut short.
    """

    end: int
    issued: Sequence[int]
    busy: Sequence[int]
    launched: int
    retired: int
    dependence: Sequence[int]
    pipeline: Sequence[int]
    not_selected: int
    drained: int
    resident: int
    simulated: int
    cut_short: bool = False
    half_time: int = 0
    half_count: int = 0
    profile: Profile | None = None
    trace: list[TraceEvent] = field(default_factory=list)

    def simulation(self, unit: Unit, engine: str) -> Simulation:
        """The public result, in cycles."""
        ticks = unit.pipelines.ticks
        operations, names = unit.pipelines.operations, unit.pipelines.names
        count = sum(self.issued)
        blamed = {node: d / ticks for node, d in enumerate(self.dependence) if d}
        events = EventTotals(
            issued=dict(zip(operations, self.issued, strict=True)),
            busy={n: b / ticks for n, b in zip(names, self.busy, strict=True)},
            blocks_launched=self.launched,
            blocks_retired=self.retired,
            dependence=self._by_operation(unit, blamed),
            blamed=blamed,
            pipeline={n: p / ticks for n, p in zip(names, self.pipeline, strict=True)},
            not_selected=self.not_selected / ticks,
            drained=self.drained / ticks,
            resident=self.resident / ticks,
        )
        skipped = 1 - self.simulated / count if count else 0.0
        return Simulation(self.end / ticks, count, events, skipped, engine, tuple(self.trace))

    @staticmethod
    def _by_operation(unit: Unit, blamed: Mapping[int, float]) -> dict[str, float]:
        operation = {n.graph_node: n.operation for p in unit.programs for n in p.nodes}
        sums = dict.fromkeys(unit.pipelines.operations, 0.0)
        for node, cycles in blamed.items():
            sums[unit.pipelines.operations[operation[node]]] += cycles
        return sums
