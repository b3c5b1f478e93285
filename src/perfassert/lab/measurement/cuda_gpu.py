"""GPU for measurements: launches and events by the driver that calibration uses."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from perfassert.lab.calibration.cuda_driver import CudaDriver
from perfassert.lab.calibration.driver import Properties, Shot
from perfassert.lab.measurement.gpu import Gpu, GpuLaunch, ParameterMemory, Timing
from perfassert.shipped import model_integer

_FLUSH = 4  # times the L2
_DEFAULT_SHARED = model_integer("default_shared_bytes")


def open_gpu(index: int = 0) -> Gpu:
    """Return the GPU with that number, or raise a :class:`~perfassert.PerfAssertError`."""
    return CudaGpu(index)


class CudaGpu:
    """GPU of the machine; buffers live for one :meth:`time` or :meth:`launch`."""

    def __init__(self, index: int) -> None:
        self.driver = CudaDriver(index)
        self.call = self.driver.call
        about = self.driver.properties()
        size = _FLUSH * about.l2_bytes
        self.flush = Shot("memory", "read", 4 * about.compute_units, 256, size, 1, 0, size)
        """Kernel that reads other data to empty the L2.

        A kernel that writes would leave lines in the L2 that the timed launch has to write back.
        """

    def properties(self) -> Properties:
        return self.driver.properties()

    def warnings(self) -> list[str]:
        return self.driver.warnings()

    def time(self, work: GpuLaunch, warmup: int, repetitions: int) -> Timing:
        with _Loaded(self, work) as loaded:
            self.driver.launch(self.flush)  # compiled and allocated before the first event
            for _ in range(warmup):
                loaded.launch()
            pairs = [
                (self.call("cuEventCreate", 0), self.call("cuEventCreate", 0))
                for _ in range(repetitions)
            ]
            try:
                for start, stop in pairs:
                    self.driver.launch(self.flush)
                    self.call("cuEventRecord", start, 0)
                    loaded.launch()
                    self.call("cuEventRecord", stop, 0)
                clock = self.driver.clock_hz()  # while the launches run
                self.call("cuCtxSynchronize")
                seconds = tuple(
                    1e-3 * float(self.call("cuEventElapsedTime", start, stop))
                    for start, stop in pairs
                )
            finally:
                for event in (e for pair in pairs for e in pair):
                    self.call("cuEventDestroy", event)
        return Timing(seconds, clock)

    def launch(self, work: GpuLaunch) -> None:
        """Run one untimed launch, for a profiler."""
        with _Loaded(self, work) as loaded:
            loaded.launch()

    def close(self) -> None:
        self.driver.close()


class _Loaded:
    """Launch with its module and its buffers on the GPU."""

    def __init__(self, gpu: CudaGpu, work: GpuLaunch) -> None:
        self.call = gpu.call
        self.work = work
        self.attributes = gpu.driver.cuda.CUfunction_attribute
        self.module: Any = None
        self.buffers: list[Any] = []

    def __enter__(self) -> _Loaded:
        try:
            self.module = self.call("cuModuleLoadData", self.work.image)
            name = self.work.function.encode()
            self.function = self.call("cuModuleGetFunction", self.module, name)
            if self.work.shared_bytes > _DEFAULT_SHARED:
                limit = self.attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self.call("cuFuncSetAttribute", self.function, limit, self.work.shared_bytes)
            self.arguments = self._arguments()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.call("cuCtxSynchronize")
        for address in self.buffers:
            self.call("cuMemFree", address)
        if self.module is not None:
            self.call("cuModuleUnload", self.module)

    def launch(self) -> None:
        work = self.work
        self.call(
            "cuLaunchKernel", self.function, *work.grid, *work.block, work.shared_bytes, 0,
            self.arguments, 0,
        )  # fmt: skip

    def _arguments(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        values: list[Any] = []
        kinds: list[Any] = []
        for argument in self.work.arguments:
            if isinstance(argument, ParameterMemory):
                values.append(int(self._buffer(argument)))
                kinds.append(ctypes.c_void_p)
            else:
                values.append(argument.value)
                kinds.append(getattr(ctypes, argument.kind))
        return tuple(values), tuple(kinds)

    def _buffer(self, memory: ParameterMemory) -> Any:
        address = self.call("cuMemAlloc", max(memory.size, 1))
        self.buffers.append(address)
        if memory.content is None:
            self.call("cuMemsetD8", address, 0, memory.size)
            return address
        content = np.ascontiguousarray(memory.content)
        for offset in range(0, memory.size, content.nbytes):
            part = min(content.nbytes, memory.size - offset)
            self.call("cuMemcpyHtoD", int(address) + offset, content.ctypes.data, part)
        return address
