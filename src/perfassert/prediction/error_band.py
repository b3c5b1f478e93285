"""How wrong a metric is known to be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorBand:
    """Relative errors. ``error``: the 90th percentile on ``suite``, 0 for a fact, None where that
    kind of kernel was never measured; ``band``: what verdicts and ties count with; ``outside``: in
    what the kernel lies beyond those of its kind that were measured."""

    error: float | None
    band: float
    suite: str = ""
    outside: str = ""

    @property
    def exact(self) -> bool:
        """Whether it is a fact of the binary or the launch."""
        return self.error == 0 and not self.suite

    def describe(self) -> str:
        """``"exact"``, ``"model ±4 %"``, or ``"error unknown"``."""
        if self.error is None:
            return "error unknown"
        if self.exact:
            return "exact"
        share = 100 * self.error
        return f"model ±{share:.0f} %" if share >= 1 else f"model ±{share:.1g} %"


FACT = ErrorBand(0.0, 0.0)
