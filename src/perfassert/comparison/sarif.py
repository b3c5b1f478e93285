"""Results in SARIF of a comparison of code and launches, at lines of the repository's files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfassert.comparison.compare import Item
from perfassert.comparison.kernel_changes import CodeDiff, KernelDiff
from perfassert.comparison.kernel_text import what
from perfassert.comparison.launched import LaunchComparison
from perfassert.comparison.revisions import relative_to_roots
from perfassert.comparison.status import Status
from perfassert.comparison.text import kernel as name_of
from perfassert.comparison.text import times as times_of
from perfassert.frontends.toolchain.names import without_parameters
from perfassert.predictor.diagnose.line_findings import SPILL, line_findings
from perfassert.report.sarif import LOST, REGRESSION, SarifResult
from perfassert.source import CUDA_SUFFIXES
from perfassert.system.confined import read_text

_LOST = (Status.BROKEN, Status.GONE)
_NAME = re.compile(r"(\w+)\s*(?:<.*)?$", re.S)
_WARNING = "warning"


def results_of_diff(
    code_diff: CodeDiff, times: LaunchComparison | None, head: Path, roots: Sequence[Path]
) -> Iterator[SarifResult]:
    """Yield the results; ``head`` is the folder that paths of its predictions are relative to.

    ``roots`` are the repository's in the head and in the base.
    """
    timed = [i for infos in times.kernels.values() for i in infos] if times is not None else []
    for kernel in code_diff.kernels:
        by_time = not kernel.failures and any(i is kernel.pair.head for i in timed)
        if kernel.status in _LOST or (kernel.status is Status.WORSE and not by_time):
            yield _kernel_result(kernel, relative_to_roots(kernel.path, roots))
    for item in times.comparison.items if times is not None else ():
        if item.status is Status.SLOWER and times is not None:
            launched = times.kernels.get(item.key.test, ())
            kernel = next(k for k in code_diff.kernels if any(i is k.pair.known for i in launched))
            yield _slower(item, kernel, "" if times.timed else _WARNING, head, roots)
        if item.head is not None:
            yield from _wasteful_lines(item, head, roots)


def _kernel_result(kernel: KernelDiff, file: str) -> SarifResult:
    status, text = kernel.status, what(kernel)
    message = f"{kernel.name} is {status.value}" + (f": {text}" if text else "")
    if status in _LOST:
        place = re.match(r"[^:\n]+:(\d+): ", kernel.reason)
        return SarifResult(LOST, message, file, int(place[1]) if place else 1)
    spills = any(failure.startswith("spill_bytes") for failure in kernel.failures)
    level = "error" if kernel.failures else _WARNING
    return SarifResult(SPILL if spills else REGRESSION, message, file, _line_of(kernel), level)


def _line_of(kernel: KernelDiff) -> int:
    """Return the line of the kernel's definition in CUDA source; 1 if it is not known."""
    name = _NAME.search(without_parameters(kernel.pair.known.name).partition("<")[0])
    if kernel.path.suffix not in CUDA_SUFFIXES or name is None:
        return 1
    try:
        text = read_text(kernel.path, errors="replace")
    except OSError:
        return 1
    match = re.search(rf"\b__global__\b[^;{{]*?\b{re.escape(name[1])}\s*\(", text)
    return text.count("\n", 0, match.end()) + 1 if match else 1


def _slower(
    item: Item, kernel: KernelDiff, level: str, head: Path, roots: Sequence[Path]
) -> SarifResult:
    """Return the result of a slower launch, at its costliest line or at the kernel's definition."""
    base, after, difference = times_of(item)
    message = f"{name_of(item)} on {item.device}: {base} → {after} ({difference})"
    message += f": {item.reason}" if item.reason else ""
    path = head / item.place.file if item.place else kernel.path
    line = item.place.line if item.place else _line_of(kernel)
    return SarifResult(REGRESSION, message, relative_to_roots(path, roots), line, level)


def _wasteful_lines(item: Item, head: Path, roots: Sequence[Path]) -> Iterator[SarifResult]:
    prediction = item.reported.prediction
    for finding in line_findings(prediction):
        file = relative_to_roots(head / finding.file, roots)
        text = f"{name_of(item)} on {prediction.device}: {finding.message}"
        yield SarifResult(finding.rule, text, file, finding.line)
