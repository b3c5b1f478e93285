"""The launch that is rewritten: which nodes, accesses and loops of its model the code names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from perfassert.engines.advisor.case import Case
from perfassert.hardware.model import Device
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import BoundKernel, Description
from perfassert.kernel.program import Program
from perfassert.predictor.model import Model
from perfassert.predictor.rewrites.changed_graph import OUTSIDE, copies_of_loops


@dataclass(frozen=True)
class Site:
    """A launch as it is, by its model, and as optimizers see it."""

    model: Model
    case: Case

    @property
    def device(self) -> Device:
        """The device."""
        return self.model.device

    @property
    def kernel(self) -> Description:
        """The bound kernel."""
        return self.model.bound_launch.kernel

    @property
    def program(self) -> Program | None:
        """Program of the kernel; None for a description by hand."""
        return self.kernel.program if isinstance(self.kernel, BoundKernel) else None

    @property
    def accesses(self) -> Sequence[BoundAccess]:
        """Accesses of the kernel's code; empty for a description by hand."""
        return self.kernel.bound if isinstance(self.kernel, BoundKernel) else ()

    @cached_property
    def copies(self) -> Mapping[int, tuple[int, ...]]:
        """Nodes of the graph by instruction."""
        by_instruction: dict[int, list[int]] = {}
        launching = self.model.launch_nodes
        for node in self.model.graph.nodes:
            if node.index not in launching:
                by_instruction.setdefault(node.instruction, []).append(node.index)
        return {n: tuple(nodes) for n, nodes in by_instruction.items()}

    def nodes(self, instructions: Iterable[int]) -> frozenset[int]:
        """Nodes of the graph that stand for these."""
        return frozenset(n for i in instructions for n in self.copies.get(i, ()))

    def touched_accesses(self, instructions: Iterable[int]) -> frozenset[int]:
        """Numbers of their accesses."""
        nodes = self.model.graph.nodes
        return frozenset(t for n in self.nodes(instructions) for t in nodes[n].touches)

    @cached_property
    def _loops(self) -> Mapping[int, Sequence[int]]:
        return {OUTSIDE: [OUTSIDE], **copies_of_loops(self.case.code, self.model.graph)}

    def loops(self, loops: Iterable[int]) -> frozenset[int]:
        """Loops of the graph that stand for these of the code."""
        return frozenset(x for loop in loops for x in self._loops.get(loop, ()))
