"""The programs in examples/recording, built and recorded without a GPU, and what they launch."""

import numpy as np
import pytest

import perfassert as pa
from perfassert.errors import RecordError
from perfassert.frontends.recording.write import files

pytestmark = pytest.mark.exhaustive(one_in=8)


@pytest.fixture
def entries(build, recorded, tmp_path):
    """``entries("loop.cu")``: what the launches file of an example says, read back."""

    def of(name, *arguments, **more):
        recording = recorded(build(name), *arguments, contents_limit=64 << 20, **more)
        assert recording.status == 0
        assert recording.findings.refused == {}
        return read_back(recording, tmp_path)

    return of


def read_back(recording, folder):
    made = files(recording, "launches")
    for name, content in made.beside.items():
        (folder / name).write_bytes(content)
    (folder / "launches.toml").write_text(made.text)
    return pa.launches(folder / "launches.toml")


def described(launch):
    return launch.grid, launch.block, launch.shared_bytes


def test_launches_on_streams(entries):
    first, second = entries("streams.cu")
    assert (first.label, second.label) == ("axpy", "axpy#2")
    for entry, size in ((first, 1 << 20), (second, 1 << 19)):  # to the ends of the buffers
        assert described(entry.launch) == ((2048, 1, 1), (256, 1, 1), 0)
        assert entry.launch.args["a"] == 2.5
        assert entry.launch.args["n"] == 1 << 19
        assert entry.launch.args["x"].shape == (size,)
        assert entry.launch.args["x"].dtype == "float32"


def test_a_structure_by_value(entries):
    (entry,) = entries("structures.cu")
    words = entry.launch.args["grid"]
    assert words[16] == 1024
    assert words[20] == 768
    assert words[0].data.view(np.float64).tolist() == [1.0] * (1024 * 768)
    assert words[8].shape == (1024 * 768 * 8,)
    weight = np.array([words[24], words[28]], np.int32).view(np.float64)
    assert weight[0] == 0.1
    prediction = pa.predict(entry.kernel, entry.launch, entry.device)
    inner = 1022 * 766 * 8
    assert prediction.volumes.l2_store.total == pytest.approx(inner, rel=0.01)


def test_several_kernels_with_constants(entries):
    first, second = entries("kernels.cu")
    units = pa.device("A100-SXM4-40GB").compute_units
    assert described(first.launch) == ((2048, 1, 1), (128, 1, 1), 0)
    assert described(second.launch) == ((2 * units, 1, 1), (256, 1, 1), 1024)
    assert first.launch.args["in"].data.tolist() == [1.0] * (1 << 18)
    assert not first.launch.args["out"].data.any()
    assert second.launch.args["in"].data is None  # a kernel wrote it, and none has run
    held = first.kernel.compiled.hints.constants
    assert np.frombuffer(held["steps"], np.int32).tolist() == [3]
    assert np.frombuffer(held["weights"], np.float32).tolist() == [np.float32(1 / 9)] * 9


def test_constants_decide_trip_counts(entries):
    """Four steps more, as many as the compiler unrolls, cost a warp 36 multiply-adds."""
    first, _ = entries("kernels.cu")
    code, launch = first.kernel.compiled, first.launch
    held = {**code.hints.constants, "steps": 7}
    more = pa.from_cubin(
        code.source.path, code.source.kernel, parameters=code.hints.parameters, constants=held
    )
    three, seven = (pa.predict(k, launch, first.device) for k in (first.kernel, more))
    assert three.confidence != "guessed"
    warps = (1 << 18) // 32
    added = (seven.resources.instructions - three.resources.instructions) / warps
    assert 36 <= added < 48


