"""Reference simulator, written for readability: each dynamic instruction, event by event.

It implements the paper's Algorithm 1 and defines what the paper leaves open (see
``docs/explanation/time.md``). Completions precede issues at equal times. Idle pipelines wake on
events instead of polling. The arbitration is fixed. The compiled engine gives the same results.
This engine is its reference, and replaces it if the extension was not built.
"""

from __future__ import annotations

from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.events import Listener
from perfassert.engines.pipeline.listeners import Accounting, Profiling, Tracing
from perfassert.engines.pipeline.reference_dataflow import DataflowMachine
from perfassert.engines.pipeline.reference_in_order import InOrderMachine
from perfassert.engines.pipeline.results import Totals


class Reference:
    """A run over a :class:`Unit`; ``window`` in ticks asks for a trace."""

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
        totals.instructions = totals.simulated = sum(totals.issued)
        totals.profile = profiling.profile if profiling else None
        totals.trace = tracing.trace if tracing else []
        return totals
