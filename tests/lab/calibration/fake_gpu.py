"""A GPU that is not there: what a device file says of one, run by the kernels' contract.

Chains go through ``perfassert.simulate``; caches, bandwidths and launches follow the file's
numbers. Each sample has its own reproducible noise.
"""

from zlib import crc32

import numpy as np

import perfassert as pa
from perfassert.lab.calibration import plan
from perfassert.lab.calibration.driver import CalibrationError, Properties, Sample

PARTS = {  # class → what a link of its chain executes
    "compare": ["compare", "int32"],
    "shared_store": ["shared_store", "shared_load"],
    "atomic_global": ["atomic_global", "int32", "int32"],
}
PACKET, PORT_PACKET, DISPATCH = 0.0133, 1.1, 1.3
ATOMICS = {"l2_atomic_cycles": 1.45, "l2_update_cycles": 3.5, "l2_atomic_lane_cycles": 0.004}
KNEE = 0.92  # of the L1 that holds data
ALONE = {"scale": 0.0, "read": 0.6, "write": 1.0}  # how much of dram_alone_factor a kernel sees


class FakeGpu:
    """``stop_after``: shots until the user presses Ctrl-C; ``fail_after``: until the GPU fails."""

    def __init__(self, name, noise=0.01, stop_after=None, fail_after=None, far=None):
        self.device = pa.device(name)
        self.noise = noise  # standard deviation, relative
        self.stop_after, self.fail_after = stop_after, fail_after
        self.far = far
        self.shots = 0
        self.turns = {}
        self.times = {}
        self.closed = False

    def properties(self):
        d = self.device
        shared = {
            k: getattr(d, k)
            for k in (
                "arch compute_units warp_size clock_hz max_threads_per_block max_block_z "
                "max_threads_per_unit max_blocks_per_unit registers_per_unit shared_bytes_per_unit "
                "shared_bytes_per_block shared_reserved_bytes l2_bytes"
            ).split()
        }
        return Properties(
            name=f"NVIDIA Fake {d.name}", uuid="00ff", driver="13.0", free_bytes=8 << 30, **shared
        )

    def warnings(self):
        return ["2 other processes use the GPU: the measurements may be off; stop them"]

    def clock_hz(self):
        return self.device.clock_hz

    def close(self):
        self.closed = True

    def run(self, shot):
        if self.stop_after is not None and self.shots >= self.stop_after:
            raise KeyboardInterrupt
        if self.fail_after is not None and self.shots >= self.fail_after:
            raise CalibrationError("the GPU has fallen off the bus (CUDA_ERROR_UNKNOWN)")
        self.shots += 1
        turn = self.turns[shot] = self.turns.get(shot, 0) + 1
        if shot not in self.times:
            self.times[shot] = self.cycles(shot)
        random = np.random.default_rng(crc32(f"{shot} {turn}".encode()))
        cycles = self.times[shot] * (1 + self.noise * random.standard_normal())
        if random.random() < 0.01:
            cycles *= 1.8  # something else had the GPU
        clock = self.device.clock_hz * (1 + 1e-4 * random.standard_normal())
        seconds = cycles / self.device.clock_hz
        return Sample(cycles, seconds, clock) if shot.records else Sample(0.0, seconds, 0.0)

    def cycles(self, shot):
        _, _, operation = shot.program.partition(":")
        return self.chain(shot, operation) if operation else getattr(self, f"_{shot.kernel}")(shot)

    def chain(self, shot, operation):
        d = self.device
        warps = shot.threads // 32 * max(1, shot.blocks // d.compute_units)
        if operation == "barrier":
            barrier = d.operations["barrier"]
            return shot.n * (barrier.completion + (warps - 1) * barrier.issue)
        parts = PARTS.get(operation, [operation])
        latencies = {}
        for name in parts:
            o = d.operations[name]
            completion = {
                "constant_load": d.constant_latency,
                "shared_load": d.shared_latency,
            }.get(name, o.completion)
            scope = d.pipelines[o.pipeline].value
            latencies[name] = pa.Latency(o.issue, completion, o.pipeline, scope)
        g = pa.InstructionGraph.builder()
        with g.loop(shot.n) as body:
            value = body.carried("x")
            for i, name in enumerate(parts):
                value = g.op(name, value, name="x" if i == len(parts) - 1 else f"part{i}")
        schedulers = d.schedulers_per_unit
        return pa.simulate(g.build(), warps, 1, 1, latencies, schedulers=schedulers).cycles

    def _chase(self, shot):
        d = self.device
        size = shot.before[0].n * shot.b
        if size <= KNEE * d.l1_bytes:
            latency = d.l1_latency
        elif size <= d.l2_bytes / (2 if self.far else 1) * 1.001:
            latency = d.l2_latency
        elif size <= d.l2_bytes:
            latency = self.far
        else:
            latency = d.dram_latency
        return shot.n * latency

    def _pairs(self, shot):
        d = self.device
        second = d.l1_latency if shot.a < d.sector_bytes else d.l2_latency
        second = d.dram_latency if shot.a >= d.dram_granularity else second
        return shot.n * (d.dram_latency + second)

    def _hits(self, shot):
        width = min(self.device.l1_bytes_per_cycle, 8 * shot.threads / 32)
        return shot.n * shot.threads / 32 * 128 / width

    def _read(self, shot):
        d = self.device
        size = shot.n * shot.a
        if shot.blocks == 1:
            return size / min(d.l2_port_bytes_per_cycle, shot.threads / 512 * 64)
        if shot.n <= d.l2_bytes:
            share = min(1.0, shot.blocks / d.compute_units / 3)
            return size / (d.l2_bandwidth * share) * d.clock_hz
        return self.stream(shot, size)

    def _write(self, shot):
        return self.stream(shot, shot.n * shot.a)

    def _scale(self, shot):
        return self.stream(shot, 2 * shot.n * shot.a)

    def stream(self, shot, size):
        d = self.device
        share = min(1.0, shot.blocks / d.compute_units / 2.5)
        alone = 1 + ALONE[shot.kernel] * (d.dram_alone_factor - 1)
        return size / (d.dram_bandwidth * alone * share) * d.clock_hz

    def _store_lines(self, shot):
        packets = plan.STORE_PACKETS * shot.blocks * shot.threads * shot.n
        if shot.blocks == 1:
            return packets * PORT_PACKET * max(1.0, 400 / shot.threads)
        share = min(1.0, shot.blocks / self.device.compute_units / 3)
        return packets * PACKET / share

    def _add_integers(self, shot):
        return shot.blocks * shot.threads * shot.n * ATOMICS["l2_atomic_cycles"]

    def _add_floats(self, shot):
        key = "l2_atomic_lane_cycles" if shot.a else "l2_update_cycles"
        return shot.blocks * shot.threads * shot.n * ATOMICS[key]

    def _spin(self, shot):
        d = self.device
        drain = d.block_drain_cycles if shot.a else 0
        return 5000 + shot.blocks / d.compute_units * (shot.n + d.block_launch_cycles + drain)

    def _empty(self, shot):
        if shot.blocks > 1:
            return 4000 + shot.blocks * DISPATCH
        return (2e-6 + shot.count * self.launch_overhead) * self.device.clock_hz

    launch_overhead = 1.9e-6


def expected(device):
    """Key → what calibration should find again of the file that the fake is made of."""
    values = (
        "clock_hz l2_bandwidth l2_port_bytes_per_cycle dram_bandwidth dram_alone_factor "
        "l1_latency l2_latency dram_latency shared_latency constant_latency l1_bytes "
        "l1_bytes_per_cycle sector_bytes dram_granularity"
    )
    found = {key: getattr(device, key) for key in values.split()}
    found["launch_overhead"] = FakeGpu.launch_overhead
    found |= ATOMICS | {
        "l2_packet_cycles": PACKET, "l2_port_packet_cycles": PORT_PACKET,
        "block_dispatch_cycles": DISPATCH,
    }  # fmt: skip
    for name in plan.CHAINS:
        if name in device.operations:
            found[f"{name}.issue"] = device.operations[name].issue
            found[f"{name}.completion"] = device.operations[name].completion
    found["constant_load.completion"] = device.constant_latency
    found["shared_load.completion"] = device.shared_latency
    return found
