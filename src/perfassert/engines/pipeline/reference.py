"""The simulator, written to be read: every dynamic instruction, one event after the other.

This is the paper's Algorithm 1 with its gaps closed (see ``docs/explanation/time.md``):
completions precede issues at equal times, idle pipelines wake on events instead of polling,
arbitration is fixed. The compiled engine gives the same results; this one is its reference, and
replaces it where no compiler was at hand.
"""

from __future__ import annotations

from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.events import Listener
from perfassert.engines.pipeline.listeners import Accounting, Profiling, Tracing
from perfassert.engines.pipeline.reference_dataflow import DataflowMachine
from perfassert.engines.pipeline.reference_in_order import InOrderMachine
from perfassert.engines.pipeline.results import Totals


class Reference:
    """One run over a :class:`Unit`; ``window`` in ticks asks for a trace."""

    def __init__(self, unit: Unit, window: tuple[int, int] = (0, 0)) -> None:
        self.unit = unit
        self.window = window

    def run(self) -> Totals:
        """Simulate until every block is complete."""
        unit = self.unit
        accounting = Accounting(unit)
        profiling = Profiling(unit) if unit.profile else None
        tracing = Tracing(unit, self.window) if self.window[0] < self.window[1] else None
        listeners: list[Listener] = [x for x in (accounting, profiling, tracing) if x is not None]
        machine = InOrderMachine if unit.in_order else DataflowMachine
        totals = accounting.totals
        totals.end = machine(unit, listeners).run()
        totals.simulated = sum(totals.issued)
        totals.profile = profiling.profile if profiling else None
        totals.trace = tracing.trace if tracing else []
        return totals
