"""SARIF 2.1.0: results at source lines for GitHub's code scanning and viewers of editors.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath
from typing import Any
from urllib.parse import quote

from perfassert.errors import printable
from perfassert.report.document import Document
from perfassert.report.sources import costliest
from perfassert.version import VERSION

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"
REGRESSION, EXPECTATION, LOST = "regression", "failed-expectation", "lost-kernel"
RULES: Mapping[str, tuple[str, str]] = {
    REGRESSION: ("error", "A kernel is worse than its baseline or than the base of a comparison"),
    EXPECTATION: ("error", "An expectation of a prediction failed"),
    LOST: ("error", "A kernel is gone, or can no longer be compiled"),
    "register-spill": ("warning", "Registers are spilled to local memory"),
    "uncoalesced-access": ("warning", "A warp touches more sectors of memory than its bytes fill"),
    "bank-conflict": ("warning", "An access to shared memory has bank conflicts"),
    "local-array": ("warning", "An array with a variable index is kept in local memory"),
    "narrow": ("note", "Accesses to neighbouring elements could be wider"),
    "double-arithmetic": ("warning", "Floats are computed as doubles"),
    "divergence": ("note", "Each thread of a warp has its own number of iterations"),
    "occupancy-cliff": ("note", "A few registers fewer and more warps would fit"),
    "calls": ("note", "A function is called, and not inlined"),
}
"""Rule → its usual level, and its description."""


@dataclass(frozen=True, slots=True)
class SarifResult:
    """A result at a line, counted from 1.

    ``file`` is relative to the root of the repository, or absolute outside of it. ``level`` is
    given if it differs from the rule's. ``related`` is another place, with its description.
    """

    rule: str
    message: str
    file: str
    line: int = 1
    level: str = ""
    related: tuple[str, int, str] | None = None


def sarif_text(results: Iterable[SarifResult]) -> str:
    """Return the SARIF file; each result once, ordered by file and line."""
    ordered = sorted(set(results), key=lambda r: (r.file, r.line, r.rule, r.message, r.level))
    used = sorted({result.rule for result in ordered})
    driver = {
        "name": "perfassert",
        "semanticVersion": VERSION,
        "rules": [_rule(rule) for rule in used],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(result, used.index(result.rule)) for result in ordered],
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1, ensure_ascii=False) + "\n"


def _rule(rule: str) -> dict[str, Any]:
    level, about = RULES[rule]
    return {
        "id": rule,
        "shortDescription": {"text": about},
        "defaultConfiguration": {"level": level},
    }


def _result(result: SarifResult, index: int) -> dict[str, Any]:
    data = {
        "ruleId": result.rule,
        "ruleIndex": index,
        "level": result.level or RULES[result.rule][0],
        "message": {"text": printable(result.message)},
        "locations": [_location(result.file, result.line)],
    }
    if result.related is not None:
        file, line, what = result.related
        data["relatedLocations"] = [{**_location(file, line), "message": {"text": what}}]
    return data


def _location(file: str, line: int) -> dict[str, Any]:
    place = PurePath(file)
    if place.is_absolute():
        artifact = {"uri": place.as_uri()}
    else:
        artifact = {"uri": quote(place.as_posix()), "uriBaseId": _ROOT}
    region = {"startLine": max(line, 1)}
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}


def results_of_report(report: Document, below: str = "") -> Iterator[SarifResult]:
    """Yield failed tests, and waste that their predictions found.

    ``below`` is the folder in the repository that the report's files are relative to.
    """
    for test in report["tests"]:
        where = str(PurePosixPath(below, test["file"]))
        at = (where, test["line"] or 1, f"the test {test['nodeid']}")
        predictions = test["predictions"]
        if test["outcome"] == "failed" and test["message"]:
            rule = REGRESSION if _has_moved(test) else EXPECTATION
            place = _place(predictions)
            file, line = (str(PurePosixPath(below, place[0])), place[1]) if place else at[:2]
            related = at if place else None
            message = test["message"].partition("\n\n")[0]
            yield SarifResult(rule, message, file, line, related=related)
        for prediction in predictions:
            for finding in prediction["findings"]:
                text = f"{prediction['kernel']} on {prediction['device']}: {finding['message']}"
                file = str(PurePosixPath(below, finding["file"]))
                yield SarifResult(finding["rule"], text, file, finding["line"], related=at)


def _has_moved(test: Mapping[str, Any]) -> bool:
    return any(baseline["moved"] for baseline in test["baselines"])


def _place(predictions: Iterable[Mapping[str, Any]]) -> tuple[str, int] | None:
    """Return the costliest line of what failed, else of the last prediction."""
    every = list(predictions)
    failed = [p for p in every if any(e["verdict"] == "failed" for e in p["expectations"])]
    return next((at for p in (*failed, *every[-1:]) if (at := costliest(p["sources"]))), None)
