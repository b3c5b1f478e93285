"""Picture of each operation class: its measurements and the fitted hull."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from perfassert.lab.calibration.driver import CalibrationError
from perfassert.lab.calibration.evaluate import Curve, Evaluation
from perfassert.lab.calibration.fits import equation_1


def check_pictures() -> None:
    """Raise an error before any measurement if pictures cannot be drawn."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise CalibrationError('--pictures needs matplotlib: pip install "perfassert[plot]"')


def draw(findings: Evaluation, folder: Path) -> list[Path]:
    """Write ``fp32.png`` and so on, with the time and the throughput over the warps."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CalibrationError(f"{folder}: cannot be made: {error.strerror}") from None
    return [_draw(name, curve, folder / f"{name}.png") for name, curve in findings.curves.items()]


def _draw(name: str, curve: Curve, path: Path) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    warps, cycles = np.array(curve.warps), np.array(curve.cycles)
    figure = Figure(figsize=(9, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    left.plot(warps, cycles / warps, "k.", markersize=4, label="measured")
    right.plot(warps, warps / cycles, "k.", markersize=4)
    title = f"{name}: no hull"
    if curve.hull is not None:
        hull = curve.hull
        x = np.linspace(warps.min(), warps.max(), 400)
        y = equation_1(x, curve.length, hull.issue, hull.completion) / curve.length
        left.plot(x, y / x, label="equation (1)")
        right.plot(x, x / y)
        title = f"{name}: λ = {hull.issue:.3g}, Λ = {hull.completion:.3g}"
        title += f", residual {100 * hull.residual:.2g} %"
    left.set(xlabel="warps of the pipeline", ylabel="cycles per instruction", yscale="log")
    right.set(xlabel="warps of the pipeline", ylabel="instructions per cycle")
    left.legend()
    figure.suptitle(title)
    figure.savefig(path, dpi=100)
    return path