def test_a_loop_of_launches_is_one_with_a_count(entries):
    (entry,) = entries("loop.cu", 7)
    assert entry.count == 7
    assert entry.launch.grid == ((1 << 22) // 256, 1, 1)
    assert set(entry.launch.args) == {"in", "out", "n"}


def test_data_that_trip_counts_need(entries):
    (entry,) = entries("rows.cu")
    n = 1 << 14
    lengths = np.diff(entry.launch.args["rows"].data)
    assert lengths.tolist() == ([5] * 32 + [37] * 32) * (n // 64)
    assert entry.launch.args["columns"].data.shape == (lengths.sum(),)
    assert entry.launch.args["x"].data.dtype == np.float32
    without = pa.Launch(entry.launch.grid, entry.launch.block, {"n": n})
    prediction, blind = (
        pa.predict(entry.kernel, launch, entry.device) for launch in (entry.launch, without)
    )
    assert prediction.resources.instructions != blind.resources.instructions


def test_every_example_is_predicted_from_its_file(entries, tmp_path):
    for name in ("streams.cu", "structures.cu", "kernels.cu", "loop.cu", "rows.cu"):
        for entry in entries(name):
            assert pa.predict(entry.kernel, entry.launch, entry.device).time > 0


SHORT = """
#include <cstdio>
#include <vector>
%s
__global__ void fill(int* out, int n) { if (threadIdx.x < n) out[threadIdx.x] = n; }
int main(int argc, char** argv) {
    int* out;
    cudaMalloc(&out, 1024);
    %s
}
"""


def program(build, body, head="", *options):
    return build("short.cu", SHORT % (head, body), *options)


def test_a_call_without_an_answer_fails_and_is_listed(build, recorded):
    body = """cudaGraph_t graph;
    int status = cudaGraphCreate(&graph, 0);
    fill<<<1, 32>>>(out, 8);
    return status == cudaErrorNotSupported ? 0 : 1;"""
    recording = recorded(program(build, body))
    assert recording.status == 0
    assert recording.findings.refused == {"cudaGraphCreate": 1}
    assert len(recording.findings.launches) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        "fill<<<1, 2048>>>(out, 8); return cudaGetLastError() == cudaErrorInvalidConfiguration;",
        "return cudaMemcpy(out, argv, 4096, cudaMemcpyHostToDevice) == cudaErrorInvalidValue;",
        "return cudaMemset(out + 256, 0, 4) == cudaErrorInvalidValue;",
        "return cudaFree(out + 1) == cudaErrorInvalidValue;",
        "return cudaMalloc(&out, size_t{1} << 50) == cudaErrorMemoryAllocation;",
        "return cudaSetDevice(1) == cudaErrorInvalidDevice;",
    ],
)
@pytest.mark.exhaustive(one_in=3)
def test_what_is_wrong_fails_as_on_a_gpu(build, recorded, wrong):
    body = f"""int* old = out;
    bool right = [&] {{ {wrong} }}();
    fill<<<1, 32>>>(old, 8);
    return right ? 0 : 1;"""
    assert recorded(program(build, body)).status == 0


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ("0, 32", "which has no thread"),
        ("1, 2048", "whose blocks are too large"),
        ("dim3(1, 70000), 32", "whose grid is too large"),
        ("1, 32, 1 << 20", "which needs too much shared memory"),
    ],
)
def test_launches_that_no_device_takes(build, recorded, shape, why):
    text = SHORT % ("", f"fill<<<{shape}>>>(out, 8); return 0;")
    with pytest.raises(RecordError, match=f"these calls failed: launch of _Z4fillPii, {why}"):
        recorded(build("short.cu", text))


def test_memory_holds_what_was_copied(build, recorded):
    body = """std::vector<int> to(256, 7), from(256);
    cudaMemcpy(out, to.data(), 1024, cudaMemcpyHostToDevice);
    int* other;
    cudaMalloc(&other, 1024);
    cudaMemcpy(other, out, 1024, cudaMemcpyDeviceToDevice);
    cudaMemset(other, 1, 4);
    cudaMemcpy(from.data(), other, 1024, cudaMemcpyDeviceToHost);
    fill<<<1, 32>>>(other, 8);
    return from[0] == 0x01010101 && from[1] == 7 && from[255] == 7 ? 0 : 1;"""
    recording = recorded(program(build, body), contents_limit=1 << 20)
    assert recording.status == 0
    (launch,) = recording.findings.launches.values()
    held = recording.contents.arrays[launch.args["out"].data]
    assert held.tolist() == [0x01010101] + [7] * 255


def test_a_program_that_launches_nothing(build, recorded):
    with pytest.raises(RecordError, match="launched no kernel"):
        recorded(program(build, "return 0;"))
    with pytest.raises(RecordError, match="never called the CUDA runtime"):
        recorded("/bin/true")
    with pytest.raises(RecordError, match="cannot be started"):
        recorded("/nowhere/program")


def test_endless_programs_end(build, recorded):
    endless = program(build, "for (;;) fill<<<1, 32>>>(out, 8);")
    recording = recorded(endless, launches=50)
    assert recording.findings.stopped
    (launch,) = recording.findings.launches.values()
    assert launch.count >= 50


def test_pointers_into_one_allocation_are_aliases(build, recorded, tmp_path):
    head = "__global__ void add(int* to, const int* from, const int* none) { *to = *from; }"
    body = "add<<<1, 1>>>(out + 64, out, nullptr); return 0;"
    (entry,) = read_back(recorded(program(build, body, head)), tmp_path)
    args = entry.launch.args
    assert args["from"].shape == (256,)
    assert (args["to"].alias, args["to"].offset) == ("from", 256)
    assert args["none"] is None
    assert pa.predict(entry.kernel, entry.launch, entry.device).time > 0
