"""``perfassert validate SUITE.toml``: how far predictions are from measurements."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from perfassert.errors import PerfAssertError, SuiteError, close_matches

if TYPE_CHECKING:
    from perfassert.validation.run import Submitter, Validation
    from perfassert.validation.suite import Suite

OK, FAILED = 0, 1
_WIDTH = 40  # characters of the progress bar


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "validate", help="compare predictions with measurements", description=__doc__
    )
    parser.add_argument("suite", type=Path, help="a suite file (TOML)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--pairs", metavar="METRIC", help="measured beside predicted, line by line")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="write the scatter plot")
    parser.add_argument("--jobs", type=_positive, metavar="N", help="processes (default: cores)")
    parser.add_argument("--rows", type=_positive, metavar="N", help="only N rows, evenly spread")
    parser.add_argument("--dask", metavar="ADDRESS", help="predict on a Dask scheduler")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="folder of the data (else PERFASSERT_MEASURED)"
    )
    parser.add_argument(
        "--fail-above",
        action="append",
        default=[],
        metavar="METRIC=PERCENT",
        help="exit code 1 if the metric's median error is above, as in time=10%% (repeatable)",
    )
    parser.set_defaults(command=run)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


def run(options: argparse.Namespace) -> int:
    """0, or 1 where nothing could be predicted or a median is above its limit."""
    from perfassert.validation import report
    from perfassert.validation.data import read_rows
    from perfassert.validation.read import read_suite
    from perfassert.validation.run import validate

    suite = read_suite(options.suite)
    limits = dict(_limit(text, suite) for text in options.fail_above)
    rows = read_rows(suite, options.data, options.rows)
    with _executor(options) as executor:
        result = validate(suite, rows, executor, _bar if sys.stderr.isatty() else None)
    print(json.dumps(report.to_dict(result)) if options.json else report.text(result))
    if options.pairs and not options.json:
        print(f"\n{options.pairs}\n{report.pairs(result, options.pairs)}")
    if options.plot:
        report.plot(result, options.plot)
    complaints = list(_complaints(result, limits))
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return FAILED if complaints else OK


def _limit(text: str, suite: Suite) -> tuple[str, float]:
    name, _, written = text.partition("=")
    names = [spec.name for spec in suite.metrics]
    if name.strip() not in names:
        hint = close_matches(name, names) or f"; it has {', '.join(names)}"
        raise SuiteError(f"--fail-above: the suite has no metric {name.strip()!r}{hint}")
    try:
        limit = float(written.strip().removesuffix("%")) / 100
    except ValueError:
        limit = -1.0
    if not limit >= 0:
        raise SuiteError(f"--fail-above: {text!r} is not METRIC=PERCENT, as in time=10%")
    return name.strip(), limit


@contextmanager
def _executor(options: argparse.Namespace) -> Iterator[Submitter | None]:
    from importlib import import_module

    from perfassert.validation.run import process_pool

    if not options.dask:
        with process_pool(options.jobs) as pool:
            yield pool
        return
    try:
        connect = import_module("distributed").Client
    except ImportError:
        raise PerfAssertError('--dask needs Dask; pip install "perfassert[dask]"') from None
    try:
        client = connect(options.dask)
    except (OSError, ValueError) as error:
        raise PerfAssertError(f"--dask {options.dask}: no scheduler answers: {error}") from None
    with client:
        yield client


def _bar(done: int, total: int) -> None:
    filled = _WIDTH * done // total
    end = "\n" if done == total else ""
    bar = "█" * filled + "·" * (_WIDTH - filled)
    print(f"\r{bar} {done}/{total}", end=end, file=sys.stderr, flush=True)


def _complaints(result: Validation, limits: Mapping[str, float]) -> Iterator[str]:
    from perfassert.report.tables import percent

    if len(result.failures) == result.rows:
        yield "perfassert: not one row could be predicted"
        return
    for name, limit in limits.items():
        metric = result.metric(name)
        if not metric.strict_median <= limit:
            failed = len(metric.failures)
            note = f", {failed} rows without it counted as wrong" if failed else ""
            median, most = (percent(v, signed=False) for v in (metric.strict_median, limit))
            yield f"perfassert: {name}: median error {median} is above {most}{note}"
