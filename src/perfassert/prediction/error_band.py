"""Error bands: the known error of a metric."""

from __future__ import annotations

from dataclasses import dataclass

_SLIGHT = 0.005  # relative error that is printed as exact


@dataclass(frozen=True, slots=True)
class ErrorBand:
    """Relative errors. ``error``: the 90th percentile on ``suite``, 0 for a fact; without a suite,
    where that kind of kernel was never measured, what kinds most like it showed where they were
    left out, None without any; ``band``: what verdicts and ties count with; ``outside``: in what
    the kernel lies beyond those of its kind that were measured; ``above``, ``below``: how much
    further the truth may lie above or below, as the device is known to run at other clocks, too."""

    error: float | None
    band: float
    suite: str = ""
    outside: str = ""
    above: float = 0.0
    below: float = 0.0

    @property
    def exact(self) -> bool:
        """Return True if the metric is a fact of the binary or the launch, without any error."""
        return self.error == 0 and not self.suite

    @property
    def measured(self) -> bool:
        """True where its kind of kernel was measured."""
        return bool(self.suite)

    def interval(self, predicted: float) -> tuple[float, float]:
        """Return the least and the largest true value that the band leaves possible."""
        low = predicted / (1 + self.band) * (1 - self.below)
        return low, predicted * (1 + self.band) * (1 + self.above)

    def describe(self) -> str:
        """``"exact"``, ``"model ±4 %"``, ``"model ±30 %, extrapolated"``, ``"error unknown"``; and
        what the clock adds."""
        if self.exact:
            return "exact"
        if self.error is None:
            known = "error unknown"
        else:
            share = 100 * self.error
            known = f"model ±{share:.0f} %" if share >= 1 else f"model ±{share:.1g} %"
            known += "" if self.measured else ", extrapolated"
        return known + self.describe_clock()

    def describe_clock(self) -> str:
        """``", clock -4/+19 %"``; or ``""`` where the clock is known, or moves less than half a
        percent."""
        if max(self.above, self.below) < _SLIGHT:
            return ""
        return f", clock -{100 * self.below:.0f}/+{100 * self.above:.0f} %"


FACT = ErrorBand(0.0, 0.0)
