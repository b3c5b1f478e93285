"""Control dependence: instructions that a program executes only if a branch goes one way."""

from __future__ import annotations

from perfassert.frontends.machine.control_flow import EXIT, immediate_postdominators, is_above
from perfassert.kernel.program import Program


class ControlDependence:
    """Blocks that follow on every path, of a program without the blocks that are never executed."""

    def __init__(self, program: Program) -> None:
        kept = {b: block for b in program.order
                if (block := program.blocks.get(b)) is not None and not block.skipped}  # fmt: skip
        self._block_of = {i: b for b, block in kept.items() for i in range(block.start, block.stop)}
        following = {
            b: [s for s in dict.fromkeys(block.successors) if s in kept] or [EXIT]
            for b, block in kept.items()
        }
        self._postdominator = immediate_postdominators({**following, EXIT: []})

    def block(self, instruction: int) -> int:
        """The block of an instruction; -1 where it lies in none."""
        return self._block_of.get(instruction, -1)

    def always_follows(self, block: int, before: int) -> bool:
        """Return True if ``block`` is executed whenever ``before`` is.

        The results of ``block`` may then be computed in ``before`` already.
        """
        if block < 0 or before < 0:
            return True
        return is_above(block, before, self._postdominator)


def control_dependence(program: Program) -> ControlDependence:
    """Return the control dependence of a program, computed once per program."""
    return program.found.once(ControlDependence, lambda: ControlDependence(program))
