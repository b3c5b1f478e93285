"""``perfassert validate SUITE.toml``: errors of predictions against measurements."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from perfassert.cli.command import add_command
from perfassert.cli.executors import add_executor, executor_of, positive
from perfassert.cli.exit_status import FAILED, OK
from perfassert.cli.terminal import progress, say
from perfassert.errors import PerfAssertError, SuiteError, close_matches
from perfassert.report.tables import join, percent

if TYPE_CHECKING:
    from perfassert.lab.validation.record import RowRecord
    from perfassert.lab.validation.run import Validation
    from perfassert.lab.validation.suite import Suite


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = add_command(
        commands, "validate", "compare predictions with measurements",
        "Predicts what the rows of a suite measured and reports the errors, separately for rows on "
        "which values were fitted.",
        "suite.toml --data measured/", "suite.toml --pairs time",
    )  # fmt: skip
    parser.add_argument("suite", type=Path, nargs="+", help="suite files (TOML)")
    parser.add_argument("--json", action="store_true", help="print JSON, a line for each suite")
    parser.add_argument("--pairs", metavar="METRIC", help="measured beside predicted, line by line")
    parser.add_argument(
        "--explain", action="store_true", help="what the error of the time is made of"
    )
    parser.add_argument(
        "--ablate", action="store_true", help="the error of the time with each mechanism turned off"
    )
    parser.add_argument(
        "--headroom", action="store_true",
        help="measured times over the speed of light, and the rows below it",
    )  # fmt: skip
    parser.add_argument("--plot", type=Path, metavar="PATH", help="write the scatter plot")
    parser.add_argument(
        "--rows", type=_row_limit, action="append", default=[], metavar="[SUITE=]N",
        help="only N rows of each suite, evenly spread, or of the suite of that file name",
    )  # fmt: skip
    add_executor(parser)
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="folder of the data (else PERFASSERT_MEASURED)"
    )
    parser.add_argument(
        "--sources",
        type=Path,
        metavar="DIR",
        help="folder of kernels and recordings that do not lie beside their suite",
    )
    parser.add_argument(
        "--no-contents", action="store_true",
        help="recorded launches by shapes and numbers, without the contents of buffers",
    )  # fmt: skip
    parser.add_argument(
        "--fail-above",
        action="append",
        default=[],
        metavar="METRIC=PERCENT",
        help="exit code 1 if the metric's median error is above, as in time=10%% (repeatable)",
    )
    parser.add_argument("--accuracy", type=Path, metavar="PAGE", help="write the page of errors")
    parser.add_argument(
        "--date",
        type=_date,
        metavar="YYYY-MM-DD",
        help="date of the page (else SOURCE_DATE_EPOCH, else today)",
    )
    parser.add_argument(
        "--bands", type=Path, metavar="FILE", help="write the table of known errors (TOML)"
    )
    parser.add_argument(
        "--pair-errors", type=Path, metavar="FILE",
        help="write the table of how sure the order of two launches is (TOML)",
    )  # fmt: skip
    parser.add_argument(
        "--decisions", type=Path, metavar="PAGE", help="write the page that tests it, with an SVG"
    )
    record = parser.add_mutually_exclusive_group()
    record.add_argument("--record", type=Path, metavar="PATH", help="write the figures as JSON")
    record.add_argument(
        "--against",
        type=Path,
        metavar="PATH",
        help="exit code 1 if a median error is over 2 percentage points worse than recorded there",
    )
    parser.set_defaults(command=run)


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date, as in 2025-12-31") from None


def _row_limit(text: str) -> tuple[str, int]:
    """Return a suite's file name and its number of rows; the empty name means all others."""
    name, _, number = text.rpartition("=")
    return name, positive(number)


def run(options: argparse.Namespace) -> int:
    """Return 0; or 1, without writing files, if nothing is predicted or a median is too far off.

    Mistakes in suites, data, record and options are reported before the first prediction.
    """
    from perfassert.lab.validation import ablate, explain, headroom
    from perfassert.lab.validation.accuracy import page_date
    from perfassert.lab.validation.data import read_rows
    from perfassert.lab.validation.read import read_suite
    from perfassert.lab.validation.record import check_comparable, read_record
    from perfassert.lab.validation.run import validate

    _check_options(options)
    day = options.date or page_date() if options.accuracy or options.decisions else None
    contents = not options.no_contents
    suites = [read_suite(path, options.sources, contents) for path in options.suite]
    limits = dict(_limit(text, suites[0]) for text in options.fail_above)
    most = dict(options.rows)
    if strangers := most.keys() - {"", *(suite.path.name for suite in suites)}:
        raise SuiteError(f"--rows {min(strangers)}=…: no suite has this file name")
    others = _common_limit(options)
    work = [
        (suite, read_rows(suite, options.data, most.get(suite.path.name, others)))
        for suite in suites
    ]
    record = read_record(options.against) if options.against else None
    if record:
        for suite, rows in work:
            check_comparable(record, suite, len(rows))
    results: list[Validation] = []
    with executor_of(options) as executor:
        for suite, rows in work:
            with progress(suite.path.name) as bar:
                result = validate(suite, rows, executor, bar)
            _print(result, options, first=not results)
            if options.explain:
                with progress(f"errors of {suite.path.name}"):
                    timed = explain.twice_timed(suite, rows, executor)
                print(f"\n{explain.text(timed)}")
            if options.ablate:
                with progress(f"ablations of {suite.path.name}"):
                    ablated = ablate.validate_ablations(suite, rows, executor)
                print(f"\n{ablate.text(ablated)}")
            results.append(result)
    if options.headroom:
        say(join(("\n", headroom.text(results)), ""))
    complaints = [c for result in results for c in _complaints(result, limits, record)]
    for complaint in complaints:
        print(f"perfassert: {complaint}", file=sys.stderr)
    if not complaints:
        _write(results, day, options)
    return FAILED if complaints else OK


