"""Reader for reports of Nsight Compute (``.ncu-rep``), without a GPU.

NVIDIA's ``ncu-report`` parses the report. The parser is native code and a report may be hostile, so
it runs in a sandboxed process on a copy of the file and answers as text.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfassert.errors import PerfAssertError, RecordError, ToolchainMissing
from perfassert.frontends.profiles.launch import MeasuredFile
from perfassert.frontends.profiles.ncu import Metrics, measured_file, shape_of
from perfassert.frontends.toolchain import tools
from perfassert.system.confined import open_file

MAGIC = b"NVR\x00"
_WORKER = Path(__file__).with_name("ncu_report_worker.py")
_MOST_BYTES = 1 << 30  # of a report
_LONGEST_WHY = 200  # characters of what the parser says
_AXES = "xyz"


def read_ncu_report(path: Path) -> MeasuredFile:
    """Read the launches of a report with all of their metrics.

    Raises:
        RecordError: the file is no report, is damaged, or has no launch of a kernel.
        ToolchainMissing: ``ncu-report`` is not installed.
    """
    launches = []
    for number, launch in enumerate(read_launches(path, RecordError)):
        metrics: Metrics = {
            name: (str(value), unit) for name, (value, unit) in launch["metrics"].items()
        }
        line = {"Kernel Name": launch["mangled"] or launch["name"], **_extents(metrics)}
        launches.append((shape_of(f"{path}: launch {number}", line, metrics), metrics))
    return measured_file("a report of Nsight Compute", launches)


def read_launches(path: Path, error: type[PerfAssertError]) -> list[Mapping[str, Any]]:
    """Return name, mangled name and metrics of each launch; a bad file raises ``error``."""
    launches: list[Mapping[str, Any]] = _ask(path, None, error)["launches"]
    if not launches:
        raise error(
            f"{path}: has no launch of a kernel: it is damaged, or nothing was profiled; write it "
            "again with ncu --set full --export REPORT PROGRAM"
        )
    return launches


def read_instructions(path: Path, launch: int, error: type[PerfAssertError]) -> Mapping[str, Any]:
    """Return the instructions of one launch, in the form of the worker's response."""
    return _ask(path, launch, error)


def _extents(metrics: Metrics) -> dict[str, str]:
    """Return grid and block, formatted like the columns of a CSV page."""

    def extent(what: str) -> str:
        sizes = (metrics.get(f"launch__{what}_dim_{axis}", ("", ""))[0] for axis in _AXES)
        return ", ".join(size.removesuffix(".0") for size in sizes)

    return {"Grid Size": extent("grid"), "Block Size": extent("block")}


def _ask(path: Path, launch: int | None, error: type[PerfAssertError]) -> dict[str, Any]:
    package = _package(path)
    with tempfile.TemporaryDirectory(prefix="perfassert-") as folder:
        copy = Path(folder, "report.ncu-rep")
        size = _copy_report(path, copy, error)
        request = {"package": str(package), "report": str(copy), "launch": launch}
        done = tools.run_tool(
            "ncu-report",
            [str(_WORKER)],
            script=True,
            folder=folder,
            reads=[package],
            stdin=json.dumps(request),
            memory=tools.reading_memory(size),
        )
    try:
        answered: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        why = (done.log.splitlines() or [f"it ended with status {done.status}"])[-1]
        raise error(
            f"{path}: cannot be read by NVIDIA's ncu-report: {why[:_LONGEST_WHY]}; a newer one may "
            'read it: pip install --upgrade "perfassert[ncu]"'
        ) from None
    return answered


def _package(path: Path) -> Path:
    """Return the folder of NVIDIA's module, without importing the module into this process."""
    folders = tools.package_folders("ncu_report")
    if not folders:
        raise ToolchainMissing(
            f"{path}: is a report of Nsight Compute; NVIDIA's ncu-report, which reads it, is not "
            'installed; install it with: pip install "perfassert[ncu]"'
        )
    return folders[0]


def _copy_report(path: Path, copy: Path, error: type[PerfAssertError]) -> int:
    """Copy the report to the place that the parser may read; return its size in bytes."""
    try:
        with open_file(path) as source:
            content = source.read(_MOST_BYTES + 1)
    except OSError as failure:
        raise error(f"{path}: cannot be read: {failure.strerror or failure}") from None
    if len(content) > _MOST_BYTES:
        raise error(f"{path}: has more than the {_MOST_BYTES >> 20} MiB that are read of a report")
    return copy.write_bytes(content)
