"""Measurement of a suite: first the times, row by row, then the counters, kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from perfassert.errors import PerfAssertError
from perfassert.frontends.toolchain.build import build
from perfassert.hardware.load import device as load_device
from perfassert.lab.calibration.driver import Properties
from perfassert.lab.measurement.counters import (
    COUNTERS,
    NoCounters,
    command,
    find_ncu,
    profile_command,
)
from perfassert.lab.measurement.gpu import Gpu, GpuLaunch, MeasurementError, Timing
from perfassert.lab.measurement.plan import (
    MeasurementJob,
    gpu_launch,
    jobs,
    parameter_columns,
    source,
    source_mark,
)
from perfassert.lab.measurement.table import MeasurementTable
from perfassert.lab.validation.build import row_names
from perfassert.lab.validation.suite import Suite

Say = Callable[[str], None]
_PROFILED = 32  # launches in a run of ncu
_MAX_FAILURES = 3  # launches in a row that the GPU fails
_SPREAD = 0.05  # above, the row is worth a warning
_WORDS = ("nvidia", "geforce", "tesla", "quadro")
_NAMES = {"h100-80gb-hbm3": "H100-SXM5-80GB", "h200": "H200", "gh200-480gb": "GH200-480GB"}


@dataclass(frozen=True, slots=True)
class Options:
    """Options: ``device`` is the GPU's name in the file; empty for the name that the GPU gives.

    ``again``: measure rows that exist already.
    """

    device: str = ""
    index: int = 0
    warmup: int = 3
    repetitions: int = 20
    only: tuple[str, ...] = ()
    again: bool = False


@dataclass
class MeasurementResult:
    """Numbers of rows measured and kept, and the reasons of failures."""

    measured: int = 0
    kept: int = 0
    failures: list[str] = field(default_factory=list)


def device_name(gpu_name: str) -> str:
    """Return the shipped device for a GPU's own name; raises :class:`MeasurementError`."""
    words = [w for w in gpu_name.split() if w.lower() not in _WORDS]
    name = "-".join(words)
    try:
        return load_device(_NAMES.get(name.lower(), name)).name
    except PerfAssertError as error:
        raise MeasurementError(
            f"no device file is known for {gpu_name!r} ({error}); name one with --device, which "
            "perfassert calibrate can write"
        ) from None


def measure_times(
    suite: Suite, gpu: Gpu, path: Path, options: Options, say: Say
) -> MeasurementResult:
    """Measure every row without a time, or with a time of other code, and write each at once.

    A row that fails is reported and left out; several failures in succession raise an error.
    """
    about = gpu.properties()
    device = options.device or device_name(about.name)
    load_device(device)
    table = MeasurementTable(path, parameter_columns(suite))
    all_jobs = jobs(suite, options.only)
    result = MeasurementResult()
    failed = 0
    for warning in gpu.warnings():
        say(f"warning: {warning}")
    for number, job in enumerate(all_jobs, 1):
        mark = source_mark(suite.kernels[job.kernel], job)
        row = table.row(device, job)
        if row and row["time_us"] and row["code"] == mark and not options.again:
            result.kept += 1
            continue
        place = f"[{number}/{len(all_jobs)}] {job.text}"
        if row and row["time_us"] and row["code"] != mark:
            say(f"{place}: its source has changed; measured again")
        try:
            launch = gpu_launch(suite, job, device, about.arch)
            _check_memory(launch, about.free_bytes)
            failed += 1
            timing = gpu.time(launch, options.warmup, options.repetitions)
        except PerfAssertError as error:
            result.failures.append(f"{job.text}: {error}")
            say(f"{place}: {error}")
            if failed == _MAX_FAILURES:
                raise _repeated_failure(result, path) from None
            continue
        failed = 0
        values = {**_values(timing, about), "compiler": _compiler(suite, job, device), "code": mark}
        table.enter_values(device, job, {**dict.fromkeys(COUNTERS, ""), **values})
        result.measured += 1
        noisy = f", spread {timing.spread:.0%}" if timing.spread > _SPREAD else ""
        say(f"{place}: {values['time_us']} us{noisy}")
    for warning in gpu.warnings() if result.measured else ():
        say(f"warning: at the end: {warning}")
    return result


