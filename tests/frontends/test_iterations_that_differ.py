"""Loops whose iterations decide differently: what is issued equals what execution counts."""

from dataclasses import replace

import numpy as np
import pytest

import perfassert as pa
from perfassert.frontends.graph.executed_counts import contradiction
from perfassert.frontends.graph.iterations import MOST_GROUPS, groups
from perfassert.frontends.graph.launch_graph import _Walk
from perfassert.predictor.model import bind_launch
from perfassert.predictor.session import DEFAULT

pytestmark = pytest.mark.exhaustive(one_in=4)

pytest.importorskip("nvidia.cu13")

EVERY_64TH = """
extern "C" __global__ void rare(float* out, int n) {
    float sum = out[threadIdx.x];
    #pragma unroll 1
    for (int i = 0; i < n; ++i) {
        sum += 1.5f;
        if (i % 64 == 0) {
            #pragma unroll
            for (int j = 0; j < 200; ++j) sum = sum * 0.25f + 1.0f;
        }
    }
    out[threadIdx.x] = sum;
}"""
TAIL = """
extern "C" __global__ void tail(float* out, int n) {
    float sum = out[threadIdx.x];
    #pragma unroll 1
    for (int i = 0; i < n; ++i) {
        sum += 1.5f;
        if (i * 32 + threadIdx.x >= 3200) {
            #pragma unroll
            for (int j = 0; j < 200; ++j) sum = sum * 0.25f + 1.0f;
        }
    }
    out[threadIdx.x] = sum;
}"""


BY_DATA = """
extern "C" __global__ void rare(const int* x, float* out, int n) {
    float sum = out[threadIdx.x];
    #pragma unroll 1
    for (int i = 0; i < n; ++i) {
        sum += 1.5f;
        if (x[i * 64 + threadIdx.x]) {
            #pragma unroll
            for (int j = 0; j < 200; ++j) sum = sum * 0.25f + 1.0f;
        }
    }
    out[threadIdx.x] = sum;
}"""


def issued(folder, code, n, **args):
    (file := folder / "kernel.cu").write_text(code)
    found = pa.predict(pa.from_cuda(file), pa.Launch(1, 64, args={"n": n, **args}), "a100")
    return float(found.resources.instructions)


def of_a_step(folder, code, n, **args):
    """Instructions of one step of the body that is taken now and then: two lengths of it."""
    longer = issued(folder, code, n, **args)
    return (longer - issued(folder, code.replace("j < 200", "j < 100"), n, **args)) / 100


@pytest.mark.parametrize("trips", [256, 6400])  # runs of iterations; so many that they are mixed
def test_a_branch_that_is_taken_now_and_then_counts_as_often(tmp_path, trips):
    assert of_a_step(tmp_path, EVERY_64TH, trips) == pytest.approx(2 * trips / 64)


def test_a_branch_that_begins_in_the_middle_of_a_loop(tmp_path):
    """From iteration 100 on in the first warp, an iteration earlier in the second."""
    assert of_a_step(tmp_path, TAIL, 400) == pytest.approx(300 + 301)


def test_data_decide_now_and_then(tmp_path):
    """Data decide in one of five iterations, in the first warp."""
    trips = 400
    x = (np.arange(trips * 64) % (5 * 64) == 7).astype(np.int32)
    assert of_a_step(tmp_path, BY_DATA, trips, x=x) == pytest.approx(trips / 5)


def test_groups_are_runs_or_all_that_decide_the_same():
    now_and_then = (np.arange(256) % 64 == 0)[:, None]
    assert groups([now_and_then], 256) == [
        (0, 1), (32, 64), (64, 65), (96, 128), (128, 129), (160, 192), (192, 193), (224, 256)
    ]  # fmt: skip
    often = (np.arange(6400) % 64 == 0)[:, None]
    assert groups([often], 6400) == [(0, 100), (1, 6400)]
    assert groups([], 10) == []
    apart = np.eye(2 * MOST_GROUPS, dtype=bool)
    assert groups([apart], len(apart)) == []


def test_executed_blocks_that_say_otherwise_are_a_disagreement(tmp_path):
    (file := tmp_path / "kernel.cu").write_text(BY_DATA)
    launch = pa.Launch(1, 64, args={"n": 40, "x": np.ones(40 * 64, np.int32)})
    kernel = bind_launch(DEFAULT.ask(pa.from_cuda(file), launch, pa.device("a100"))).kernel
    assert contradiction(kernel.graph, kernel.work, 2, 1.0, 0.0) == ""
    counts = {address: tuple(2 * n for n in count) for address, count in kernel.work.counts.items()}
    more = replace(kernel.work, counts=counts)
    assert "executed ones have" in contradiction(kernel.graph, more, 2, 1.0, 0.0)
    fewer = replace(kernel.work, blocks=(0.1, 1.9))
    assert "executed ones have" in contradiction(kernel.graph, fewer, 2, 0.5, 0.5)


LAST_DIFFERS = """
extern "C" __global__ void tiles(const float* a, float* out, int n) {
    __shared__ float tile[256];
    float sum = 0, next = a[threadIdx.x];
    #pragma unroll 1
    for (int i = 0; i < n; ++i) {
        tile[threadIdx.x] = next;
        __syncthreads();
        if (i + 1 < n) next = a[(i + 1) * 64 + threadIdx.x];
        #pragma unroll 1
        for (int j = 0; j < 64; ++j) sum += tile[j];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}"""
HALVES = """
extern "C" __global__ void halves(float* out, int n) {
    __shared__ float sums[256];
    sums[threadIdx.x] = out[threadIdx.x];
    for (int k = 0; k < n; ++k)
        for (int stride = 128; stride > 0; stride /= 2) {
            __syncthreads();
            if (threadIdx.x < stride) sums[threadIdx.x] += sums[threadIdx.x + stride];
        }
    if (threadIdx.x == 0) out[0] = sums[0];
}"""
TRIANGLE = """
extern "C" __global__ void triangle(float* out, int n) {
    float sum = out[threadIdx.x];
    #pragma unroll 1
    for (int i = 0; i < n; ++i) {
        if (i < 5) sum = sum * 0.5f + 2.0f;
        #pragma unroll 1
        for (int j = 0; j <= i / 8; ++j) sum = sum * 0.25f + 1.0f;
    }
    out[threadIdx.x] = sum;
}"""


def graph(folder, code, n):
    (file := folder / "kernel.cu").write_text(code)
    device = pa.device("a100")
    made = bind_launch(
        DEFAULT.ask(pa.from_cuda(file), pa.Launch(1, 256, args={"n": n}), device)
    ).kernel.graph
    return made.nodes, made.loops, made.body, made.channels


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("code", [EVERY_64TH, TAIL, LAST_DIFFERS, HALVES, TRIANGLE])
def test_an_iteration_that_decides_the_same_is_taken_for_its_like(code, tmp_path, monkeypatch):
    taken = graph(tmp_path, code, 40)
    monkeypatch.setattr(_Walk, "repeats", lambda *_: False)
    assert taken == graph(tmp_path, code, 40)


@pytest.mark.parametrize(("code", "walks"), [(LAST_DIFFERS, 2), (EVERY_64TH, 2), (TRIANGLE, 6)])
def test_iterations_that_decide_the_same_are_walked_once(code, walks, tmp_path, monkeypatch):
    walked = []
    walk = _Walk.walk_iteration
    monkeypatch.setattr(
        _Walk, "walk_iteration", lambda *given: walked.append(given[1]) or walk(*given)
    )
    graph(tmp_path, code, 40)
    assert len(walked) == walks
