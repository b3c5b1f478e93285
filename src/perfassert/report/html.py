"""Report of a session as one HTML file that needs no other file.

The page holds the table's data once, as JSON with five significant digits, and repeated values only
once. ``assets/report.js`` draws the table, and the details of a row when it is opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from perfassert.errors import printable
from perfassert.frontends.toolchain.names import short_label
from perfassert.report.document import Document, summary
from perfassert.report.page import page
from perfassert.report.reason import reason
from perfassert.system.confined import may_be_shown, read_text

_AROUND = 2  # lines shown before and after one that costs something
_WIDEST = 240  # characters of a source line
_HOTSPOTS = 5  # of one suggestion
_FIELDS = 12  # fields of a volume; the smaller ones are shown as one


def html(report: Document, root: Path) -> str:
    """Return the page; source files are relative to the folder ``root``."""
    return page("report", "Predicted performance", page_data(report, root), "prediction")


class _Shared:
    """Values that rows refer to by number, each stored once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[str, int] = {}

    def add(self, value: Any) -> int:
        key = json.dumps(value)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]


def page_data(report: Document, root: Path) -> dict[str, Any]:
    """Return the data that the page is drawn from; ``rows`` have the keys of predictions."""
    shared, names = _Shared(), _names(report["tests"])
    tests, rows, rankings = [], [], []
    for number, test in enumerate(report["tests"]):
        baselines = {b["label"]: _short(b) for b in test["baselines"] if b.get("label")}
        labels = {p["label"] for p in test["predictions"]}
        alone = [b for b in test["baselines"] if b.get("label") not in labels]
        kept = ("nodeid", "file", "line", "device", "outcome", "message")
        tests.append({key: test[key] for key in kept if test[key]})
        tests[-1].update({"baselines": alone} if alone else {})
        for p in test["predictions"]:
            baseline = {"baseline": baselines[p["label"]]} if p["label"] in baselines else {}
            shown = _with_file_names(p, names)
            why = {"reason": _short(text)} if (text := reason(test, shown)) else {}
            rows.append({"test": number, **_prediction_row(shown, shared), **baseline, **why})
        rankings += [{"test": number, **_short(r)} for r in test["rankings"]]
    return {
        "summary": summary(report),
        "version": report["perfassert"],
        "model": report["model_version"],
        "errors": report["errors"],
        "tests": tests,
        "rows": rows,
        "rankings": rankings,
        "shared": shared.values,
        "files": {names[f]: lines for f, lines in _files(report["tests"], root).items()},
    }


