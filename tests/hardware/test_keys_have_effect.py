"""Tests that a change of each key of a device file changes some prediction."""

from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.hardware.entries import Scope
from perfassert.hardware.schema import VALUES
from perfassert.sensitivity.examples import EXAMPLES, example

ONLY_DIAGNOSTICS = {"tlb_page_bytes"}  # no metric follows from TLB misses
OF_CLUSTERS = {"cluster_latency", "cluster_bytes_per_cycle"}
"""What only Hopper's code can ask for: ``tests/predictor/test_distributed_shared_memory.py``."""
OF_BANDS = {"slowest_clock_hz", "fastest_clock_hz"}
"""What only says how wrong a time may be: ``tests/predictor/test_clock_range.py``."""
LEFT_OUT = ONLY_DIAGNOSTICS | OF_CLUSTERS | OF_BANDS | {"warp_size"}
OPERATIONS = tuple(pa.device("a100").operations)
PIPELINES = tuple(pa.device("a100").pipelines)


def field(name="a", dtype="float64", shape=(1 << 20,), **more):
    return pa.Field(name, dtype, shape=shape, **more)


def accesses(loads, stores=(), shape=(1 << 20,), **more):
    fields = [field("a", shape=shape), field("b", shape=shape)]
    return pa.Kernel.from_accesses("k", fields, loads, stores, **more)


KERNELS = Path(__file__).parents[2] / "validation" / "kernels"
NEED_COMPILED_CODE = {
    "shared_atomic_cycles", "shared_merged_passes", "l2_update_cycles", "l2_atomic_lane_cycles",
    "l2_double_cycles", "l2_slices", "l2_slice_bytes",
}  # fmt: skip


def of_compiled_code():
    """Atomics, and loads of 16 bytes of which pairs of lanes want the same, which only compiled
    code has; nothing without a compiler."""
    if find_spec("nvidia") is None or find_spec("nvidia.cu13") is None:
        return ()
    atomics = pa.from_cuda(KERNELS / "atomics.cu", "add_shared")
    doubles = pa.from_cuda(KERNELS / "atomics.cu", "add_doubles")
    product = pa.from_cuda(KERNELS / "matmul_ladder.cu", "matmul_vectors")
    matrices = {name: pa.Buffer((1024, 1024)) for name in "abc"}
    return (
        (atomics, pa.Launch(108, 1024, args={"addresses": 1})),
        (doubles, pa.Launch(108, 1024, args={"addresses": 1, "n": 108 << 10})),
        (doubles, pa.Launch(108, 1024, args={"addresses": 256, "n": 108 << 10})),
        (doubles, pa.Launch(108, 1024, args={"addresses": 108 << 10, "n": 108 << 10})),
        (product, pa.Launch((8, 8), 256, args={**matrices, "n": 1024})),
    )


@cache
def cases():
    """Kernels and launches at the limits, and compiled ones."""
    copy, launch = accesses(["a[x]"], ["b[x]"]), pa.Launch.cover(1 << 20, 256)
    shape = (64, 128, 256)
    stencil = [f"a[z{d}, y, x]" for d in ("", " + 1", " - 1")] + [
        "a[z, y + 1, x]",
        "a[z, y - 1, x]",
    ]
    halo = [pa.Field("a", shape=shape, halo=1), pa.Field("b", shape=shape, halo=1)]
    return (
        *((c.kernel, c.launch) for c in (example(name, 32) for name in EXAMPLES)),
        (copy, launch),
        chains("constant_load"),
        (copy, pa.Launch(1, 256)),  # one unit, whose port is the limit
        (accesses(["a[x]"], registers=255), pa.Launch.cover(1 << 20, 128)),
        (accesses(["a[x]"], registers=65), pa.Launch.cover(1 << 20, 256)),
        (accesses(["a[x]"], shared_bytes=40 * 1024), pa.Launch.cover(1 << 20, 128)),
        (accesses(["a[x]"], shared_bytes=163 * 1024), pa.Launch.cover(1 << 20, 128)),
        (copy, pa.Launch(1024, 1024)),
        (copy, pa.Launch(1 << 15, 32)),
        (accesses(["a[z]"]), pa.Launch(64, (1, 1, 64))),
        (accesses(["a[8 * x]"], ["b[3 * x]"]), pa.Launch.cover(1 << 16, 256)),
        (accesses(["a[4098 * (x % 32) + x // 32]"]), pa.Launch.cover(1 << 10, 256)),
        (
            accesses(["a[524288 * (x % 32) + x // 32]"], shape=(1 << 24,)),
            pa.Launch.cover(1 << 20, 256),
        ),
        # Pieces of 64 bytes, of rows of four pages and of half a page of DRAM.
        *(
            (accesses(["a[x, y]"], shape=(4096, n)), pa.Launch.cover((4096, n), (32, 8)))
            for n in (512, 64)
        ),
        (
            pa.Kernel.from_accesses("stencil", halo, stencil, ["b[z, y, x]"], flops=5),
            pa.Launch.cover((256, 128, 64), (32, 8, 1)),
        ),
        *of_compiled_code(),  # last: it takes longest, and few keys need it
    )


