"""Page of decisions: how often the order of two launches is decided, and is right."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from perfassert.errors import PerfAssertError
from perfassert.lab.validation.accuracy import markdown_table
from perfassert.lab.validation.pairs import (
    Decisions,
    decide_other_devices,
    decide_other_half,
    decide_other_suites,
    measured_pairs,
    merge_decisions,
)
from perfassert.lab.validation.run import Validation
from perfassert.lab.validation.statistics import APART
from perfassert.predictor.judge.pairs import CONFIDENCE
from perfassert.report.tables import percent

_PAGE = """\
# Decisions

How often the predicted order of two launches is decided, and how often it is then the measured one.
This page is generated, with the [accuracy](accuracy.md) of single predictions:

```text
perfassert validate validation/*.toml --decisions docs/results/decisions.md
```

Model version {model}, {date}. Pairs are of rows of one kernel, or of one group of a suite, that
nothing was fitted on, and whose prediction is no guess.
[`Prediction.probability_faster`](../reference/rankings.md) gives each predicted order a
probability; it is *decided* if that is at least {confidence}.

| column | meaning |
|---|---|
| pairs | whose predicted and whose measured times differ |
| decided | fraction of the pairs |
| right | fraction of the decided pairs whose predicted order is the measured one |
| of {apart} | fraction decided of the pairs whose measured times differ by {apart} or more |
| Brier | mean of (probability − 1 if the order was right, else 0)²: 0 is best |
| naive | the Brier score of a rule that is always sure of the predicted order |

## Tested on the other half of the rows

The rows of all suites are halved by chance. Pairs within one half are judged by probabilities that
were calibrated on pairs within the other.

{halves}

The reliability diagram has those pairs by their probability; on the line, orders that are said to
be right in nine of ten cases are right in nine of ten.

![Fraction of right orders over the stated probability]({picture})

{bins}

## Tested on other suites

The pairs of each suite are judged by probabilities that were calibrated on all *other* suites: what
to expect of a kernel of a new kind.

{suites}

That the limiter of both launches decides how sure an order is, and so which kinds of pairs there
are, was chosen with all of these pairs in view.
"""
_DEVICES = """
## Tested on other devices

The pairs of each device are judged by probabilities that were calibrated on pairs of all *other*
devices. A pair of two devices counts for both.

{devices}

{bins}
"""


def decisions_page(results: Sequence[Validation], day: date, picture: str) -> tuple[str, bytes]:
    """Return the page in Markdown, and the picture that it shows, as SVG."""
    pairs = measured_pairs(results)
    halves, suites = decide_other_half(pairs), decide_other_suites(pairs)
    devices = decide_other_devices(pairs)
    titles = {result.suite.path.stem: result.suite.title for result in results}
    every = merge_decisions(list(halves.values()))
    text = _PAGE.format(
        model=results[0].model_version,
        date=day.isoformat(),
        confidence=f"{CONFIDENCE:g}",
        apart=percent(APART, signed=False),
        halves=_table("suite", titles, halves),
        bins=_reliability(every),
        suites=_table("suite", titles, suites),
        picture=picture,
    )
    if devices:
        text += _DEVICES.format(
            devices=_table("device", {name: name for name in devices}, devices),
            bins=_reliability(merge_decisions(list(devices.values()))),
        )
    return text, _draw(every)


def _reliability(decisions: Decisions) -> str:
    """Tabulate bins of probabilities with the share of orders that were right."""
    bins = [
        (f"{low:g} to {high:g}", str(count), f"{mean:.3f}", f"{right:.3f}")
        for low, high, count, mean, right in decisions.bins()
    ]
    return markdown_table(("probability", "pairs", "mean", "right"), bins)


def _table(what: str, titles: Mapping[str, str], judged: Mapping[str, Decisions]) -> str:
    rows = [_decision_row(titles[name], each) for name, each in judged.items()]
    rows.append(_decision_row("all", merge_decisions(list(judged.values()))))
    apart = f"of {percent(APART, signed=False)}"
    return markdown_table((what, "pairs", "decided", "right", apart, "Brier", "naive"), rows)


def _decision_row(title: str, d: Decisions) -> tuple[str, ...]:
    shares = (d.share_decided(), d.share_right, d.share_decided(APART))
    texts = ("–" if share is None else percent(share, signed=False) for share in shares)
    return (title, str(len(d.right)), *texts, f"{d.brier:.4f}", f"{d.naive_brier:.4f}")


def _draw(decisions: Decisions) -> bytes:
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        reason = 'the reliability diagram needs matplotlib; pip install "perfassert[plot]"'
        raise PerfAssertError(reason) from None
    figure = Figure(figsize=(5.6, 5), layout="constrained")
    axes = figure.subplots()
    axes.plot((0.5, 1), (0.5, 1), color="gray", linewidth=1, linestyle="--", label="calibrated")
    bins = [*decisions.bins()]
    axes.plot([b[3] for b in bins], [b[4] for b in bins], marker="o", label="measured pairs")
    for _, _, count, mean, right in bins:
        axes.annotate(
            f"{count:,}", (mean, right), xytext=(-7, 3), textcoords="offset points", fontsize=8,
            ha="right",
        )  # fmt: skip
    axes.set(
        xlabel="stated probability of the predicted order", ylabel="fraction of right orders",
        xlim=(0.5, 1.02), ylim=(0.45, 1.02),
    )  # fmt: skip
    axes.legend(loc="upper left")
    stream = io.BytesIO()
    with rc_context({"svg.hashsalt": "perfassert"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


def picture_path(page: Path) -> Path:
    """Return the path of a page's picture."""
    return page.with_suffix(".svg")
