"""Tests that recordings keep the pages of buffers that a sample of executed blocks reads."""

import json
from functools import partial

import numpy as np
import pytest

import perfassert as pa
from perfassert.frontends.recording.series import LaunchSeries
from perfassert.frontends.recording.write import files
from perfassert.hardware.load import device
from perfassert.perf_toml.launches import launches
from perfassert.predictor.sample.running import prediction_reads, run

pytestmark = pytest.mark.exhaustive(one_in=2)

DEVICE = device("A100-SXM4-40GB")
GATHER = """
#include <vector>
__global__ void gather(const int* rows, const int* columns, const float* x, float* y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0;
    for (int k = rows[row]; k < rows[row + 1]; ++k) sum += x[columns[k]];
    y[row] = sum;
}
int main() {
    const int n = 1 << 20, each = 8;  // columns: 32 MiB
    std::vector<int> rows(n + 1), columns(n * each);
    for (int i = 0; i <= n; ++i) rows[i] = i * each;
    for (int i = 0; i < n * each; ++i) columns[i] = (i * 7919LL) % n;
    int *r, *c; float *x, *y;
    cudaMalloc(&r, rows.size() * 4); cudaMalloc(&c, columns.size() * 4);
    cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4);
    cudaMemcpy(r, rows.data(), rows.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(c, columns.data(), columns.size() * 4, cudaMemcpyHostToDevice);
    gather<<<n / 128, 128>>>(r, c, x, y, n);
    return 0;
}
"""
WAVES = """
__global__ void sweep(const int* length, float* y) {
    for (int k = 0; k < *length; ++k) y[threadIdx.x + k] += 1;
}
int main() {
    int *length, n; float *y;
    cudaMalloc(&length, 4); cudaMalloc(&y, 1 << 20);
    for (int i = 0; i < 20; ++i) {
        n = i < 12 ? 10 : 500;  // the host writes what the kernel is to do
        cudaMemcpy(length, &n, 4, cudaMemcpyHostToDevice);
        sweep<<<64, 128>>>(length, y);
    }
    return 0;
}
"""


SAMPLER, RUNNER = partial(prediction_reads, device=DEVICE), partial(run, device=DEVICE)


@pytest.fixture
def written(build, recorded, tmp_path):
    """``written(name, text, contents_limit=…)``: the recording, and its launches as read back."""

    def one(name, text, **more):
        recording = recorded(build(name, text), sampler=SAMPLER, **more)
        made = files(recording, "made")
        for file, content in made.beside.items():
            (tmp_path / file).write_bytes(content)
        (tmp_path / "made.toml").write_text(made.text)
        return recording, launches(tmp_path / "made.toml")

    return one


def values(recorded):
    """Return the prediction without the digest of the question."""
    found = json.loads(pa.predict(recorded.kernel, recorded.launch, DEVICE).to_json())
    del found["question"]
    return found


def test_a_buffer_beyond_the_limit_keeps_what_the_sample_reads(written):
    _, (whole,) = written("gather.cu", GATHER, contents_limit=1 << 28)
    expected = values(whole)  # the next recording replaces the file
    recording, (part,) = written("gather.cu", GATHER, contents_limit=1 << 24)
    kept = part.launch.args["columns"]
    assert whole.launch.args["columns"].pages is None
    assert kept.pages is not None
    assert 0 < kept.data.size < 1 << 24
    assert recording.contents.left_out == 0
    assert "x" not in recording.contents.arrays  # floats decide nothing
    assert values(part) == expected
    assert expected["confidence"] != "guessed"


def test_a_launch_that_does_something_else_is_one_of_its_own(written):
    recording, recorded_launches = written("waves.cu", WAVES, contents_limit=1 << 20)
    assert recording.findings.events == 20
    assert [one.count for one in recorded_launches] == [15, 5]  # the sixteenth is looked at
    lengths = [int(one.launch.args["length"].data.view(np.int32)[0]) for one in recorded_launches]
    assert lengths == [10, 500]


def test_without_a_sampler_launches_that_look_alike_are_one(build, recorded):
    recording = recorded(build("waves.cu", WAVES), contents_limit=1 << 20)
    (one,) = recording.findings.launches.values()
    assert one.count == 20


def test_the_limit_of_execution_is_common_to_all_launches(build, recorded):
    """Twenty launches of 64 × 128 threads, of about 100 instructions each while n is 10."""
    more = {"runner": RUNNER, "contents_limit": 1 << 20}
    few = recorded(build("waves.cu", WAVES), execute_limit=4_000_000, **more)
    assert 0 < few.executed < 20
    (why,) = few.not_executed.values()
    assert why == "it did not come to its end within the limit"


def test_the_largest_launches_are_looked_at():
    series = LaunchSeries()
    sizes = [100, 100, 100, 105, 200, 100, 300]
    assert [series.is_due("k", n) for n in sizes] == [True, False, False, True, True, False, True]
    assert series.is_due("other", 1)