def predicted(case, device):
    """Return the prediction of a case as data, or the reason why there is none."""
    try:
        found = pa.predict(*case, device).to_dict(diagnosis=False)
    except pa.LaunchError as error:
        return {"error": str(error).replace(device.name, "")}
    del found["device_digest"]
    return found


@pytest.fixture(scope="module")
def devices():
    """Return the shipped device and variants of it.

    One has an instruction cache that code exceeds, one a rate of atomics that some slices of the L2
    share.
    """
    a100 = pa.device("a100")
    atomics = {
        "l2_atomic_lane_cycles": 0.003,
        "l2_double_cycles": 1.3,
        "l2_slices": 40,
        "l2_slice_bytes": 512,
    }
    both = (a100, a100.replace(instruction_cache_bytes=1024, **atomics))
    return {device: [predicted(case, device) for case in cases()] for device in both}


def variants(device, key):
    now = getattr(device, key)
    for factor in (1.2, 2, 0.8, 0.5) if now else (1e-6, 4.0):
        value = now * factor if now else factor
        value = max(1, round(value)) if VALUES[key].integer else value
        try:
            yield device.replace(**{key: value})
        except pa.DeviceFileError:
            continue  # not with the other values


def differences(devices, key):
    """Parts of predictions that change with a key, one case after the other."""
    for device, before in devices.items():
        for variant in variants(device, key):
            for case, old in zip(cases(), before, strict=True):
                new = predicted(case, variant)
                parts = (old.keys() | new.keys()) - {"question"}  # every key is a part of it
                yield {part for part in parts if old.get(part) != new.get(part)}


@pytest.mark.exhaustive(one_in=18)
@pytest.mark.parametrize("key", [k for k in VALUES if k not in LEFT_OUT])
def test_values(devices, key):
    if key in NEED_COMPILED_CODE:
        pytest.importorskip("nvidia.cu13")
    assert any(parts - {"diagnostics"} for parts in differences(devices, key)), (
        f"{key} does nothing"
    )


@pytest.mark.parametrize("key", ONLY_DIAGNOSTICS)
def test_values_that_are_only_shown(devices, key):
    assert set().union(*differences(devices, key)) == {"diagnostics"}


def test_warp_size(devices):
    """Compiled code is bound for its warps; the rest follows a warp of another size."""
    a100 = next(iter(devices))
    kernel, launch = cases()[len(EXAMPLES)]
    narrow = pa.predict(kernel, launch, a100.replace(warp_size=16))
    assert narrow.volumes.l2_load.total == pa.predict(kernel, launch, a100).volumes.l2_load.total
    assert narrow.time != pa.predict(kernel, launch, a100).time


def chains(operation):
    """Eight of an operation in a row, and sixteen side by side, in each of eight warps."""
    g = pa.InstructionGraph.builder()
    for _ in range(8):
        if operation == "barrier":
            g.barrier()
            continue
        last = g.op(operation)
        for _ in range(7):
            last = g.op(operation, last)
    for _ in range(16 if operation != "barrier" else 0):
        g.op(operation)
    return pa.Kernel.from_graph(operation, g.build()), pa.Launch(108, 256)


@pytest.mark.parametrize("part", ["issue", "completion"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.exhaustive(one_in=3)
def test_operations(operation, part):
    device = pa.device("a100")
    own = device.operations[operation]
    changed = {**device.operations, operation: replace(own, **{part: 3 * getattr(own, part)})}
    kernel, launch = chains(operation)
    before = pa.predict(kernel, launch, device).time
    assert pa.predict(kernel, launch, device.replace(operations=changed)).time > before


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_scopes(pipeline):
    device = pa.device("a100")
    other = next(s for s in Scope if s is not device.pipelines[pipeline])
    variant = device.replace(pipelines={**device.pipelines, pipeline: other})
    users = (name for name, o in device.operations.items() if o.pipeline == pipeline)
    kernel, launch = chains(next(users))
    assert pa.predict(kernel, launch, variant).time != pa.predict(kernel, launch, device).time


@pytest.fixture(scope="module")
def large():
    """Shapes larger than any that a file lists, of all units and types: how long each takes."""
    device = pa.device("h100")
    shapes = {"tensor": "m16n8k512", "wgmma": "m64n256k512"}
    units = [(unit, *types) for unit, *types in (rate.split(".") for rate in device.matrix)]
    names = [".".join((unit, shapes[unit], *types)) for unit, *types in units]
    return {name: pa.predict(*chains(name), device) for name in names}


@pytest.mark.parametrize("rate", pa.device("h100").matrix)
def test_rates(large, rate):
    device = pa.device("h100")
    slower = device.replace(matrix={**device.matrix, rate: device.matrix[rate] / 3})
    assert any(pa.predict(*chains(n), slower).time != before.time for n, before in large.items())
    assert all(any("derived" in a.text for a in found.assumptions) for found in large.values())
