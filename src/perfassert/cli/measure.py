"""``perfassert measure SUITE.toml -o OUT.csv``: a suite's kernels on a GPU, for ``validate``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from perfassert.cli.command import add_command
from perfassert.cli.exit_status import INTERRUPTED
from perfassert.errors import PerfAssertError


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = add_command(
        commands, "measure", "measure a suite's kernels on a GPU",
        "Compiles and times the kernels of a suite on a GPU of this machine, and writes the table "
        "that perfassert validate reads. Needs a GPU and its driver.",
        "suite.toml -o measured.csv",
    )  # fmt: skip
    parser.add_argument("suite", type=Path, help="suite file (TOML) whose kernels have rows")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT.csv",
        help="rows that it has already are kept",
    )  # fmt: skip
    parser.add_argument("--gpu", type=int, default=0, metavar="N", help="number of the GPU")
    parser.add_argument("--device", default="", help="its device name or file (default: by name)")
    parser.add_argument("--kernel", action="append", default=[], help="only this (repeatable)")
    parser.add_argument("--warmup", type=_count, default=3, metavar="N", help="untimed launches")
    parser.add_argument(
        "--repetitions",
        type=_positive,
        default=20,
        metavar="N",
        help="timed launches of each row (default: 20)",
    )
    parser.add_argument("--again", action="store_true", help="measure rows that are there, too")
    parser.add_argument("--no-counters", action="store_true", help="times only, without ncu")
    parser.set_defaults(command=run)


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return number


def _positive(text: str) -> int:
    if _count(text) == 0:
        raise argparse.ArgumentTypeError("there is nothing to measure in 0 repetitions")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Return 0; raise an error (exit code 2) for what is missing, and keep what was measured."""
    from perfassert.lab.measurement.cuda_gpu import open_gpu
    from perfassert.lab.measurement.gpu import MeasurementError
    from perfassert.lab.measurement.run import Options, device_name, measure_counters, measure_times
    from perfassert.lab.validation.read import read_suite

    suite = read_suite(options.suite)
    if not options.output.parent.is_dir():
        raise PerfAssertError(f"{options.output}: there is no folder {options.output.parent}")
    chosen = Options(
        options.device, options.gpu, options.warmup, options.repetitions,
        tuple(options.kernel), options.again,
    )  # fmt: skip
    gpu = open_gpu(options.gpu)
    try:
        times = measure_times(suite, gpu, options.output, chosen, _print_progress)
        device = options.device or device_name(gpu.properties().name)
    except KeyboardInterrupt:
        _print_progress(
            f"interrupted; what was measured is in {options.output}, the same command goes on"
        )
        return INTERRUPTED
    finally:
        gpu.close()
    failures = list(times.failures)
    print(f"{options.output}: {times.measured} measured, {times.kept} kept")
    if not options.no_counters:
        failures += measure_counters(
            suite, device, options.output, chosen, _print_progress
        ).failures
    if failures:
        listed = "".join(f"\n  {failure}" for failure in failures)
        raise MeasurementError(f"not measured:{listed}")
    return 0


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
