"""Fit values of a device file to measured suites; the result is graded ``fitted``.

    python validation/fit.py devices/V100-PCIE-32GB.toml --rows 78 \
        --value dram_latency --value dram_knee --suite validation/stream_occupancy_v100.toml

Only single numbers under ``[values]`` can be fitted: what holds for the device, whatever runs on
it. The script never sees a kernel's name, and takes only the rows that the suite's ``fitted_on``
declares for the values: the fitting half of its configurations. One value after the other is moved
by shrinking factors as long as the mean absolute logarithm of predicted over measured time falls,
summed over suites.
``--write`` enters values and residuals into the file; without it they are only printed.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from perfassert.hardware.load import device
from perfassert.lab.validation.data import DataRow, read_rows
from perfassert.lab.validation.halves import rows_to_fit
from perfassert.lab.validation.read import read_suite
from perfassert.lab.validation.run import validate
from perfassert.system.process_pool import process_pool

STEPS = (0.2, 0.1, 0.05, 0.02)
SOURCE = "validation-fit"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("device", type=Path, help="device file")
    parser.add_argument("--value", action="append", required=True, help="key of [values]")
    parser.add_argument("--suite", action="append", required=True, type=Path)
    parser.add_argument("--metric", default="time")
    parser.add_argument("--rows", type=int, help="rows of each suite, evenly spread")
    parser.add_argument("--data", type=Path, help="folder of the measured data")
    parser.add_argument("--write", action="store_true", help="enter the result into the file")
    options = parser.parse_args()
    text = options.device.read_text("utf-8")
    name = device(options.device).name
    work = []
    for path in options.suite:
        suite = read_suite(path)
        allowed = rows_to_fit(suite, read_rows(suite, options.data), name, options.value)
        work.append((suite, spread(allowed, options.rows)))
    with process_pool() as pool, TemporaryDirectory() as folder:

        def residuals(candidate: str) -> list[np.ndarray]:
            path = Path(folder) / f"{abs(hash(candidate))}.toml"
            path.write_text(candidate, "utf-8")
            errors = []
            for suite, rows in work:
                variant = replace(suite, device=replace(suite.device, name=str(path)))
                metric = validate(variant, rows, pool).metric(options.metric)
                errors.append(np.abs(np.log(metric.predicted / metric.measured)))
            return errors

        best, error = text, total(residuals(text))
        print(f"before: {100 * error:.2f} %")
        for step in STEPS:
            for key in options.value:
                for factor in (1 + step, 1 / (1 + step)):
                    while True:
                        candidate = with_value(best, key, value_of(best, key) * factor)
                        new = total(residuals(candidate))
                        if new >= error * (1 - 1e-4):
                            break
                        best, error = candidate, new
                        print(f"{key} = {value_of(best, key):.4g}: {100 * error:.2f} %", flush=True)
        final = residuals(best)
    for path, errors in zip(options.suite, final, strict=True):
        print(f"{path.stem}: mean {100 * errors.mean():.1f} %, worst {100 * errors.max():.1f} %")
    names = ", ".join(path.stem for path in options.suite)
    note = f"{names}, fitting half: residual {100 * total(final):.1f} % (mean)"
    for key in options.value:
        best = fitted_entry(best, key, note)
    if options.write:
        options.device.write_text(best, "utf-8")


def spread(rows: list[DataRow], most: int | None) -> list[DataRow]:
    """At most so many, evenly spread."""
    if most is None or most >= len(rows):
        return rows
    return [rows[i * len(rows) // most] for i in range(most)]


def total(residuals: list[np.ndarray]) -> float:
    """The mean over the suites of the mean over their rows."""
    return float(np.mean([part.mean() for part in residuals]))


def line_of(text: str, key: str) -> re.Match[str]:
    match = re.search(rf"^{re.escape(key)} = \{{ value = ([-\d.e_]+)(.*)\}}$", text, re.M)
    if not match:
        raise SystemExit(f"the device file has no single number {key!r} under [values]")
    return match


def value_of(text: str, key: str) -> float:
    return float(line_of(text, key)[1])


def with_value(text: str, key: str, value: float) -> str:
    match = line_of(text, key)
    return text[: match.start(1)] + f"{value:.4g}" + text[match.end(1) :]


def fitted_entry(text: str, key: str, note: str) -> str:
    """The entry as ``fitted``, with its residual; the source is named once at the top."""
    match = line_of(text, key)
    unit = re.search(r', unit = "[^"]*"', match[2])
    entry = f"{key} = {{ value = {match[1]}{unit[0] if unit else ''}, "
    entry += f'source = "{SOURCE}", grade = "fitted", note = "{note}" }}'
    text = text[: match.start()] + entry + text[match.end() :]
    if f"\n{SOURCE} = " not in text:
        source = f'{SOURCE} = "validation/fit.py on measured suites"'
        text = text.replace("[sources]\n", f"[sources]\n{source}\n", 1)
    return text


if __name__ == "__main__":
    main()
