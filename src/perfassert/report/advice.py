"""Advice as text, in the sections of GPA's report (Figure 8), and as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from perfassert.prediction.prediction import Advice
from perfassert.predictor.answer import Answer
from perfassert.report.tables import Table, Text, indent, join, percent, table
from perfassert.report.trust import trust
from perfassert.system.confined import may_be_shown, read_text

_SECTIONS = (
    ("Code optimizers", ("stall elimination", "latency hiding")),
    ("Parallel optimizers", ("parallel",)),
)
_WIDTH = 96  # columns of a terminal
_SHOWN = 0.005  # of the samples: hotspots below are left out
_BUSY = 0.8  # of the time: a server that is busy for so long leaves little else to be won
_ONLY = {
    "dram": ("DRAM", "less traffic"),
    "l2": ("the L2", "less traffic between L1 and L2"),
    "l1": ("the L1", "fewer or better coalesced accesses"),
    "shared": ("shared memory", "fewer accesses or bank conflicts"),
    "atomics": ("atomics on one address", "spreading them"),
    "compute": ("arithmetic", "less or cheaper arithmetic"),
    "issue": ("issue slots", "fewer instructions"),
}
_EXPLAINED = (
    "Speedups: the launch simulated again with the change made. In parentheses the paper's "
    "formula, which knows the stall samples but not what the change costs or what limits the "
    "launch next."
)


def report(prediction: Answer, advice: Sequence[Advice], source: str) -> Text:
    """Return the output of ``perfassert advise``; ``source`` says where the samples come from."""
    grid, block = ("×".join(map(str, e)) for e in (prediction.grid, prediction.block))
    head = (
        f"{prediction.kernel} on {prediction.device}: grid {grid}, block {block}\n"
        f"predicted {prediction.time}, limited by {prediction.limiter}; samples: {source}"
    )
    parts: list[str | Table | Text] = [head, trust(prediction)]
    if prediction.assumptions:
        parts.append("Assumptions:\n" + "\n".join(f"- {a}" for a in prediction.assumptions))
    if source == "simulation":
        parts.append(stalls(prediction))
        parts += filter(None, [busiest_server_text(prediction)])
    if advice:
        parts.append(fill(_EXPLAINED, _WIDTH))
    texts = _Texts()
    for title, categories in _SECTIONS:
        own = [a for a in advice if a.category in categories]
        if own:
            parts.append(f"{title}\n{'=' * len(title)}")
            parts += [join((f"{n}. ", one(a, texts)), "") for n, a in enumerate(own, 1)]
    if not advice:
        parts.append("No suggestion: no optimizer finds a pattern that is worth a change.")
    return join(parts)


def busiest_server_text(prediction: Answer) -> str:
    """Return a hint that only the busiest resource can gain; empty below a share of ``_BUSY``."""
    servers = {name: float(prediction.bounds.get(name, 0.0)) for name in _ONLY}
    busiest = max(servers, key=lambda name: servers[name])
    share = servers[busiest] / float(prediction.time)
    if share < _BUSY:
        return ""
    what, only = _ONLY[busiest]
    return f"Limited by {what} at {percent(min(1.0, share), signed=False)}: only {only} helps."


def coverage(before: float, after: float) -> str:
    """Return the shares of operands with a single source, before and after pruning the graph."""
    shares = [percent(value, signed=False) for value in (before, after)]
    return f"Single-dependency coverage: {shares[0]} before pruning, {shares[1]} after"


def stalls(prediction: Answer) -> Table:
    """Return a table of stall reasons with their shares of the samples, largest first."""
    rows = sorted(prediction.stalls.items(), key=lambda item: -item[1])
    return table(
        ("warps are", "of the samples"), [(k, percent(v, signed=False)) for k, v in rows if v]
    )


class _Texts:
    """Cache of the lines of source files that can be read; each file is read once."""

    def __init__(self) -> None:
        self._files: dict[str, list[str]] = {}

    def line(self, file: str, number: int) -> str:
        """Return a source line without its indentation; empty if the line is not available."""
        if file not in self._files:
            try:
                known = bool(file) and may_be_shown(file)
                text = read_text(file, errors="replace") if known else ""
            except OSError:
                text = ""
            self._files[file] = text.splitlines()
        lines = self._files[file]
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def one(advice: Advice, texts: _Texts | None = None) -> Text:
    """Return a headline, what to do, and hotspots, with source lines where ``texts`` has them."""
    head = f"{advice.optimizer}: {_by(advice)}, importance {_share(advice.importance)}"
    parts: list[str | Table] = [
        head,
        indent(fill(advice.suggestion, _WIDTH, break_on_hyphens=False)),
    ]
    if advice.proof is not None:
        parts.append(indent(fill(f"proof: {advice.proof}", _WIDTH, break_on_hyphens=False)))
    hot = [h for h in advice.hotspots if h["importance"] >= _SHOWN] or advice.hotspots[:1]
    if hot:
        rows = [
            (h["def"], h["use"], h["distance"] or "", h.get("stall", ""), _hotspot_place(h),
             _share(h["importance"]))
            for h in hot
        ]  # fmt: skip
        header = ("definition", "use", "instructions apart", "waits", "in", "importance")
        parts.append(table(header, rows, indent="  "))
    if texts is not None:
        parts += _defining_lines(hot, texts)
    return join(parts, "\n")


def _share(value: float) -> str:
    return percent(value, signed=False)


def _hotspot_place(hotspot: Mapping[str, Any]) -> str:
    """Return a hotspot's loop, its function, and the calls that lead to the function."""
    calls = " → ".join(hotspot.get("call_path", ()))
    parts = (hotspot.get("loop"), hotspot.get("function"), calls and f"called at {calls}")
    return ", ".join(filter(None, parts))


def _defining_lines(hotspots: Sequence[Mapping[str, Any]], texts: _Texts) -> list[str]:
    """Return the text of each line in which a hotspot's operand is defined, once."""
    shown = dict.fromkeys((h["def"], h.get("file", ""), h.get("line", 0)) for h in hotspots)
    lines = [(place, texts.line(file, line)) for place, file, line in shown]
    return [f"  {place}: {fill(text, _WIDTH)}" for place, text in lines if text]


def _by(advice: Advice) -> str:
    """Return the speedup and its estimator; a simulated speedup is followed by the formula's."""
    if advice.context.get("estimate") == "formula":
        return f"{advice.speedup:.2f}x as fast by the formula"
    return f"{advice.speedup:.2f}x as fast (formula {advice.formula_speedup:.2f}x)"


def to_dict(prediction: Answer, advice: Sequence[Advice], source: str) -> dict[str, Any]:
    """Return the advice as plain data."""
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
        "bound": busiest_server_text(prediction),
        "advice": [advice_data(a) for a in advice],
        "confidence": prediction.confidence,
        "confidence_reasons": [assumption_data(a) for a in prediction.confidence_reasons],
        "assumptions": [assumption_data(a) for a in prediction.assumptions],
    }
