"""Survey of the kernels of sources, objects, libraries and wheels: wasted time, worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfassert.comparison.kernel_changes import Placed
from perfassert.comparison.sides import Reading, side, without_host_code
from perfassert.errors import KernelSourceError
from perfassert.frontends.cuda.code_findings import CLIFF, SPILLS, CodeFinding
from perfassert.frontends.cuda.inventory import KernelInfo
from perfassert.hardware.load import device_of
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import occupancy_or_none
from perfassert.report.tables import percent
from perfassert.system.process_pool import Progress

BLOCK = 256
"""Threads of a block if launch bounds do not give them."""
_LEAST_COST = 0.01
"""Least share of a kernel's instructions for a finding; rare paths, as in a sine, cost less."""
_NEAR_LIMIT = 8  # registers: a thread that spills has as many as it may, but for alignment
_FEWER = 8  # registers, which an author can save
_HIGHER = 1.2  # so many times the occupancy is worth the trouble


@dataclass(frozen=True, slots=True)
class SurveyRow:
    """Kernel with its findings, the costliest first.

    ``file`` is the file as given, or its path below the folder or in the wheel.
    """

    info: KernelInfo
    file: str
    path: Path
    findings: tuple[CodeFinding, ...]

    @property
    def cost(self) -> float:
        """Sum of the costs of all findings."""
        return sum(finding.cost for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Survey:
    """Result of a survey: ``rows`` with the worst first.

    ``broken``: file → why nothing of it can be read. ``devices``: architecture → the device that
    its occupancy is for.
    """

    rows: tuple[SurveyRow, ...]
    broken: Mapping[str, str]
    devices: Mapping[str, str]

    @property
    def counts(self) -> Mapping[str, int]:
        """Kind of finding → number of kernels that have it, largest first."""
        kinds = sorted(finding.kind for row in self.rows for finding in row.findings)
        return dict(Counter(kinds).most_common())


def survey(
    paths: Sequence[Path],
    reading: Reading,
    device: Device | None = None,
    progress: Progress | None = None,
) -> Survey:
    """Read all kernels, and find what wastes time in each.

    Args:
        paths: files, folders, wheels, or ``compile_commands.json``.
        reading: how files are chosen and compiled.
        device: whose occupancy; by default the first one of each kernel's architecture.
        progress: is told how many files of a path are read, of how many.

    Raises:
        KernelSourceError: a path that does not exist, or nothing to read in all of them.
    """
    rows: list[SurveyRow] = []
    broken: dict[str, str] = {}
    templates: dict[str, str] = {}
    devices: dict[str, Device | None] = {}
    for path in paths:
        read = side(path, reading, progress=progress)
        _, read = without_host_code(read, read)
        broken |= {file or str(path): why for file, why in read.broken.items()}
        templates |= {file or str(path): why for file, why in read.templates.items()}
        for placed in read.kernels:
            arch = placed.info.arch
            if arch not in devices:
                devices[arch] = device or device_of(arch)
            rows.append(_survey_row(placed, str(path), devices[arch]))
    if not rows:
        named = ", ".join(map(str, paths))
        reasons = (*broken.values(), *templates.values(), f"{named}: there is no kernel in it")
        raise KernelSourceError(reasons[0])
    rows.sort(key=lambda row: (-row.cost, -len(row.findings), row.file, row.info.mangled))
    known = {arch: one.name for arch, one in devices.items() if one is not None}
    return Survey(tuple(rows), broken, known)


def _survey_row(placed: Placed, path: str, device: Device | None) -> SurveyRow:
    info = placed.info
    findings = [*_of_code(info, device), *_cliff(info, device)]
    findings.sort(key=lambda finding: -finding.cost)
    return SurveyRow(info, placed.file or path, placed.path, tuple(findings))


def _of_code(info: KernelInfo, device: Device | None) -> Iterator[CodeFinding]:
    """Select the findings of the code that cost something, and say why registers are spilled."""
    limit, cause = _register_limit(info, device)
    for finding in info.findings:
        if finding.kind == SPILLS:
            is_limited = info.registers >= limit - _NEAR_LIMIT
            yield replace(finding, message=f"{finding.message}: {cause}") if is_limited else finding
        elif finding.cost >= _LEAST_COST or not finding.cost:
            yield finding


def _register_limit(info: KernelInfo, device: Device | None) -> tuple[int, str]:
    """Return the most registers that a thread may have, and what limits them."""
    limit, threads = info.register_limit, info.max_threads
    if not limit:
        most = device.max_registers_per_thread if device else info.registers
        return most, f"a thread has the {most} registers that the architecture allows"
    if threads and device is not None:
        blocks = device.registers_per_unit // (limit * threads)
        step = device.register_allocation_unit // device.warp_size
        if blocks and device.registers_per_unit // (blocks * threads) // step * step == limit:
            bounds = f"launch bounds of {threads} threads"
            more = f" and {blocks} blocks" if blocks > 1 else ""
            return limit, f"{bounds}{more} leave {limit} registers"
    return limit, f"an option of the compiler, or launch bounds, leaves {limit} registers"


def _cliff(info: KernelInfo, device: Device | None) -> Iterator[CodeFinding]:
    """Yield a finding if a few registers fewer would let more warps fit."""
    if device is None:
        return
    block = info.max_threads or BLOCK
    now = occupancy_or_none(device, block, info.registers, info.shared_bytes)
    for left in range(info.registers - 1, max(0, info.registers - _FEWER - 1), -1):
        then = occupancy_or_none(device, block, left, info.shared_bytes)
        if now and then and then >= _HIGHER * now:
            yield CodeFinding(
                CLIFF,
                f"{info.registers} registers allow {percent(now, signed=False)} occupancy in "
                f"blocks of {block}, {left} would allow {percent(then, signed=False)}",
                _LEAST_COST * (then / now - 1),
            )
            return
