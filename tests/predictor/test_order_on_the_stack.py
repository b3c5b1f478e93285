"""Accesses to the stack wait for each other where they may be of one word, and only there."""

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools
from perfassert.kernel.access import Direction
from perfassert.kernel.graph import ItemKind
from perfassert.predictor.model import model_of
from perfassert.predictor.rewrites.dependences import Dependences
from perfassert.predictor.rewrites.list_scheduling import Step

SOURCE = """
extern "C" __global__ void pick(const float* in, float* out, int n, int which) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    volatile float own[24];
    #pragma unroll
    for (int k = 0; k < 24; k++) own[k] = in[i + k * n];
    __syncthreads();
    out[i] = own[(which + threadIdx.x) % 24];
}
"""


@pytest.fixture
def steps(tmp_path):
    if tools.find("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    (file := tmp_path / "pick.cu").write_text(SOURCE)
    launch = pa.Launch(1024, 256, {"n": 1 << 18, "which": 3})
    model = model_of(pa.predict(pa.from_cuda(file), launch, "a100"))
    kernel, graph = model.bound_launch.kernel, model.graph
    steps = [
        Step(item, graph.nodes[item.number], 1, 1)
        for item in graph.body
        if item.kind is ItemKind.NODE
    ]
    Dependences(graph, model.device, kernel.program, kernel.bound).depend(steps)
    on_stack = {
        k: kernel.bound[step.node.touches[0]].direction
        for k, step in enumerate(steps)
        if step.node.touches and kernel.bound[step.node.touches[0]].space == "local"
    }
    return steps, on_stack


def all_before(steps, k):
    """Steps that one waits for, through others."""
    found, open_ = set(), [k]
    while open_:
        new = set(steps[open_.pop()].waits) - found
        found |= new
        open_ += new
    return found


def test_a_load_of_any_word_waits_for_all_stores(steps):
    steps, on_stack = steps
    stores = [k for k, direction in on_stack.items() if direction is Direction.STORE]
    (load,) = (k for k, direction in on_stack.items() if direction is Direction.LOAD)
    assert len(stores) >= 6
    assert all_before(steps, load) >= set(stores)


def test_stores_to_words_of_their_own_do_not_wait_for_each_other(steps):
    steps, on_stack = steps
    stores = {k for k, direction in on_stack.items() if direction is Direction.STORE}
    assert stores
    assert all(stores.isdisjoint(steps[k].waits) for k in stores)
