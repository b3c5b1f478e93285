"""A GPU at the seam that takes what the predictor says, and a little noise."""

import numpy as np
from own_suite import predicted

from perfassert.lab.calibration.driver import Properties
from perfassert.lab.measurement.gpu import MeasurementError, Timing

PROPERTIES = Properties(
    name="NVIDIA A100-SXM4-40GB", uuid="0" * 32, arch="sm_80", driver="13.0", compute_units=108,
    warp_size=32, clock_hz=1.41e9, max_threads_per_block=1024, max_block_z=64,
    max_threads_per_unit=2048, max_blocks_per_unit=32, registers_per_unit=65536,
    shared_bytes_per_unit=167936, shared_bytes_per_block=166912, shared_reserved_bytes=1024,
    l2_bytes=41943040, free_bytes=30 * 10**9,
)  # fmt: skip


class FakeGpu:
    """``broken``: kernels whose launch fails; ``stop_after``: an interrupt comes then."""

    def __init__(self, suite, noise=0.01, broken=(), stop_after=None, clock_hz=1.2e9, busy=()):
        self.suite, self.noise, self.broken = suite, noise, broken
        self.stop_after, self.clock_hz, self.busy = stop_after, clock_hz, busy
        self.timed = []
        self.random = np.random.default_rng(7)
        self.closed = False

    def properties(self):
        return PROPERTIES

    def warnings(self):
        return list(self.busy)

    def time(self, work, warmup, repetitions):
        assert work.image[:4] == b"\x7fELF"
        if work.kernel in self.broken:
            raise MeasurementError("CUDA_ERROR_LAUNCH_FAILED")
        if self.stop_after == len(self.timed):
            raise KeyboardInterrupt
        self.timed.append(work)
        clock = f"{self.clock_hz:.0f}"
        found = predicted(self.suite, work.kernel, work.cells, "A100-SXM4-40GB", clock)
        factors = self.random.normal(1, self.noise, repetitions)
        return Timing(tuple(float(found.time) * f for f in factors), self.clock_hz)

    def close(self):
        self.closed = True
