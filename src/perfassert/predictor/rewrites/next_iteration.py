"""Loads of a loop's body that an iteration can issue for the next one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from perfassert.kernel.graph import Node
from perfassert.kernel.program import Program
from perfassert.predictor.rewrites.control_dependence import ControlDependence

Registers = Callable[[Node], tuple[Sequence[str], Sequence[str]]]
"""Function that returns the registers which a node defines and uses."""


def loads_for_next(
    nodes: Sequence[Node],
    loads: Collection[int],
    registers: Registers,
    program: Program | None,
    control: ControlDependence | None,
) -> frozenset[int]:
    """Return the ``loads`` that depend on no value that one of them has loaded.

    A dependence goes through an operand or through a branch that decides on their execution.
    """
    left = set(loads)
    loaded = _Loaded(program)
    decisions: set[int] = set()  # blocks that end with a branch on what was loaded
    for _ in range(2):  # the second time with what the first left in registers
        for n in nodes:
            needs = loaded.reach(n, registers) or _is_decided(n, decisions, control)
            if needs and n.operation == "branch" and control is not None:
                decisions.add(control.block(n.program))
            if needs:
                left.discard(n.index)
            loaded.define(n, registers, needs or n.index in left)
    return frozenset(left)


def _is_decided(node: Node, blocks: Collection[int], control: ControlDependence | None) -> bool:
    """Return True if a branch at the end of one of these blocks decides if the node runs."""
    if control is None or not blocks:
        return False
    block = control.block(node.program)
    return any(not control.always_follows(block, b) for b in blocks)


class _Loaded:
    """Registers that hold what was loaded, or what was computed from it.

    ``@P R = …`` leaves the old value to the lanes where P is false: instructions under the same P
    do not see it.
    """

    def __init__(self, program: Program | None) -> None:
        self._program = program
        self._registers: set[str] = set()
        self._except: dict[str, str] = {}  # register → under which predicate it is none of them

    def reach(self, node: Node, registers: Registers) -> bool:
        """Return True if an instruction reads a register that holds a loaded value."""
        predicate, uses = self._predicate(node), registers(node)[1]
        if predicate and self._program is not None:
            uses = self._program.instructions[node.program].uses
        return any(
            name in self._registers and (not predicate or self._except.get(name) != predicate)
            for name in uses
        )

    def define(self, node: Node, registers: Registers, loaded: bool) -> None:
        """Record whether the registers that an instruction defines now hold loaded values."""
        predicate = self._predicate(node)
        for name in registers(node)[0]:
            if loaded:
                self._registers.add(name)
                self._except.pop(name, None)
            elif not predicate:
                self._registers.discard(name)
            elif name in self._registers:
                self._except[name] = predicate
            self._except = {r: p for r, p in self._except.items() if p.lstrip("!") != name}

    def _predicate(self, node: Node) -> str:
        if self._program is None or node.program < 0:
            return ""
        return self._program.instructions[node.program].predicate
