"""Kernels that do nothing but multiply: the documented rate, the measured latency."""

from pathlib import Path

import pytest

import perfassert as pa

pytestmark = pytest.mark.exhaustive(one_in=3)

UNROLLED, TRIPS = 64, 200
EXAMPLES = Path(__file__).parents[2] / "examples" / "kernels"
# PTX: instruction, registers of A, B, accumulator, their constraint
VARIANTS = {
    "tensor.m16n8k16.f16.f32": ("m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 4, "f"),
    "tensor.m16n8k8.f16.f16": ("m16n8k8.row.col.f16.f16.f16.f16", 2, 1, 2, "r"),
    "tensor.m16n8k16.bf16.f32": ("m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4, "f"),
    "tensor.m16n8k8.tf32.f32": ("m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4, "f"),
    "tensor.m16n8k32.s8.s32": ("m16n8k32.row.col.s32.s8.s8.s32", 4, 2, 4, "r"),
}
TYPES = {"f": "float", "r": "unsigned"}
DEVICES = ("a100", "h100", "rtx-3090", "rtx-5090")
PAIRS = [(name, DEVICES[(i + j) % 4]) for i, name in enumerate(VARIANTS) for j in (0, 1)]
"""Each variant on two devices, which take turns."""


def source(name, chains):
    """Return a kernel whose warps run ``chains`` chains of accumulators in registers."""
    shape, a, b, c, kind = VARIANTS[name]
    places = [f"%{i}" for i in range(a + b + c)]
    parts = (places[:c], places[c : c + a], places[c + a :], places[:c])
    said = f"mma.sync.aligned.{shape} " + ", ".join(f"{{{', '.join(p)}}}" for p in parts) + ";"
    inputs = ", ".join(f'"r"(in[{i}])' for i in range(a + b))
    links = ""
    for j in [*range(chains)] * (UNROLLED // chains):
        outputs = ", ".join(f'"+{kind}"(c[{j}][{i}])' for i in range(c))
        links += f'asm volatile("{said}" : {outputs} : {inputs});\n'
    return f"""
    extern "C" __global__ void multiply({TYPES[kind]}* out, unsigned seed) {{
        unsigned in[{a + b}];
        for (int i = 0; i < {a + b}; i++) in[i] = seed + i;
        {TYPES[kind]} c[{chains}][{c}] = {{}};
        #pragma unroll 1
        for (int n = 0; n < {TRIPS}; n++) {{ {links} }}
        {TYPES[kind]} sum = 0;
        for (int j = 0; j < {chains}; j++) for (int i = 0; i < {c}; i++) sum += c[j][i];
        out[threadIdx.x] = sum;
    }}"""


def multiplied(folder, name, chains, warps, device):
    pytest.importorskip("nvidia.cu13")
    (file := folder / "multiply.cu").write_text(source(name, chains))
    kernel = pa.from_cuda(file)
    launch = pa.Launch(device.compute_units, 32 * warps, args={"seed": 1})
    return pa.predict(kernel, launch, device)


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize(("name", "device"), PAIRS)
def test_many_warps_reach_the_rate(tmp_path, name, device):
    device = pa.device(device)
    found = multiplied(tmp_path, name, 4, 8, device)
    cycles = 8 / 4 * UNROLLED * TRIPS * device.operation(name).issue
    assert float(found.cycles) == pytest.approx(cycles, rel=0.02)
    assert found.limiter == "compute"
    assert found.confidence != "guessed"


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(("name", "device"), PAIRS)
def test_one_warp_waits_for_its_accumulator(tmp_path, name, device):
    device = pa.device(device)
    found = multiplied(tmp_path, name, 1, 1, device)
    cycles = UNROLLED * TRIPS * device.operation(name).completion
    assert float(found.cycles) == pytest.approx(cycles, rel=0.02)
    assert found.limiter != "compute"


@pytest.mark.parametrize("warps", [1, 8])
def test_the_clock_falls_with_the_load(tmp_path, warps):
    device = pa.device("h100").replace(launch_overhead=0)  # cycles and time have the same parts
    found = multiplied(tmp_path, "tensor.m16n8k16.f16.f32", 1, warps, device)
    clock = device.clock_hz - warps / 16 * (device.clock_hz - device.sustained_clock_hz)
    assert float(found.cycles) / float(found.time) == pytest.approx(clock, rel=0.003)
    assert any("the clock is taken to fall" in a.text for a in found.assumptions)
    steady = device.replace(sustained_clock_hz=0.0)
    assert multiplied(tmp_path, "tensor.m16n8k16.f16.f32", 1, warps, steady).time < found.time


def test_stages_cost_nothing_where_as_many_blocks_fit():
    """Blocks that share a unit do not lock in step: 236, 243 and 242 TFLOPS."""
    pytest.importorskip("nvidia.cu13")
    times = []
    for stages in (2, 3, 4):
        kernel = pa.from_cuda(EXAMPLES / "gemm_cp_async.cu", defines={"STAGES": stages})
        args = {"n": 8192, "k": 8192}
        found = pa.predict(kernel, pa.Launch((64, 64), 128, args, stages * 16384), "a100")
        assert found.occupancy.resident_blocks == 2
        times.append(float(found.time))
    assert max(times[1:]) < times[0] < 1.1 * min(times)
