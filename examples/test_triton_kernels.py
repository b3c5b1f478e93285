"""Triton kernels, compiled and predicted where there is no GPU."""

import os

import pytest

import perfassert as pa
from perfassert.frontends.generators.triton import from_triton
from perfassert.frontends.toolchain import tools

pytest.importorskip("triton")
if tools.find("nvdisasm") is None:
    pytest.skip("nvdisasm is not installed", allow_module_level=True)

from kernels.triton_attention import attention
from kernels.triton_layer_norm import layer_norm
from kernels.triton_matmul import matmul
from kernels.triton_softmax import softmax

ROWS, COLUMNS = 1 << 15, 1024
SIZE, TILE = 2048, 64


@pytest.fixture(scope="module")
def softmax_kernel():
    types = {"target": "*fp32", "source": "*fp32", "columns": "i32", "pitch": "i32"}
    return from_triton(softmax, types, {"BLOCK": COLUMNS})


@pytest.fixture(scope="module")
def matmul_kernel():
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "n": "i32", "k": "i32"}
    return from_triton(matmul, types, {"M": TILE, "N": TILE, "K": 32})


@pytest.fixture(scope="module")
def softmax_launch():
    return pa.Launch(ROWS, 128, {"columns": COLUMNS, "pitch": COLUMNS})


@pytest.fixture(scope="module")
def matmul_launch():
    return pa.Launch((SIZE // TILE, SIZE // TILE), 128, {"n": SIZE, "k": SIZE})


def test_softmax_is_bound_by_memory(softmax_kernel, softmax_launch):
    """Every element is read once and written once."""
    prediction = pa.predict(softmax_kernel, softmax_launch, "A100-SXM4-40GB")
    matrix = ROWS * COLUMNS * 4
    assert prediction.limiter == "dram"
    assert prediction.resources.instructions > 0
    assert prediction.volumes.l2_load.total == pytest.approx(matrix, rel=0.05)
    assert prediction.volumes.dram_store.total == pytest.approx(matrix, rel=0.05)


@pytest.mark.parametrize("device", ["A100-SXM4-40GB", "H100-SXM5-80GB"])
def test_tiles_are_loaded_once_per_block(matmul_kernel, matmul_launch, device):
    prediction = pa.predict(matmul_kernel, matmul_launch, device)
    loaded = 2 * SIZE**3 // TILE * 2
    assert prediction.volumes.l2_load.total == pytest.approx(loaded, rel=0.1)
    assert prediction.resources.instructions > 0
    assert prediction.resources.shared_bytes >= 2 * 2 * TILE * 32


def test_the_matrix_unit_multiplies(matmul_kernel, matmul_launch):
    bound, _ = matmul_kernel.compiled.bind(matmul_launch, "sm_80", 32)
    assert any(node.operation.startswith("tensor.") for node in bound.graph.nodes)


def test_assumptions_name_python_lines(matmul_kernel, matmul_launch):
    bound, _ = matmul_kernel.compiled.bind(matmul_launch, "sm_80", 32)
    for assumption in bound.assumptions:
        print(assumption)
        assert assumption.span is not None
        assert assumption.span.file.endswith("triton_matmul.py")
    spans = {str(a.span).rpartition("/")[2] for a in bound.bound}
    assert all(span.startswith("triton_matmul.py:") for span in spans)


MATRIX_UNITS = {"A100-SXM4-40GB": "tensor", "H100-SXM5-80GB": "wgmma", "B200": "tcgen05"}
LENGTH, HEADS, DEPTH = 2048, 64, 64
ATTENTION = from_triton(
    attention,
    dict.fromkeys("qkvo", "*fp16") | {"length": "i32", "scale": "fp32"},
    {"ROWS": 128, "TILE": 64, "D": DEPTH},
)
PRODUCT = from_triton(
    matmul,
    {"a": "*fp16", "b": "*fp16", "c": "*fp32", "n": "i32", "k": "i32"},
    {"M": 128, "N": 128, "K": 64},
)
NORM = from_triton(
    layer_norm,
    dict.fromkeys(("target", "source", "weight", "bias"), "*fp32")
    | {"columns": "i32", "epsilon": "fp32"},
    {"BLOCK": COLUMNS},
)
LAUNCHES = {
    "attention": (
        ATTENTION, pa.Launch((LENGTH // 128, HEADS), 128, {"length": LENGTH, "scale": 0.18}),
        4 * LENGTH**2 * DEPTH * HEADS,
    ),
    "matmul": (PRODUCT, pa.Launch((32, 32), 128, {"n": 4096, "k": 4096}), 2 * 4096**3),
}  # fmt: skip
GENERATIONS = [(name, device) for name in LAUNCHES for device in MATRIX_UNITS]
if not os.environ.get("PERFASSERT_EXHAUSTIVE"):  # Triton takes seconds to compile each
    GENERATIONS = [("attention", "H100-SXM5-80GB")]


@pytest.mark.parametrize(("name", "device"), GENERATIONS)
def test_each_generation_multiplies_its_own_way(name, device):
    """A100: 190 and 278 TFLOPS, H100: 398 and 566, B200: 347 and 897."""
    kernel, launch, operations = LAUNCHES[name]
    device = pa.device(device)
    unit = MATRIX_UNITS[device.name]
    bound, _ = kernel.compiled.bind(launch, device.arch, device.warp_size)
    used = {node.operation.partition(".")[0] for node in bound.graph.nodes}
    assert used & {*MATRIX_UNITS.values()} == {unit}
    assert not [a for a in bound.assumptions if a.stands_for == "opcode"]
    prediction = pa.predict(kernel, launch, device)
    assert prediction.confidence != "guessed"
    peak = 2 * device.matrix[f"{unit}.f16.f32"] * device.clock_hz * device.compute_units
    assert 0.1 * peak < operations / float(prediction.time) < peak


@pytest.mark.parametrize("device", ["H100-SXM5-80GB", "B200"])
def test_layer_norm_reads_and_writes_each_row_once(device):
    launch = pa.Launch(ROWS, 128, {"columns": COLUMNS, "epsilon": 1e-5})
    prediction = pa.predict(NORM, launch, device)
    matrix = ROWS * COLUMNS * 4
    assert prediction.confidence != "guessed"
    assert prediction.volumes.dram_load.total == pytest.approx(matrix, rel=0.05)
    assert prediction.volumes.dram_store.total == pytest.approx(matrix, rel=0.05)
