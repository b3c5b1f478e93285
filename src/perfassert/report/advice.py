"""Advice as text, in the sections of GPA's report (Figure 8), and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

from perfassert.prediction.prediction import Advice, Prediction
from perfassert.report.tables import indented, percent, table
from perfassert.report.trust import trust

_SECTIONS = (
    ("Code optimizers", ("stall elimination", "latency hiding")),
    ("Parallel optimizers", ("parallel",)),
)
_WIDTH = 96


def report(prediction: Prediction, advice: Sequence[Advice], source: str) -> str:
    """What ``perfassert advise`` prints; ``source``: where the samples come from."""
    grid, block = ("×".join(map(str, e)) for e in (prediction.grid, prediction.block))
    head = (
        f"{prediction.kernel} on {prediction.device}: grid {grid}, block {block}\n"
        f"predicted {prediction.time}, limited by {prediction.limiter}; samples: {source}"
    )
    parts = [head, trust(prediction)]
    if prediction.assumptions:
        parts.append("Assumptions:\n" + "\n".join(f"- {a}" for a in prediction.assumptions))
    if source == "simulation":
        parts.append(stalls(prediction))
    for title, categories in _SECTIONS:
        own = [a for a in advice if a.category in categories]
        if own:
            parts.append(f"{title}\n{'=' * len(title)}")
            parts += [f"{n}. {one(a)}" for n, a in enumerate(own, 1)]
    if not advice:
        parts.append("No suggestion: no optimizer finds a pattern that it could improve.")
    return "\n\n".join(parts)


def stalls(prediction: Prediction) -> str:
    """Where the warps' time goes."""
    rows = sorted(prediction.stalls.items(), key=lambda item: -item[1])
    return table(
        ("warps are", "of the samples"), [(k, percent(v, signed=False)) for k, v in rows if v]
    )


def one(advice: Advice) -> str:
    """Headline, what to do, hotspots."""
    head = (
        f"{advice.optimizer}: {advice.speedup:.2f}x as fast, {_by(advice)}; "
        f"importance {percent(advice.importance, signed=False)}"
    )
    text = [head, indented(fill(advice.suggestion, _WIDTH, break_on_hyphens=False))]
    if advice.hotspots:
        rows = [
            (h["def"], h["use"], h["distance"] or "", percent(h["importance"], signed=False),
             f"{h['speedup']:.2f}x")
            for h in advice.hotspots
        ]  # fmt: skip
        header = ("definition", "use", "instructions apart", "importance", "speedup")
        text.append(indented(table(header, rows)))
    return "\n".join(text)


def _by(advice: Advice) -> str:
    """Which of the two estimates it is, and what the other one says."""
    if advice.context.get("estimate") == "formula":
        return "by the formula of the paper"
    return f"by simulation of the change (the paper's formula: {advice.formula_speedup:.2f}x)"


def to_dict(prediction: Prediction, advice: Sequence[Advice], source: str) -> dict[str, Any]:
    """The same as plain data."""
    from perfassert.prediction.prediction import advice_data, assumption_data

    return {
        "kernel": prediction.kernel,
        "device": prediction.device,
        "grid": list(prediction.grid),
        "block": list(prediction.block),
        "time": float(prediction.time),
        "limiter": prediction.limiter,
        "samples": source,
        "stalls": dict(prediction.stalls) if source == "simulation" else {},
        "advice": [advice_data(a) for a in advice],
        "confidence": prediction.confidence,
        "confidence_reasons": [assumption_data(a) for a in prediction.confidence_reasons],
        "assumptions": [assumption_data(a) for a in prediction.assumptions],
    }
