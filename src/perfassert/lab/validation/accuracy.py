"""The page of measured errors: what every suite found, its targets, where the model is wrong."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timezone

from perfassert.errors import PerfAssertError
from perfassert.lab.validation.run import MetricResult, Validation
from perfassert.lab.validation.statistics import APART
from perfassert.lab.validation.targets import FIGURES

EPOCH = "SOURCE_DATE_EPOCH"
_WIDTH = 100
_HEAD = """\
# Accuracy

How far predictions are from measurements on real GPUs. This page is generated: all figures in its
tables come from running the suites in `validation/`.

Model version {model}, {date}, {rows}.

The measurements are not part of the project; each suite names their source. With their folder in
the environment variable `PERFASSERT_MEASURED`, this makes the page again:

```text
perfassert validate validation/*.toml --accuracy docs/accuracy.md
```
"""
_READING = f"""\
## How to read the tables

| column | means |
|---|---|
| n | rows that have both a measurement and a prediction |
| median, mean, 90th percentile | of the errors, \\|predicted − measured\\| / measured |
| Spearman, Kendall | rank correlation of measured and predicted: 1 is the same order |
| regret | how much worse than the true best the configuration is that the model would pick |
| right order | of the pairs that differ by {APART * 100:g} % or more when measured, the share \
that is predicted in that order |

Where a suite has groups (several kernels, say), ranks are taken within a group: correlations are
means over the groups weighted by their rows, the regret is the worst of any group. Where the model
holds several configurations for equally good, the regret is the mean over them. `–`: not defined,
as the correlation with a constant.

A median says what to expect of a typical configuration, not of yours. A *target* is what the model
is built to reach; one that is missed is said to be.
"""
_TAIL = """\
## What this does not say

- The suites are few kernels on few devices. On a device without a suite, the error is not known:
  the device file may hold values that nobody has measured (`perfassert devices NAME` shows the
  grade of each).
- Rules that were found on the rows of a suite have seen their answers; where that is so, the suite
  says it.
- Clocks are taken as fixed. Measurements come from devices that change theirs.

What the model leaves out by construction is listed in [The model](model.md#what-is-not-modelled).
"""


def page_date() -> date:
    """The day that ``SOURCE_DATE_EPOCH`` says, else today; raises :class:`PerfAssertError`."""
    epoch = os.environ.get(EPOCH)
    if not epoch:
        return date.today()
    try:
        return datetime.fromtimestamp(int(epoch), timezone.utc).date()
    except (ValueError, OverflowError, OSError):
        reason = f"{EPOCH}: {epoch!r} is no number of seconds since 1970; mend or unset it"
        raise PerfAssertError(reason) from None


def page(results: Sequence[Validation], day: date, rows: int | None = None) -> str:
    """The whole page, in Markdown; ``rows``: the most that were taken of a suite."""
    chosen = "all rows" if rows is None else f"at most {rows} rows of each suite, evenly spread"
    head = _HEAD.format(model=results[0].model_version, date=day.isoformat(), rows=chosen)
    return "\n".join((head, _READING, *map(_section, results), _TAIL))


def _section(result: Validation) -> str:
    return "\n".join(line for part in _parts(result) for line in (part, ""))


def _parts(result: Validation) -> Iterator[str]:
    suite = result.suite
    yield f"## {suite.title}"
    source = f" from {suite.source}" if suite.source else ""
    failed = f", {len(result.failures)} without a prediction" if result.failures else ""
    facts = f"`{suite.path.name}`: {result.rows} rows of `{suite.data}`{source}{failed}."
    yield _filled(facts)
    heading = ("metric", "n", *(figure.heading for figure in FIGURES.values()))
    yield _table(heading, [_row(metric) for metric in result.metrics])
    if targets := [row for metric in result.metrics for row in _targets(result, metric)]:
        yield _table(("metric", "figure", "target", "found", ""), targets)
    if suite.limits:
        yield "Where it is wrong, and why:"
        yield "\n".join(_filled(text, "- ") for text in suite.limits)


def _row(metric: MetricResult) -> tuple[str, ...]:
    summary = metric.summary
    cells = (figure.shown(figure.value(summary)) for figure in FIGURES.values())
    return (_name(metric), str(summary.n), *cells)


def _name(metric: MetricResult) -> str:
    per = f" per {metric.spec.per.replace('_', ' ')}" if metric.spec.per else ""
    return f"`{metric.spec.name}`{per}"


def _targets(result: Validation, metric: MetricResult) -> Iterator[tuple[str, ...]]:
    for name, target in result.suite.targets.get(metric.spec.name, {}).items():
        figure = FIGURES[name]
        found = figure.value(metric.summary)
        bound = f"{'≥' if figure.least else '≤'} {figure.shown(target)}"
        verdict = "met" if figure.met(found, target) else "**missed**"
        yield _name(metric), figure.heading, bound, figure.shown(found), verdict


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    from tabulate import tabulate

    text: str = tabulate(rows, headers=list(header), tablefmt="github", disable_numparse=True)
    return text


def _filled(text: str, bullet: str = "") -> str:
    return textwrap.fill(
        " ".join(text.split()),
        _WIDTH,
        initial_indent=bullet,
        subsequent_indent=" " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    )
