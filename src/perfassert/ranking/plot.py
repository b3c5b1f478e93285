"""Plot of a ranking: predicted time by rank; candidates that are tied with the best are marked."""

from __future__ import annotations

from pathlib import Path

from perfassert.errors import PerfAssertError
from perfassert.ranking.ranking import Ranking, format_key

_LABELLED = 24  # candidates; the names of more would not be legible


def plot(ranking: Ranking, path: Path) -> None:
    """Draw the candidates from the fastest to the slowest.

    Raises :class:`PerfAssertError` if matplotlib is missing or ``path`` cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        reason = 'the ranking curve needs matplotlib; pip install "perfassert[plot]"'
        raise PerfAssertError(reason) from None
    first, count = ranking.entries[0][1], len(ranking.entries)
    places = range(1, count + 1)
    times = [float(p.time) * 1e6 for _, p in ranking.entries]
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.plot(places, times, marker="o", markersize=4, linewidth=1)
    tied = set(ranking.tied_with_best())
    axes.plot(
        [i for i, (key, _) in enumerate(ranking.entries, 1) if key in tied],
        [float(p.time) * 1e6 for key, p in ranking.entries if key in tied],
        linestyle="", marker="o", markersize=7,
        label=f"tied: less than {100 * ranking.confidence:g} % sure that the best is faster",
    )  # fmt: skip
    axes.set(xlabel="place", ylabel="predicted time [µs]", ylim=(0, None))
    axes.set_title(f"{first.kernel} on {first.device}")
    if count <= _LABELLED:
        axes.set_xticks(places, [format_key(key) for key, _ in ranking.entries], rotation=60)
    axes.legend(loc="upper left")
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise PerfAssertError(f"{path}: cannot be written: {error}") from None
