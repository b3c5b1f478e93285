"""Launches from the rows of a suite: compiled code, arguments, and order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from perfassert.errors import SuiteError, close_matches
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import build, compiled_module
from perfassert.lab.measurement.gpu import GpuLaunch
from perfassert.lab.measurement.inputs import kernel_arguments
from perfassert.lab.validation.build import make_device, make_kernel, make_launch, row_names, value
from perfassert.lab.validation.suite import CudaSource, KernelSpec, Suite
from perfassert.system.confined import read_bytes


@dataclass(frozen=True, slots=True)
class MeasurementJob:
    """A row to measure. ``problem``: the same for a kernel and those that improve it."""

    kernel: str
    problem: str
    cells: Mapping[str, str]

    @property
    def key(self) -> tuple[str, ...]:
        """Key of the job's row among the rows of one device."""
        return (self.kernel, *self.cells.values())

    @property
    def text(self) -> str:
        """Text such as ``"saxpy n=1024 block=256"``."""
        return " ".join((self.kernel, *(f"{k}={v}" for k, v in self.cells.items() if v)))


def jobs(suite: Suite, only: tuple[str, ...] = ()) -> list[MeasurementJob]:
    """Return every row of the kernels ``only`` (default: all). Raises :class:`SuiteError`."""
    _check_kernels(suite, only)
    columns = parameter_columns(suite)
    selected = []
    for name, spec in suite.kernels.items():
        if only and name not in only:
            continue
        for number, row in enumerate(spec.rows):
            cells = {column: row.get(column, "") for column in columns}
            selected.append(MeasurementJob(name, f"{_root(suite, name)} {number}", cells))
    return selected


def parameter_columns(suite: Suite) -> tuple[str, ...]:
    """Return the columns that the rows of any kernel have."""
    rows = (row for spec in suite.kernels.values() for row in spec.rows)
    return tuple(dict.fromkeys(column for row in rows for column in row))


def improved_pairs(suite: Suite) -> Iterator[tuple[str, str]]:
    """Yield (before, after) for every kernel that improves another one."""
    return ((spec.improves, name) for name, spec in suite.kernels.items() if spec.improves)


def _root(suite: Suite, name: str) -> str:
    while suite.kernels[name].improves:
        name = suite.kernels[name].improves
    return name


def _check_kernels(suite: Suite, only: tuple[str, ...]) -> None:
    for name in only:
        if name not in suite.kernels:
            hint = close_matches(name, suite.kernels) or f"; it has {', '.join(suite.kernels)}"
            raise SuiteError(f"{suite.path}: there is no kernel {name!r}{hint}")
    if suite.select != ("kernel",):
        raise SuiteError(f'{suite.path}: select: a suite that is measured has select = "kernel"')
    if not suite.device.column == "device":
        raise SuiteError(f'{suite.path}: device.column: must be "device", which measure writes')
    for name, spec in suite.kernels.items():
        if spec.cuda is None:
            raise SuiteError(f"{suite.path}: kernels.{name}: only CUDA sources can be measured")
        if not spec.rows:
            raise SuiteError(f"{suite.path}: kernels.{name}.rows: missing; name its launches")


def gpu_launch(suite: Suite, job: MeasurementJob, device_name: str, arch: str) -> GpuLaunch:
    """Return the launch of the prediction for ``device_name``, compiled for ``arch``."""
    spec = suite.kernels[job.kernel]
    cells = {**job.cells, "device": device_name, "clock_hz": ""}
    names = row_names(spec, cells)
    device = make_device(suite.device, cells)
    if device.arch.rstrip("af") != arch.rstrip("af"):
        raise SuiteError(f"{device_name} is {device.arch}, but this GPU is {arch}; see --device")
    launch = make_launch(spec.launch, names, make_kernel(spec, names, job.kernel), device)
    made = source(spec, names)
    binary = build(made, device.arch)
    return GpuLaunch(
        image=compiled_module(made, device.arch).cubin,
        function=binary.mangled,
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        arguments=kernel_arguments(binary, spec.launch.get("args", {}), names),
        kernel=job.kernel,
        cells=job.cells,
    )


def source(spec: KernelSpec, names: Mapping[str, int]) -> Source:
    """Return the source that the toolchain compiles for a row."""
    cuda = _cuda(spec)
    return Source(
        cuda.path,
        "cuda",
        cuda.kernel,
        {k: value(v, names) for k, v in cuda.defines.items()},
        tuple(map(str, cuda.include_dirs)),
        cuda.options,
    )


def source_mark(spec: KernelSpec, job: MeasurementJob) -> str:
    """Return a mark of the source: a row with another mark was measured from other code."""
    cuda = _cuda(spec)
    names = row_names(spec, job.cells)
    defines = {k: value(v, names) for k, v in cuda.defines.items()}
    identity = (_bytes(cuda.path), cuda.kernel, defines, cuda.options)
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:12]


def _bytes(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise SuiteError(f"{path}: cannot be read: {error.strerror}") from None


def _cuda(spec: KernelSpec) -> CudaSource:
    if spec.cuda is None:
        raise SuiteError("only CUDA sources can be measured")
    return spec.cuda
