"""``perfassert calibrate -o my-gpu.toml``: a device file from measurements on the GPU at hand."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.command import add_command
from perfassert.cli.exit_status import INTERRUPTED, OK
from perfassert.cli.terminal import progress, say
from perfassert.errors import PerfAssertError
from perfassert.report.tables import Table, Text, join, table

if TYPE_CHECKING:
    from perfassert.lab.calibration.run import CalibrationOutcome


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = add_command(
        commands, "calibrate", "measure the GPU at hand, write its device file",
        "Runs small kernels on a GPU of this machine and writes a device file with what they "
        "measure. Needs a GPU and its driver.",
        "-o my-gpu.toml", "-o my-gpu.toml --gpu 1",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="device file (.toml)"
    )
    parser.add_argument("--name", help="the device's name (default: the GPU's)")
    parser.add_argument("--gpu", type=int, default=0, metavar="N", help="number of the GPU")
    parser.add_argument("--fresh", action="store_true", help="measure anew what is known already")
    parser.add_argument(
        "--pictures", type=Path, metavar="DIR", help="write a picture of each boat hull"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Return 0, or 130 if interrupted; a later call then continues."""
    from perfassert.lab.calibration.cuda_driver import open_driver
    from perfassert.lab.calibration.pictures import check_pictures, draw
    from perfassert.lab.calibration.run import calibrate, journal_path

    output: Path = options.output
    if output.suffix != ".toml":
        raise PerfAssertError(f"{output}: a device file ends with .toml")
    if not output.parent.is_dir():
        raise PerfAssertError(f"{output}: there is no folder {output.parent}; make it first")
    if options.pictures:
        check_pictures()
    gpu = open_driver(options.gpu)
    try:
        for warning in gpu.warnings():
            print(f"perfassert: warning: {warning}", file=sys.stderr)
        with progress("measured") as bar:
            outcome = calibrate(gpu, output, options.name, options.fresh, bar)
    except KeyboardInterrupt:
        kept = journal_path(output)
        print(f"\nperfassert: interrupted; {kept} keeps what is measured", file=sys.stderr)
        return INTERRUPTED
    finally:
        gpu.close()
    if not options.json:
        say(_describe_outcome(outcome, output))
    drawn = draw(outcome.findings, options.pictures) if options.pictures else []
    if options.json:
        print(json.dumps({**_to_dict(outcome, output), "pictures": list(map(str, drawn))}))
    elif drawn:
        print(f"{len(drawn)} pictures in {options.pictures}")
    return OK


def _to_dict(outcome: CalibrationOutcome, output: Path) -> dict[str, Any]:
    """Return values in base units by their keys in the device file, and why others are missing."""
    from perfassert.lab.calibration.evaluate import MeasuredEntry

    entries = outcome.findings.entries.items()
    return {
        "file": str(output),
        "device": outcome.device.name,
        "nearest": outcome.nearest.name,
        "measured": {
            k: {"value": e.value, "note": e.note}
            for k, e in entries
            if isinstance(e, MeasuredEntry)
        },
        "missing": dict(outcome.missing()),
    }


def _describe_outcome(outcome: CalibrationOutcome, output: Path) -> Text:
    """Classes with their latencies, what could not be measured and why, where it is."""
    from perfassert.lab.calibration.evaluate import MeasuredEntry

    rows = []
    entries = outcome.findings.entries
    for name, operation in outcome.device.operations.items():
        results = [entries.get(f"operations.{name}.{part}") for part in ("issue", "completion")]
        if not any(isinstance(result, MeasuredEntry) for result in results):
            continue
        shown = [f"{operation.issue:.4g}", f"{operation.completion:.4g}"]
        notes = [r.note for r in results if isinstance(r, MeasuredEntry)]
        cells = [
            number if isinstance(result, MeasuredEntry) else f"({number})"
            for number, result in zip(shown, results, strict=True)
        ]
        rows.append((name, *cells, notes[0]))
    lines: list[str | Table] = [table(("class", "λ", "Λ", "how"), rows), ""]
    lines += [f"not measured: {key}: {reason}" for key, reason in outcome.missing()]
    lines.append(
        f"{output}: {outcome.measured_count()} values measured; the others are the driver's, or "
        f"those of {outcome.nearest.name}"
    )
    return join(lines, "\n")
