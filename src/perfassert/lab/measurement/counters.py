"""Hardware counters by Nsight Compute's command line, and its raw page as CSV.

``ncu --csv --page raw`` prints a header, a row of units, and a row for each launch. Nothing in it
is evaluated.
"""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from perfassert.lab.measurement.gpu import MeasurementError
from perfassert.system.python_children import isolated_command

COUNTERS: Mapping[str, str] = {
    "duration_s": "gpu__time_duration.sum",
    "warp_instructions": "smsp__inst_executed.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_atomic_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
    "l2_read_sectors": "lts__t_sectors_srcunit_tex_op_read.sum",
    "l2_write_sectors": "lts__t_sectors_srcunit_tex_op_write.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "registers": "launch__registers_per_thread",
    "warps_active_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
"""Column → metric of Nsight Compute."""

_PREFIX = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9,
           "T": 1e12}  # fmt: skip
_SCALED = ("byte", "sector", "inst", "second", "cycle", "request", "hz", "s")
_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_NOTHING = ("", "-", "n/a", "nan")
_PERMISSION = "ERR_NVGPUCTRPERM"


class NoCounters(MeasurementError):
    """Error if no counters are available at all: no tool, or no permission."""


def find_ncu() -> str:
    """Return the path of Nsight Compute; :class:`NoCounters` if it is not installed."""
    path = shutil.which("ncu")
    if path is None:
        raise NoCounters(
            "counters need Nsight Compute's ncu on the PATH; it comes with the CUDA toolkit. "
            "Times are measured without it: --no-counters"
        )
    return path


def command(ncu: str, suite: Path, numbers: Sequence[int], functions: Iterable[str], device: str,
            gpu: int) -> list[str]:  # fmt: skip
    """Return the command that profiles the launches ``numbers`` of a suite, and no others.

    The clock is not fixed: counters do not depend on it, and fixing it takes permission.
    """
    launch = isolated_command(
        "perfassert.lab.measurement.replay:main",
        str(suite), ",".join(map(str, numbers)), device, str(gpu),
    )  # fmt: skip
    names = "|".join(sorted({re.escape(function) for function in functions}))
    return [
        ncu, "--csv", "--page", "raw", "--print-units", "base", "--metrics",
        ",".join(COUNTERS.values()), "--clock-control", "none", "--kernel-name-base", "mangled",
        "--kernel-name", f"regex:^({names})$", *launch,
    ]  # fmt: skip


def profile_command(
    arguments: Sequence[str], launches: int, timeout: float = 600
) -> list[dict[str, str]]:
    """Run the command; return the counters of each launch by column."""
    try:
        done = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except OSError as error:
        raise NoCounters(f"{arguments[0]} does not run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise MeasurementError(f"ncu took over {timeout:g} s") from None
    output = done.stdout + done.stderr
    if _PERMISSION in output:
        raise NoCounters(
            f"no permission for the GPU's counters ({_PERMISSION}): run as an administrator, or "
            "load NVIDIA's kernel module with NVreg_RestrictProfilingToAdminUsers=0. Times are "
            "measured without: --no-counters"
        )
    errors = [line for line in output.splitlines() if line.startswith("==ERROR==")]
    if done.returncode or errors:
        why = (errors or done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise MeasurementError(f"ncu failed with status {done.returncode}: {why}")
    rows = parse_raw(done.stdout)
    if len(rows) != launches:
        raise MeasurementError(f"ncu printed {len(rows)} launches, not {launches}")
    return [counters(row) for row in rows]


def counters(row: Mapping[str, float | str]) -> dict[str, str]:
    """Return the cells of a row's counters by column; empty for a metric that the GPU lacks."""
    cells = {}
    for column, metric in COUNTERS.items():
        value = row.get(metric, "")
        cells[column] = f"{value:.12g}" if isinstance(value, float) else ""
    return cells


def parse_raw(text: str) -> list[dict[str, float | str]]:
    """Return a dictionary for each launch: numbers in base units (B, s, Hz, counts), else text.

    Lines that begin with ``==`` are the tool's messages; lines before the header are the program's.

    Raises :class:`MeasurementError` for what is no raw page.
    """
    lines = [line for line in text.splitlines() if not line.startswith("==")]
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise MeasurementError('ncu printed no raw page: there is no header that begins with "ID"')
    try:
        table = list(csv.reader(lines[start:], strict=True))
    except csv.Error as error:
        raise MeasurementError(f"ncu's raw page is damaged: {error}") from None
    header, *rows = [cells for cells in table if cells]
    if not rows or rows[0][0].strip():
        raise MeasurementError("ncu's raw page has no row of units below its header")
    units, *launches = rows
    for cells in rows:
        if len(cells) != len(header):
            raise MeasurementError(
                f"ncu's raw page has a row of {len(cells)} cells below {len(header)} columns"
            )
    return [
        {n: _cell(c, u) for n, c, u in zip(header, cells, units, strict=True)} for cells in launches
    ]


def _cell(text: str, unit: str) -> float | str:
    cell = text.strip()
    if cell.lower() in _NOTHING:
        return ""
    if _NUMBER.fullmatch(cell) is None:
        return cell
    return float(cell.replace(",", "")) * unit_factor(unit)


def unit_factor(unit: str) -> float:
    """Return the base units in one ``unit``: ``"Kbyte"`` → 1000, ``"usecond"`` → 1e-6; else 1."""
    numerator = unit.strip().partition("/")[0]
    for base in _SCALED:
        head = numerator[: len(numerator) - len(base)]
        if numerator.lower().endswith(base) and head in _PREFIX:
            return _PREFIX[head]
    return 1.0
