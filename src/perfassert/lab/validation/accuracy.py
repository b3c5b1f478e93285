"""Page of measured errors: results of every suite, targets, and where the model is wrong."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timezone
from itertools import chain, pairwise
from math import inf, isinf
from pathlib import Path

from perfassert.errors import PerfAssertError
from perfassert.lab.validation.bands import HeldOut, hold_out
from perfassert.lab.validation.run import MetricResult, Validation
from perfassert.lab.validation.statistics import APART, Summary, binomial_interval
from perfassert.lab.validation.suite import CellCondition, FittedOn, Suite
from perfassert.lab.validation.targets import FIGURES
from perfassert.report.tables import percent

EPOCH = "SOURCE_DATE_EPOCH"
_WIDTH = 100  # columns of the page
_HEAD = """\
# Accuracy

This page shows how far predictions are from measurements on real GPUs. It is generated: all figures
in its tables come from running the suites in `validation/`.

Model version {model}, {date}, {rows}.

The measurements are not part of the project; each suite names their source. With their folder in
the environment variable `PERFASSERT_MEASURED`, this command regenerates the page:

```text
perfassert validate validation/*.toml --accuracy docs/results/accuracy.md
```
"""
_READING = f"""\
## How to read the tables

| column | meaning |
|---|---|
| n | rows that have both a measurement and a prediction |
| median, mean, 90th percentile | of the errors, \\|predicted − measured\\| / measured |
| Spearman, Kendall | rank correlation of measured and predicted: 1 is the same order |
| regret | how much worse the configuration that the model would pick is than the true best |
| right order | of the pairs that differ by {APART * 100:g} % or more when measured, the fraction \
that is predicted in that order |

If a suite has groups (for example, several kernels), ranks are taken within a group: correlations
are means over the groups, weighted by their rows, and the regret is the worst of any group. If the
model considers several configurations equally good, the regret is the mean over them. `–` means
not defined, as for the correlation with a constant.

Values of device files, and a few other parameters, were chosen by looking at some of these rows.
Such rows show how well the model fits; only the others test it. The two kinds of rows therefore
have separate tables, and a *target*, which is what the model is built to reach, is met or missed on
the others alone. A hash of the configuration decides which half of a suite's configurations may be
used for fitting.

A median says what to expect of a typical configuration, not of yours.
"""
_COVERAGE = """\
## How often the stated error holds

A prediction states the error of its time that nine of ten predictions of its kind stay below. Here
rows that no value of the model has seen are held against the band that a prediction would state if
their suite, or their device, had never been measured: calibrated, and widened, by all others.
Extrapolated predictions count, too, and guesses with the band of guesses. The interval is what 95 %
of samples of so many rows would show of that share, if rows did not depend on each other; those of
one suite do. Groups of less than {least} rows count together.

{suites}

{devices}

The same rows by what limits them, and by the width of the band:

{limiters}

{widths}
"""
_LEAST = 40  # rows of a group that the page shows by itself
_WIDTHS = (0.0, 0.1, 0.15, 0.2, 0.3, 0.5, inf)
"""Ends of the groups of bands, as shares."""
_TAIL = """\
## What this does not say

- The suites have few kernels on few devices. On a device without a suite, the error is not known:
  the device file may contain values that nobody has measured (`perfassert devices NAME` shows the
  grade of each).
- The mechanisms of the model were found by looking at many of these rows, in both halves; only
  their values were fitted on one half.
- Clocks are assumed to be constant, but the measurements come from devices whose clocks vary.

