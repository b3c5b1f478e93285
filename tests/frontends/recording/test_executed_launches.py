"""``--execute``: results of kernels that later launches and the host depend on are right."""

from functools import partial

import pytest

from perfassert.hardware.load import device
from perfassert.predictor.sample.running import run

pytestmark = pytest.mark.exhaustive(one_in=4)

LIMIT = 20_000_000
DEVICE = device("A100-SXM4-40GB")
BOUNDS = """
#include <vector>
__global__ void count(const int* in, int* counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[in[i] % 16], 1);
}
__global__ void starts(const int* counts, int* sums) {
    int sum = 0;
    for (int k = 0; k < 16; ++k) { sums[k] = sum; sum += counts[k]; }
    sums[16] = sum;
}
__global__ void place(const int* in, int* sums, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[atomicAdd(&sums[in[i] % 16], 1)] = in[i];
}
int main() {
    const int n = 3000;
    std::vector<int> in(n), out(n);
    for (int i = 0; i < n; ++i) in[i] = i * i;
    int *data, *counts, *sums, *sorted;
    cudaMalloc(&data, n * 4);
    cudaMalloc(&counts, 64);
    cudaMalloc(&sums, 68);
    cudaMalloc(&sorted, n * 4);
    cudaMemcpy(data, in.data(), n * 4, cudaMemcpyHostToDevice);
    cudaMemset(counts, 0, 64);
    count<<<12, 256>>>(data, counts, n);
    starts<<<1, 1>>>(counts, sums);
    place<<<12, 256>>>(data, sums, sorted, n);
    cudaMemcpy(out.data(), sorted, n * 4, cudaMemcpyDeviceToHost);
    for (int i = 1; i < n; ++i)
        if (out[i - 1] % 16 > out[i] % 16) return 1;
    return 0;
}
"""
FRONTIER = """
#include <vector>
struct Graph { const int* next; int* level; int n; };
__global__ void advance(Graph g, int depth, int* changed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= g.n || g.level[i] != depth) return;
    if (g.level[g.next[i]] < 0) { g.level[g.next[i]] = depth + 1; *changed = 1; }
}
int main() {
    const int n = 500, steps = 6;  // the host goes on until nothing has changed
    std::vector<int> next(n), level(n, -1);
    for (int i = 0; i < n; ++i) next[i] = i < steps ? i + 1 : i;
    level[0] = 0;
    Graph g{nullptr, nullptr, n};
    int *a, *changed, depth = 0, more = 1;
    cudaMalloc(&a, n * 4);
    cudaMalloc(&g.level, n * 4);
    cudaMalloc(&changed, 4);
    cudaMemcpy(a, next.data(), n * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(g.level, level.data(), n * 4, cudaMemcpyHostToDevice);
    for (g.next = a; more && depth < 100; ++depth) {
        cudaMemset(changed, 0, 4);
        advance<<<2, 256>>>(g, depth, changed);
        cudaMemcpy(&more, changed, 4, cudaMemcpyDeviceToHost);
    }
    cudaMemcpy(level.data(), g.level, n * 4, cudaMemcpyDeviceToHost);
    return depth == steps + 1 && level[steps] == steps && level[steps + 1] == -1 ? 0 : 1;
}
"""
SHORT = """
__global__ void spin(volatile int* flag) { while (*flag == 0) {} }
__global__ void fill(int* out, int n) { if (threadIdx.x < n) out[threadIdx.x] = n; }
__global__ void take(const int* in, int* out) { out[threadIdx.x] = in[threadIdx.x]; }
int main() {
    int *flag, *out;
    cudaMalloc(&flag, 128);
    cudaMalloc(&out, 128);
    cudaMemset(flag, 0, 128);
    %s
    int found[32];
    cudaMemcpy(found, out, 128, cudaMemcpyDeviceToHost);
    return found[0] == 8 && found[31] == 8 ? 0 : 1;
}
"""


@pytest.fixture
def executed(build, recorded):
    """``executed(name, text)``: the recording of a program whose launches are executed."""

    def one(name, text, limit=LIMIT):
        return recorded(
            build(name, text),
            contents_limit=1 << 20,
            runner=partial(run, device=DEVICE),
            execute_limit=limit,
        )

    return one


def test_a_sort_by_counting(executed):
    recording = executed("sort.cu", BOUNDS)
    assert recording.status == 0
    assert (recording.executed, recording.not_executed) == (3, {})
    _, starts, _ = recording.findings.launches.values()
    counts = recording.contents.arrays[starts.args["counts"].data]
    assert counts.sum() == 3000


def test_without_it_the_host_sees_nothing(build, recorded):
    recording = recorded(build("sort.cu", BOUNDS), contents_limit=1 << 20)
    assert recording.executed == 0
    _, starts, _ = recording.findings.launches.values()
    assert starts.args["counts"].data == ""  # what a kernel writes is not known


def test_a_loop_until_nothing_changes(executed):
    recording = executed("frontier.cu", FRONTIER)
    assert recording.status == 0
    assert recording.findings.events == recording.executed == 7


def test_what_does_not_end_is_said(executed):
    body = "spin<<<1, 32>>>(flag); fill<<<1, 32>>>(out, 8);"
    recording = executed("spin.cu", SHORT % body, limit=1_000_000)
    ((name, why),) = recording.not_executed.items()
    assert "spin" in name
    assert why == "it did not come to its end within the limit"
    assert recording.executed == 1


def test_what_rests_on_a_kernel_that_did_not_run_is_unknown(executed):
    body = "spin<<<1, 32>>>(flag); take<<<1, 32>>>(flag, out); return 0;"
    recording = executed("take.cu", SHORT % body, limit=1_000_000)
    launches = list(recording.findings.launches.values())
    assert launches[0].args["flag"].data
    assert launches[1].args["in"].data == ""
