"""Triton kernels, compiled and predicted where there is no GPU."""

import pytest

import perfassert as pa
from perfassert.frontends.cuda.triton import from_triton
from perfassert.frontends.toolchain import tools

pytest.importorskip("triton")
if tools.find("nvdisasm") is None:
    pytest.skip("nvdisasm is not installed", allow_module_level=True)

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