[How a prediction is made](../explanation/model.md#what-is-not-modelled) lists what the model leaves
out by construction.
"""
_FEW, _ALL = "fewer rows", "all"
_HEADING = ("metric", "n", *(figure.heading for figure in FIGURES.values()))


def page_date() -> date:
    """Return the day of ``SOURCE_DATE_EPOCH``, else today; raises :class:`PerfAssertError`."""
    epoch = os.environ.get(EPOCH)
    if not epoch:
        return date.today()
    try:
        return datetime.fromtimestamp(int(epoch), timezone.utc).date()
    except (ValueError, OverflowError, OSError):
        reason = f"{EPOCH}: {epoch!r} is not a number of seconds since 1970; fix or unset it"
        raise PerfAssertError(reason) from None


def accuracy_page(results: Sequence[Validation], day: date, rows: int | None = None) -> str:
    """Return the whole page in Markdown; ``rows`` is the most that were taken of a suite."""
    chosen = "all rows" if rows is None else f"at most {rows} rows of each suite, evenly spread"
    head = _HEAD.format(model=results[0].model_version, date=day.isoformat(), rows=chosen)
    return "\n".join((head, _READING, *_coverage(results), *map(_section, results), _TAIL))


def _coverage(results: Sequence[Validation]) -> Iterator[str]:
    """Yield how often the stated error of a time holds, on suites that did not set that error."""
    by_suite, by_device = hold_out(results, "suite"), hold_out(results, "device")
    if len({row.group for row in by_suite}) < 2:
        return
    names = {result.suite.path.stem: result.suite.title for result in results}
    both = {"suite": by_suite, "device": by_device}
    yield _COVERAGE.format(
        least=_LEAST,
        suites=_shares("suite", {"suite": by_suite}, lambda row: names[row.group]),
        devices=_shares("device", {"device": by_device}, lambda row: row.group),
        limiters=_shares("limiter", both, lambda row: row.limiter),
        widths=_shares("band", both, _width),
    )


def _width(row: HeldOut) -> str:
    low, high = next(ends for ends in pairwise(_WIDTHS) if row.band <= ends[1])
    return f"above {percent(low, signed=False)}" if isinf(high) else _between(low, high)


def _between(low: float, high: float) -> str:
    return f"{percent(low, signed=False)} to {percent(high, signed=False)}"


def _shares(
    what: str, rows: Mapping[str, Sequence[HeldOut]], group: Callable[[HeldOut], str]
) -> str:
    """Tabulate groups: rows, share within the band and its interval, for each thing left out."""
    columns = [_pool(each, group) for each in rows.values()]
    names = sorted({name for column in columns for name in column} - {_FEW, _ALL})
    table = [
        (name, *chain.from_iterable(_share(column.get(name, ())) for column in columns))
        for name in (*names, _FEW, _ALL)
        if any(name in column for column in columns)
    ]
    heads = (text for left in rows for text in ("n", f"within, {left} left out", "interval"))
    return markdown_table((what, *heads), table)


def _pool(rows: Sequence[HeldOut], group: Callable[[HeldOut], str]) -> dict[str, list[bool]]:
    """Collect by group which rows are within their bands; small groups together, and all."""
    groups: dict[str, list[bool]] = {}
    for row in rows:
        groups.setdefault(group(row), []).append(row.inside)
    pooled: dict[str, list[bool]] = {}
    for name, inside in groups.items():
        pooled.setdefault(name if len(inside) >= _LEAST else _FEW, []).extend(inside)
    return {**pooled, _ALL: [row.inside for row in rows]}


def _share(inside: Sequence[bool]) -> tuple[str, str, str]:
    if not inside:
        return "–", "–", "–"
    share = percent(sum(inside) / len(inside), signed=False)
    return str(len(inside)), share, _between(*binomial_interval(sum(inside), len(inside)))


def _section(result: Validation) -> str:
    return "\n".join(line for part in _parts(result) for line in (part, ""))


def _parts(result: Validation) -> Iterator[str]:
    suite = result.suite
    yield f"## {suite.title}"
    source = f" from {suite.source}" if suite.source else ""
    failed = f", {len(result.failures)} without a prediction" if result.failures else ""
    facts = f"`{suite.path.name}`: {result.rows} rows of `{suite.data}`{source}{failed}."
    yield _wrap(facts)
    yield from _figures_of_unseen_rows(result)
    if any(metric.seen.n for metric in result.metrics):
        yield "Rows that were used for fitting and do not test the model:"
        yield markdown_table(
            _HEADING, [_metric_row(metric, metric.seen) for metric in result.metrics]
        )
    if suite.fitted_on:
        yield "What was fitted, and on which rows:"
        yield "\n".join(_wrap(_describe_fit(suite, entry), "- ") for entry in suite.fitted_on)
    if suite.limits:
        yield "Where it is wrong, and why:"
        yield "\n".join(_wrap(text, "- ") for text in suite.limits)


def _figures_of_unseen_rows(result: Validation) -> Iterator[str]:
    """Yield figures and targets of the rows that are a test."""
    if any(metric.unseen.n for metric in result.metrics):
        if result.suite.fitted_on:
            yield "Rows that were not used for fitting:"
        yield markdown_table(
            _HEADING, [_metric_row(metric, metric.unseen) for metric in result.metrics]
        )
    else:
        yield "All rows were used for fitting."
    if targets := [row for metric in result.metrics for row in _targets(result, metric)]:
        yield markdown_table(("metric", "figure", "target", "found", ""), targets)


def _metric_row(metric: MetricResult, summary: Summary) -> tuple[str, ...]:
    cells = (figure.format(figure.value(summary)) for figure in FIGURES.values())
    return (_name(metric), str(summary.n), *cells)


def _name(metric: MetricResult) -> str:
    per = f" per {metric.spec.per.replace('_', ' ')}" if metric.spec.per else ""
    return f"`{metric.spec.name}`{per}"


def _targets(result: Validation, metric: MetricResult) -> Iterator[tuple[str, ...]]:
    for name, target in result.suite.targets.get(metric.spec.name, {}).items():
        figure = FIGURES[name]
        value = figure.value(metric.unseen)
        bound = f"{'≥' if figure.least else '≤'} {figure.format(target)}"
        verdict = "met" if figure.is_met(value, target) else "**missed**"
        verdict = verdict if metric.unseen.n else "not tested"
        yield _name(metric), figure.heading, bound, figure.format(value), verdict


def _describe_fit(suite: Suite, entry: FittedOn) -> str:
    """Return one entry as a sentence: the fit, its device or source, and its rows."""
    values = ", ".join(f"`{value}`" for value in entry.values)
    what = [f"{values} of {', '.join(entry.devices)}"] if values else []
    what += [f"`{Path(source).name}`" for source in entry.sources]
    parts = [f"{', '.join(what)}:"] if what else []
    parts.append("half of the configurations" if entry.half else "all rows")
    parts += [f"with {_condition(condition)}" for condition in entry.filters]
    if entry.metrics:
        parts.append(f"(only {', '.join(f'`{name}`' for name in entry.metrics)})")
    note = f". {entry.note}" if entry.note else "."
    return " ".join(parts) + note


def _condition(condition: CellCondition) -> str:
    if condition.values is None:
        return f"`{condition.column}` from {condition.low:g} to {condition.high:g}"
    return f"`{condition.column}` = {' or '.join(map(str, condition.values))}"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of the page."""
    from tabulate import tabulate

    text: str = tabulate(rows, headers=list(header), tablefmt="github", disable_numparse=True)
    return text


def _wrap(text: str, bullet: str = "") -> str:
    filled = textwrap.fill(
        " ".join(text.split()),
        _WIDTH,
        initial_indent=bullet,
        subsequent_indent=" " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    )
    # A number at the end of a sentence that begins a line would begin a list.
    return re.sub(r"^( *\d+)\. ", r"\1\\. ", filled, flags=re.MULTILINE)