def _check_options(options: argparse.Namespace) -> None:
    for name in ("explain", "ablate", "headroom"):
        if getattr(options, name) and options.json:
            raise PerfAssertError(f"--{name}: is a table; leave out --json")
    if options.date and not (options.accuracy or options.decisions):
        raise PerfAssertError("--date: goes with --accuracy or --decisions PAGE, whose date it is")
    if options.sources and not options.sources.is_dir():
        raise PerfAssertError(f"--sources {options.sources}: there is no such folder")
    written = (options.accuracy, options.record, options.bands, options.pair_errors)
    for path in (*written, options.decisions):
        if path and not path.parent.is_dir():
            raise PerfAssertError(f"{path}: there is no folder {path.parent}; make it first")
    if len(options.suite) == 1:
        return
    for name in ("pairs", "plot", "fail_above"):
        if getattr(options, name):
            option = name.replace("_", "-")
            raise PerfAssertError(f"--{option}: goes with one suite; name only that one")
    stems = [path.stem for path in options.suite]
    if twice := next((stem for i, stem in enumerate(stems) if stem in stems[:i]), ""):
        raise SuiteError(f"two suites are named {twice!r}; leave one out, or rename its file")


def _print(result: Validation, options: argparse.Namespace, first: bool) -> None:
    from perfassert.lab.validation import report

    if options.json:
        print(json.dumps(report.to_dict(result)))
    else:
        say(join(("" if first else "\n", report.text(result)), ""))
        if options.pairs:
            say(join((f"\n{options.pairs}", report.pairs(result, options.pairs)), "\n"))
    sys.stdout.flush()
    if options.plot:
        report.plot(result, options.plot)


def _common_limit(options: argparse.Namespace) -> int | None:
    """Return the most rows to take of a suite without a limit of its own; None: all rows."""
    return dict(options.rows).get("")


def _write(results: Sequence[Validation], day: date | None, options: argparse.Namespace) -> None:
    from perfassert.lab.validation.accuracy import accuracy_page
    from perfassert.lab.validation.record import to_record
    from perfassert.report.files import replace_bytes

    texts: dict[Path, str | bytes] = {}
    if options.accuracy and day:
        texts[options.accuracy] = accuracy_page(results, day, _common_limit(options))
    if options.decisions and day:
        from perfassert.lab.validation.decisions import decisions_page, picture_path

        picture = picture_path(options.decisions)
        texts[options.decisions], texts[picture] = decisions_page(results, day, picture.name)
    if options.pair_errors:
        from perfassert.lab.validation.pairs import (
            fit_pair_errors,
            measured_pairs,
            pair_errors_text,
        )

        fits = fit_pair_errors(measured_pairs(results))
        texts[options.pair_errors] = pair_errors_text(fits, results[0].model_version)
    if options.bands:
        from perfassert.lab.validation.bands import bands, bands_text, left_out_factors

        texts[options.bands] = bands_text(
            bands(results), results[0].model_version, left_out_factors(results)
        )
    if options.record:
        texts[options.record] = (
            json.dumps(to_record(results, _common_limit(options)), indent=2) + "\n"
        )
    for path, text in texts.items():
        replace_bytes(path, text if isinstance(text, bytes) else text.encode())


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


def _complaints(
    result: Validation, limits: Mapping[str, float], record: RowRecord | None
) -> Iterator[str]:
    from perfassert.lab.validation.record import worse

    if len(result.failures) == result.rows:
        yield f"{result.suite.path}: not one row could be predicted"
        return
    for name, limit in limits.items():
        metric = result.metric(name)
        if not metric.strict_median <= limit:
            failed = len(metric.failures)
            note = f", {failed} rows without it counted as wrong" if failed else ""
            median, most = (percent(v, signed=False) for v in (metric.strict_median, limit))
            yield f"{name}: median error {median} is above {most}{note}"
    if record:
        yield from worse(record, result)