def _values(timing: Timing, about: Properties) -> dict[str, str]:
    """Return the cells of a row that was measured now."""
    return {
        "time_us": f"{1e6 * timing.median:.6g}",
        "time_spread": f"{timing.spread:.3g}",
        "repetitions": str(len(timing.seconds)),
        "clock_hz": f"{timing.clock_hz:.0f}" if timing.clock_hz else "",
        "gpu": about.name,
        "driver": about.driver,
        "date": date.today().isoformat(),
    }


def _repeated_failure(result: MeasurementResult, path: Path) -> MeasurementError:
    return MeasurementError(
        f"{_MAX_FAILURES} launches in a row failed, the last one {result.failures[-1]}; "
        f"{result.measured} are in {path}, the same command goes on"
    )


def _check_memory(launch: GpuLaunch, free: int) -> None:
    if launch.memory_bytes > free:
        need, have = launch.memory_bytes / 1e9, free / 1e9
        raise MeasurementError(f"needs {need:.2f} GB of memory; {have:.2f} GB are free")


def _compiler(suite: Suite, job: MeasurementJob, device: str) -> str:
    spec = suite.kernels[job.kernel]
    binary = build(source(spec, row_names(spec, job.cells)), load_device(device).arch)
    return binary.compilers


def measure_counters(
    suite: Suite, device: str, path: Path, options: Options, say: Say
) -> MeasurementResult:
    """Measure counters of every row with a time but no counters, many launches per run of ncu.

    A run that fails is repeated in halves, so that a launch that cannot be profiled costs only
    itself. Raises :class:`NoCounters` if no counters are available at all.
    """
    table = MeasurementTable(path, parameter_columns(suite))
    result = MeasurementResult()
    wanted = [
        (number, job)
        for number, job in enumerate(jobs(suite))
        if job.kernel in (options.only or suite.kernels) and _lacks(table, device, job, options)
    ]
    runs = [wanted[i : i + _PROFILED] for i in range(0, len(wanted), _PROFILED)]
    ncu = find_ncu() if runs else ""
    while runs:
        batch = runs.pop(0)
        place = f"[{result.measured + len(result.failures)}/{len(wanted)}] counters"
        try:
            _profile(suite, ncu, batch, device, table, options)
        except NoCounters:
            raise
        except PerfAssertError as error:
            if (half := len(batch) // 2) > 0:
                say(f"{place}: {error}; {len(batch)} launches are tried in halves")
                runs[:0] = [batch[:half], batch[half:]]
            else:
                result.failures.append(f"{batch[0][1].text}: counters: {error}")
                say(f"{place}: {batch[0][1].text}: {error}")
            continue
        result.measured += len(batch)
        say(f"{place}: {len(batch)} launches")
    return result


def _lacks(table: MeasurementTable, device: str, job: MeasurementJob, options: Options) -> bool:
    row = table.row(device, job)
    if row is None or not row["time_us"]:
        return False
    return options.again or not any(row[column] for column in COUNTERS)


def _profile(
    suite: Suite,
    ncu: str,
    batch: Sequence[tuple[int, MeasurementJob]],
    device: str,
    table: MeasurementTable,
    options: Options,
) -> None:
    arch = load_device(device).arch
    functions = []
    for _, job in batch:
        spec = suite.kernels[job.kernel]
        functions.append(build(source(spec, row_names(spec, job.cells)), arch).mangled)
    numbers = [number for number, _ in batch]
    words = command(ncu, suite.path, numbers, functions, device, options.index)
    for (_, job), cells in zip(batch, profile_command(words, len(batch)), strict=True):
        table.enter_values(device, job, cells)