def _names(tests: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the files' names on the page.

    A file outside of the project has as much of its path as distinguishes it, and no more.
    """
    files = {f for test in tests for p in test["predictions"] for f in _mentioned_files(p)}
    outside = {f: Path(f).parts for f in files if Path(f).is_absolute()}

    def end(file: str) -> str:
        parts = outside[file]
        for count in range(2, len(parts)):
            if sum(other[-count:] == parts[-count:] for other in outside.values()) == 1:
                return "…/" + "/".join(parts[-count:])
        return file

    return {file: end(file) if file in outside else file for file in sorted(files)}


def _mentioned_files(p: Mapping[str, Any]) -> Iterator[str]:
    yield from p["sources"]
    yield from (finding["file"] for finding in p.get("findings", ()))
    yield from (wait[key] for wait in p.get("waits", ()) for key in _WAITING)
    for key in _ASSUMED:
        yield from (a["span"][0] for a in p[key] if a["span"])


def _with_file_names(p: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the prediction with its files named as on the page."""

    def assumption(given: Mapping[str, Any]) -> Mapping[str, Any]:
        span = given["span"]
        return {**given, "span": [names[span[0]], *span[1:]] if span else span}

    assumed = {key: [assumption(a) for a in p[key]] for key in _ASSUMED}
    waits = [{**w, **{key: names[w[key]] for key in _WAITING}} for w in p.get("waits", ())]
    sources = {names[f]: lines for f, lines in p["sources"].items()}
    findings = [{**f, "file": names[f["file"]]} for f in p.get("findings", ())]
    return {**p, **assumed, "sources": sources, "findings": findings, "waits": waits}


_PLAIN = ("label", "note", "block", "grid", "updates", "time", "limiter", "roofline_time",
          "roofline_limiter", "spread", "occupancy", "resources", "bounds",
          "confidence", "speed_of_light", "headroom")  # fmt: skip
_ASSUMED = ("assumptions", "confidence_reasons")
_WAITING = ("file", "for_file")
_SHARED = (
    "volumes",
    "expectations",
    "assumptions",
    "confidence_reasons",
    "sources",
    "stalls",
    "advice",
    "timeline",
    "waits",
    "findings",
)


def _prediction_row(p: Mapping[str, Any], shared: _Shared) -> dict[str, Any]:
    return {k: shared.add(v) if k in _SHARED else v for k, v in page_row(p).items()}


def page_row(p: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a prediction that pages draw; ``p`` also has ``label`` and ``note``."""
    row = {key: _short(p[key]) for key in _PLAIN if p.get(key)}
    if p.get("label") and (short := short_label(p["label"])) != p["label"]:
        row["short"] = short
    row["volumes"] = _volumes(p["volumes"])
    if band := p.get("error_bands", {}).get("time"):
        row["error_band"] = _short(
            {key: band.get(key) for key in ("error", "band", "above", "below")}
        )
    values = {**p, "advice": [_advice(a) for a in p.get("advice") or ()]}
    row.update({k: _short(values[k]) for k in _SHARED if k not in row and values.get(k)})
    return row


def _advice(advice: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("def", "use", "importance", "speedup")
    hotspots = [{key: h[key] for key in shown} for h in advice["hotspots"][:_HOTSPOTS]]
    return {**advice, "hotspots": hotspots}


def _volumes(volumes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the volumes above zero, each as its total, its parts, and its parts by field."""
    nonzero = {}
    for name, volume in volumes.items():
        if not volume["total"]:
            continue
        fields = {f: _parts(own) for f, own in volume.get("fields", {}).items()}
        ordered = sorted(fields, key=lambda f: -sum(fields[f].values()))
        if len(ordered) > _FIELDS:
            rest = ordered[_FIELDS - 1 :]
            ordered = [*ordered[: _FIELDS - 1], f"{len(rest)} others"]
            fields[ordered[-1]] = _sum(fields[f] for f in rest)
        nonzero[name] = _short(
            [volume["total"], _parts(volume), {f: fields[f] for f in ordered if fields[f]}]
        )
    return nonzero


def _parts(volume: Mapping[str, Any]) -> dict[str, float]:
    parts = volume.get("parts") or {"total": volume["total"]}
    return {part: amount for part, amount in parts.items() if amount > 1e-6 * volume["total"]}


def _sum(tables: Iterable[Mapping[str, float]]) -> dict[str, float]:
    result: dict[str, float] = {}
    for one in tables:
        for part, amount in one.items():
            result[part] = result.get(part, 0.0) + amount
    return result


def _short(value: Any) -> Any:
    """Rounded once more by the page, to four digits: seven keep that what it is elsewhere."""
    if isinstance(value, float) and isfinite(value):
        rounded = float(f"{value:.7g}")
        return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {key: _short(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, (list, tuple)):
        return [_short(inner) for inner in value]
    return value


def _files(tests: Iterable[Mapping[str, Any]], root: Path) -> dict[str, dict[int, str]]:
    """Return lines with costs and the lines around them, of files that can be read."""
    merged: dict[str, list[Mapping[str, Any]]] = {}
    for test in tests:
        for p in test["predictions"]:
            for file, lines in p["sources"].items():
                merged.setdefault(file, []).extend(lines)
    return source_lines(merged, root)


def source_lines(
    sources: Mapping[str, Iterable[Mapping[str, Any]]], root: Path
) -> dict[str, dict[int, str]]:
    """Return the text of lines with costs and of those around them, by file and number."""
    near = range(-_AROUND, _AROUND + 1)
    wanted = {
        file: {entry["line"] + step for entry in lines for step in near}
        for file, lines in sources.items()
    }
    result = {}
    for file in sorted(f for f in wanted if may_be_shown(root / f)):
        try:
            text = read_text(root / file, errors="replace").splitlines()
        except OSError:
            continue
        result[file] = {
            n: text[n - 1].expandtabs(4)[:_WIDEST]
            for n in sorted(wanted[file])
            if 0 < n <= len(text)
        }
    return result
