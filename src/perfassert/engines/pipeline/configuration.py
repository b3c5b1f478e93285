"""Configuration of the simulated SM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from perfassert.engines.pipeline.program import NodeCost, Pipelines, WarpProgram, with_trips
from perfassert.kernel.graph import InstructionGraph


@dataclass(frozen=True, slots=True)
class Unit:
    """An SM and the blocks that it has to run; ``width`` 0 means no issue limit.

    ``stagger`` is the number of ticks between the starts of successive blocks of the first resident
    ones (in-order only). ``profile`` asks for the time of the warps at each node (in-order only).
    ``channels`` holds the arrivals that complete a phase of each channel of a block.
    """

    programs: tuple[WarpProgram, ...]
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
    channels: tuple[int, ...] = ()

    def with_trips(self, graph: InstructionGraph) -> Unit:
        """Return the unit of its graph whose loops run as often as those of ``graph``."""
        return replace(self, programs=with_trips(self.programs, self.variant, graph))

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return len(self.variant)

    @property
    def block_length(self) -> int:
        """Instructions that the warps of a block execute."""
        return sum(self.programs[v].length for v in self.variant)

    @property
    def graph_nodes(self) -> int:
        """Largest number of a node in the graph, plus one."""
        return max((p.outline.graph_nodes for p in self.programs), default=0)

    @property
    def node_costs(self) -> Iterator[tuple[int, NodeCost]]:
        """The nodes of the graph that some warp executes, each with its cost."""
        for program in self.programs:
            for node, cost in zip(program.outline.nodes, program.costs, strict=True):
                yield node.graph_node, cost

    def nodes_on(self, pipeline: str) -> set[int]:
        """Return the nodes of the graph that are issued to a pipeline."""
        names = self.pipelines.names
        return {node for node, cost in self.node_costs if names[cost.pipeline] == pipeline}

    @property
    def copies(self) -> tuple[tuple[int, ...], ...]:
        """Number of the copy of each pipeline that serves each scheduler."""
        # For example, with 2 schedulers, a pipeline per scheduler and one per SM: ((0, 1), (2, 2)).
        result: list[tuple[int, ...]] = []
        count = 0
        for scoped in self.pipelines.per_scheduler:
            own = range(count, count + self.schedulers) if scoped else [count] * self.schedulers
            result.append(tuple(own))
            count = result[-1][-1] + 1
        return tuple(result)

    @property
    def runs_on(self) -> frozenset[int]:
        """Copies of pipelines without a queue whose issue times are not a multiple of the slots."""
        depths, ticks = self.pipelines.depths, self.pipelines.ticks
        costs = (c for program in self.programs for c in program.costs if self.width)
        off_slot = {c.pipeline for c in costs if not depths[c.pipeline] and c.issue % ticks}
        return frozenset(copy for pipeline in off_slot for copy in self.copies[pipeline])
