"""Driver of a GPU: NVIDIA's driver API by ``cuda.bindings``, kernels by the project's NVRTC.

No package of NVIDIA is imported before :func:`open_driver`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from perfassert.lab.calibration.driver import CalibrationError, Driver, Properties, Sample, Shot
from perfassert.shipped import model_integer

KERNELS = Path(__file__).parent / "kernels"
_RECORD_BYTES = 32  # that a kernel writes for each timing
_OLDEST = model_integer("oldest_architecture")
_RESERVE = 0.8  # share of the free memory that may be allocated
_SM_CLOCK = 1  # NVML_CLOCK_SM; the bindings' releases have named it differently
_EXTRA = 'pip install "perfassert[gpu]"'
_EXPLAINED = {
    "CUDA_ERROR_NO_DEVICE": "there is no NVIDIA GPU; predictions need none, calibration does",
    "CUDA_ERROR_NOT_PERMITTED": "no permission to use the GPU",
    "CUDA_ERROR_OPERATING_SYSTEM": "no permission to open the GPU, /dev/nvidia*",
    "CUDA_ERROR_DEVICE_UNAVAILABLE": "the GPU is in exclusive use by another process",
    "CUDA_ERROR_INSUFFICIENT_DRIVER": "the driver is too old for these bindings; update it",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "driver and library differ; restart after its update",
    "CUDA_ERROR_OUT_OF_MEMORY": "the GPU's memory is taken by other processes",
    "CUDA_ERROR_INVALID_IMAGE": "the driver is older than the compiler; update the driver",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the compiler made no code for this GPU; update NVRTC",
}


def open_driver(index: int = 0) -> Driver:
    """Return the GPU with that number; :class:`CalibrationError` names what is missing for it."""
    return CudaDriver(index)


class CudaDriver:
    """Primary context of one GPU, used on the default stream."""

    def __init__(self, index: int) -> None:
        self.cuda = _bindings()
        self.context: Any = None
        self._start(index)
        self.functions: dict[tuple[str, str], Any] = {}
        self.modules: dict[str, Any] = {}
        self.buffers: dict[str, tuple[Any, int]] = {}
        self.known = self._properties()
        self.events = [self.call("cuEventCreate", 0) for _ in range(2)]

    def _start(self, index: int) -> None:
        try:
            self.call("cuInit", 0)
            count = self.call("cuDeviceGetCount")
        except (RuntimeError, ImportError, OSError) as error:  # the bindings load libcuda here
            raise CalibrationError(
                f"NVIDIA's driver is not installed or cannot be loaded: {_first_line(error)}; "
                "calibration needs a machine with an NVIDIA GPU"
            ) from None
        if not 0 <= index < count:
            raise CalibrationError(f"there is no GPU {index}: this machine has {count}")
        self.device = self.call("cuDeviceGet", index)
        self.context = self.call("cuDevicePrimaryCtxRetain", self.device)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, function: str, *arguments: Any) -> Any:
        """Call a function of the driver API; return its result without the status."""
        status, *rest = getattr(self.cuda, function)(*arguments)
        if int(status):
            name = getattr(status, "name", str(status))
            why = _EXPLAINED.get(name, f"{function} failed")
            raise CalibrationError(f"{why} ({name})")
        return rest[0] if len(rest) == 1 else tuple(rest)

    def attribute(self, name: str) -> int:
        """Return a device attribute, ``CU_DEVICE_ATTRIBUTE_…``."""
        key = getattr(self.cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", key, self.device))

    def _properties(self) -> Properties:
        version = int(self.call("cuDriverGetVersion"))
        name = bytes(self.call("cuDeviceGetName", 128, self.device)).split(b"\0")[0].decode()
        major, minor = (self.attribute(f"COMPUTE_CAPABILITY_{m}") for m in ("MAJOR", "MINOR"))
        free, _ = self.call("cuMemGetInfo")
        return Properties(
            name=name,
            uuid=bytes(self.call("cuDeviceGetUuid", self.device).bytes).hex(),
            arch=f"sm_{major}{minor}",
            driver=f"{version // 1000}.{version % 1000 // 10}",
            compute_units=self.attribute("MULTIPROCESSOR_COUNT"),
            warp_size=self.attribute("WARP_SIZE"),
            clock_hz=1e3 * self.attribute("CLOCK_RATE"),
            max_threads_per_block=self.attribute("MAX_THREADS_PER_BLOCK"),
            max_block_z=self.attribute("MAX_BLOCK_DIM_Z"),
            max_threads_per_unit=self.attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
            max_blocks_per_unit=self.attribute("MAX_BLOCKS_PER_MULTIPROCESSOR"),
            registers_per_unit=self.attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
            shared_bytes_per_unit=self.attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
            shared_bytes_per_block=self.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            shared_reserved_bytes=self.attribute("RESERVED_SHARED_MEMORY_PER_BLOCK"),
            l2_bytes=self.attribute("L2_CACHE_SIZE"),
            free_bytes=int(_RESERVE * free),
        )

    def properties(self) -> Properties:
        return self.known

    def warnings(self) -> list[str]:
        """Return a warning of other processes on the GPU, as far as NVML reports them."""
        try:
            nvml, handle = self._nvml()
            busy = nvml.device_get_compute_running_processes_v3(handle)
            count = len(busy)
        except Exception as error:
            return [f"whether other processes use the GPU is unknown: {_first_line(error)}"]
        others = max(0, count - 1)  # this process is among them
        if not others:
            return []
        return [f"{others} other processes use the GPU: the measurements may be off; stop them"]

    def clock_hz(self) -> float:
        try:
            nvml, handle = self._nvml()
            return 1e6 * float(nvml.device_get_clock_info(handle, _SM_CLOCK))
        except Exception:  # not all GPUs and drivers tell
            return 0.0

    def _nvml(self) -> tuple[Any, Any]:
        nvml = import_module("cuda.bindings.nvml")
        nvml.init_v2()
        place = bytes(self.call("cuDeviceGetPCIBusId", 32, self.device)).split(b"\0")[0].decode()
        return nvml, nvml.device_get_handle_by_pci_bus_id_v2(place)

    def run(self, shot: Shot) -> Sample:
        for earlier in shot.before:
            self.launch(earlier)
        warps = shot.blocks * -(-shot.threads // self.known.warp_size)
        records = self._buffer("records", warps * _RECORD_BYTES)
        start, stop = self.events
        self.launch(shot, warm=True)
        self.call("cuEventRecord", start, 0)
        for _ in range(shot.count):
            self.launch(shot)
        self.call("cuEventRecord", stop, 0)
        self.call("cuEventSynchronize", stop)
        seconds = float(self.call("cuEventElapsedTime", start, stop)) / 1e3
        if not shot.records:
            return Sample(0.0, seconds, 0.0)
        left = np.zeros((warps, 4), dtype=np.int64)
        self.call("cuMemcpyDtoH", left.ctypes.data, records, left.nbytes)
        cycles, clock = summarize_timings(left)
        return Sample(cycles, seconds, clock)

    def launch(self, shot: Shot, warm: bool = False) -> None:
        """Launch a shot; ``warm`` only loads and allocates, to keep both out of the timing."""
        function = self._function(shot)
        warps = shot.blocks * -(-shot.threads // self.known.warp_size)
        records = self._buffer("records", warps * _RECORD_BYTES)
        buffer = self._buffer("data", shot.buffer_bytes)
        if warm:
            return
        values = (int(records), int(buffer), shot.n, shot.a, shot.b)
        kinds = (ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_longlong] * 3)
        self.call(
            "cuLaunchKernel", function, shot.blocks, 1, 1, shot.threads, 1, 1,
            shot.shared_bytes, 0, (values, kinds), 0,
        )  # fmt: skip

    def _buffer(self, name: str, size: int) -> Any:
        """Return a buffer of at least this size, which is zero when new."""
        address, known = self.buffers.get(name, (None, 0))
        if known < size:
            if address is not None:
                self.call("cuCtxSynchronize")
                self.call("cuMemFree", address)
                del self.buffers[name]
            address = self.call("cuMemAlloc", size)
            self.buffers[name] = (address, size)
            self.call("cuMemsetD8", address, 0, size)
        return address

    def _function(self, shot: Shot) -> Any:
        key = (shot.program, shot.kernel)
        if key not in self.functions:
            if shot.program not in self.modules:
                image = compile_program(shot.program, self.known.arch)
                self.modules[shot.program] = self.call("cuModuleLoadData", image)
            module = self.modules[shot.program]
            function = self.call("cuModuleGetFunction", module, shot.kernel.encode())
            self.functions[key] = function
        if shot.shared_bytes:
            limit = self.cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.call("cuFuncSetAttribute", self.functions[key], limit, shot.shared_bytes)
        return self.functions[key]

    def close(self) -> None:
        if self.context is not None:
            for address, _ in self.buffers.values():
                self.call("cuMemFree", address)
            self.buffers.clear()
            self.call("cuDevicePrimaryCtxRelease", self.device)
            self.context = None


def compile_program(program: str, arch: str) -> bytes:
    """Return the cubin of ``"memory"``, ``"launch"`` or ``"chain:<class>"`` for an architecture."""
    from perfassert.frontends.toolchain import tools
    from perfassert.frontends.toolchain.architecture import legacy, number
    from perfassert.frontends.toolchain.binary import Source
    from perfassert.frontends.toolchain.build import compiled_module

    if number(arch) < _OLDEST:
        raise CalibrationError(f"no current compiler knows {arch}; calibration needs sm_{_OLDEST}")
    if legacy(arch) and tools.find_older("ptxas", 13) is None:
        raise CalibrationError(
            f"no installed ptxas knows {arch}; that of CUDA 12 does: pip install 'triton<3.6'"
        )
    stem, _, operation = program.partition(":")
    path = (KERNELS / f"{stem}.cu").resolve()
    defines = {f"OP_{operation}": 1} if operation else {}
    return compiled_module(Source(path, "cuda", defines=defines), arch).cubin


def summarize_timings(records: Sequence[Any] | np.ndarray[Any, Any]) -> tuple[float, float]:
    """Return cycles and clock from ``(start, stop, nanoseconds, unit)`` of every warp.

    Clocks agree within a unit only. The result is the median over the units with the most warps.
    """
    left = np.asarray(records)
    units, where = np.unique(left[:, 3], return_inverse=True)
    warps_by_unit = np.bincount(where)
    spans = [
        left[where == i, 1].max() - left[where == i, 0].min()
        for i in range(units.size)
        if warps_by_unit[i] == warps_by_unit.max()
    ]
    taken = left[:, 1] - left[:, 0]
    timed = left[:, 2] > 0
    clock = float(np.median(taken[timed] / left[timed, 2])) * 1e9 if timed.any() else 0.0
    return float(np.median(spans)), clock


def _bindings() -> Any:
    try:
        return import_module("cuda.bindings.driver")
    except ImportError:
        raise CalibrationError(f"calibration needs NVIDIA's Python bindings: {_EXTRA}") from None


def _first_line(error: BaseException) -> str:
    """Return the first line of a message, without its full stop."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
