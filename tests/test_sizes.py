"""Sizes that a user or a file gives: each is checked before anything of it is allocated."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.cli.serve import answer
from perfassert.kernel.folding import fold_kernel
from perfassert.perf_toml.read import read_perf_file

pytestmark = pytest.mark.exhaustive(one_in=2)

SOURCE = """
extern "C" __global__ void shift(float* a, const int* idx, int n) {
  extern __shared__ float tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = a[idx[i]];
  __syncthreads();
  a[i] = tile[threadIdx.x ^ 1];
}
"""
LISTING = Path(__file__).parent / "listings" / "gather.sass"
BYTES = 4 << 30
"""Address space of this process while it is asked; one of the sizes would take more."""


@pytest.fixture(autouse=True)
def bounded():
    if sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture
def source(tmp_path, toolchain):
    path = tmp_path / "shift.cu"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def toolchain():
    from perfassert.frontends.toolchain import tools

    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")


def described(**counts):
    return pa.Kernel.from_accesses("k", [pa.Field("a", shape=64)], ["a[x % 64]"], **counts)


def test_dynamic_shared_memory_of_a_kernel_that_is_executed(source):
    kernel = pa.from_cuda(source)
    for size in (2**62, np.int64(2**40)):
        with pytest.raises(pa.LaunchError, match="bytes of shared memory per block are more than"):
            pa.predict(kernel, pa.Launch(1, 64, {"n": 9}, shared_bytes=size), "a100")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"shape": 2**62}, "ends after 18446744073709551616 bytes; at most 549755813888 are"),
        ({"shape": (2**62, 2**62)}, "at most 549755813888 are modelled"),
        ({"shape": 2**62, "dtype": "of a kernel"}, "at most 549755813888 are modelled"),
        ({"shape": 4, "offset": 2**62}, "offset must be at most"),
        ({"shape": 4, "alignment": 2**62}, "alignment must be at most"),
        ({"shape": 2**34, "fill": "arange"}, "fill makes at most 134217728 elements"),
        ({"shape": (2**20, 2**20), "dtype": "int8", "fill": "csr_rows(nnz_per_row=4)"}, "at most"),
    ],
)
def test_buffers(arguments, reason):
    with pytest.raises(pa.LaunchError, match=reason):
        pa.Buffer(**arguments)


def test_a_large_buffer_costs_what_is_known_of_it(source):
    """Pages are kept as numbers; the buffer would have a table of 8 GiB."""
    pages = np.array([0, 2**28], np.int64)
    index = pa.Buffer(2**36, "int32", data=np.zeros(512, np.uint8), pages=pages)
    launch = pa.Launch(4, 64, {"idx": index, "n": 9}, shared_bytes=256)
    assert pa.predict(pa.from_cuda(source), launch, "a100").time > 0


def test_boxes_of_tensor_maps():
    assert pa.TensorMap((4096, 4096), (256, 256), "int64").box == (256, 256)
    with pytest.raises(pa.LaunchError, match="a bulk copy moves at most 1048575"):
        pa.TensorMap((2**40, 2**40), (2**40, 2**40))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: described(flops=1e300), "kernel 'k': flops must be at most"),
        (lambda: described(registers=10**30), "kernel 'k': registers must be at most"),
        (lambda: fold_kernel(described(), (2**30, 1, 1)), "1073741824 updates of a thread"),
    ],
)
def test_kernels(make, reason):
    with pytest.raises(pa.KernelError, match=reason):
        make()


def test_a_trace_is_kept_in_memory():
    g = pa.InstructionGraph.builder()
    g.op("store", g.op("load"), produces=False)
    latencies = {"load": pa.Latency(4, 400, "memory"), "store": pa.Latency(4, 200, "memory")}

    def events(blocks, order):
        traced = pa.simulate(g.build(), 8, blocks, 4, latencies, order, trace=(0, 2**62))
        return len(traced.trace)

    for order in ("dataflow", "in-order"):
        assert events(1000, order) == 1000 * (2 + 8 * 4)
        with pytest.raises(pa.GraphError, match=r"more than 1048576 events; give a shorter window"):
            events(2**20, order)


@pytest.mark.parametrize("order", ["dataflow", "in-order"])
def test_values_that_a_loop_carries(order):
    def cycles(distance):
        g = pa.InstructionGraph.builder()
        start = g.op("add")
        with g.loop(1000) as body:
            g.op("add", body.carried("sum", init=start, distance=distance), name="sum")
        return pa.simulate(g.build(), 1, 1, 1, {"add": pa.Latency(1, 4)}, order).cycles

    assert cycles(2**16) == cycles(2000)
    for distance in (2**40, 2**62):
        with pytest.raises(pa.GraphError, match="carried 'sum': distance must be at most 65536"):
            cycles(distance)


def test_a_device_with_absurd_shared_memory():
    with pytest.raises(pa.DeviceFileError, match="shared_bytes_per_block: must be at most"):
        pa.device("a100").replace(shared_bytes_per_block=2**41, shared_bytes_per_unit=2**42)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("predict", "--grid", "1", "--block", "1073741824"), "1073741824 threads in x"),
        (("explain", "--grid", "1", "--block", "1073741824"), "1073741824 threads in x"),
        (
            (
                "whatif",
                "--grid",
                "1",
                "--block",
                "32",
                "--shared-bytes",
                "128",
                "--change",
                "block=2147483648",
            ),
            "in x; CUDA",
        ),
        (("rank", "--domain", "99999", "--blocks", "2147483648"), "block 2147483648×1×1: the bl"),
        (("rank", "--domain", "1,9999999", "--blocks", "1,64"), "block 1×64×1: a domain of"),
        (("predict", "--grid", "1", "--block", "32", "--shared-bytes", "999999999999"), "allows"),
        (
            (
                "predict",
                "--grid",
                "1",
                "--block",
                "32",
                "--arg",
                "idx=Buffer(9999999999, fill='0')",
            ),
            "--arg idx: a Buffer's fill makes at most",
        ),
    ],
)
def test_commands(source, command, reason, capsys):
    name, *options = command
    assert main([name, str(source), "--device", "a100", "--arg", "n=9", *options]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("command", [("kernels",), ("diff", "{}")])
@pytest.mark.parametrize("block", ["0", "-5"])
def test_blocks_whose_occupancy_is_asked(source, command, block, capsys):
    words = [word.format(source) for word in command]
    asked = [words[0], str(source), *words[1:], "--device", "a100", f"--block={block}"]
    assert main(asked) == 2
    assert f"--block: {block} is below 1" in capsys.readouterr().err


def test_blocks_that_need_too_large_a_grid_are_left_out(source, capsys):
    options = ("--domain", "64,9999999", "--all-blocks", "256", "--json")
    assert main(["rank", str(source), "--device", "a100", "--arg", "n=9", *options]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [1, 256, 1] in [entry["block"] for entry in data["blocks"]]
    (left_out,) = (e["reason"] for e in data["left_out"] if e["block"] == [64, 4, 1])
    assert "needs 2500000 blocks in y; CUDA launches at most 65535" in left_out


@pytest.mark.parametrize(
    ("launch", "place"),
    [
        ("grid = 1, block = 1073741824", "launch: the block has 1073741824 threads in x"),
        ("domain = 64, block = [1, 1, 65]", "launch: the block has 65 threads in z"),
        ("grid = 64, block = 32, cluster = 64", "launch: the cluster has 64 blocks"),
        (
            "grid = 1, block = 32, args = { p = { shape = 9999999999, fill = 'arange' } }",
            "launch.args.p: a Buffer's fill makes at most",
        ),
    ],
)
def test_perf_files(tmp_path, launch, place):
    path = tmp_path / "t.perf.toml"
    path.write_text(
        f'[[test]]\nname = "t"\nexpect = {{ time = "< 1 s" }}\nlaunch = {{ {launch} }}\n'
        'kernel.accesses = { fields = [{ name = "a", shape = 64 }], loads = ["a[x % 64]"] }\n'
    )
    with pytest.raises(pa.PerfFileError, match=rf"t.perf.toml:4: test\[0\]\.{place}"):
        read_perf_file(path, "t.perf.toml")


@pytest.mark.parametrize("member", ["²", "9" * 5000])
def test_members_that_are_no_byte_offset(tmp_path, member):
    path = tmp_path / "t.perf.toml"
    path.write_text(
        '[[test]]\nname = "t"\nexpect = { time = "< 1 s" }\n'
        f'launch = {{ grid = 1, block = 32, args = {{ cfg = {{ "{member}" = 1 }} }} }}\n'
        'kernel.accesses = { fields = [{ name = "a", shape = 64 }], loads = ["a[x % 64]"] }\n'
    )
    (case,) = read_perf_file(path)
    assert case.launch.args["cfg"] == {member: 1}


def test_questions_of_programs(source, monkeypatch):
    monkeypatch.chdir(source.parent)
    asked = {"source": source.name, "device": "a100", "grid": 4, "block": 2**30, "args": {"n": 9}}
    for tool in ("predict", "explain", "advise"):
        line = json.dumps({"id": 1, "tool": tool, "arguments": asked}).encode()
        assert "the block has 1073741824 threads in x" in answer(line)["error"]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("shared_bytes=1099511627776", "1099511627776 bytes of shared memory per block"),
        ("parameter_base=1099511627776", "header key parameter_base: 1099511627776 is more than"),
        ("parameters=n:1099511627776:4:value", "header key parameters: 1099511627776 is more"),
        ("parameters=n:0:1099511627776:value", "header key parameters: 1099511627776 is more"),
        ("unset=c:3:0:1099511627776", "header key unset: 1099511627776 is more than 65536"),
    ],
)
def test_listings_of_strangers(tmp_path, header, reason):
    text = LISTING.read_text()
    (tmp_path / "gather.sass").write_text(text + f"//perfassert: {header}\n")
    kernel = pa.from_cubin(tmp_path / "gather.sass")
    with pytest.raises((pa.LaunchError, pa.KernelSourceError), match=reason):
        pa.predict(kernel, pa.Launch(64, 128, {"n": 100}), "a100")


def test_the_stack_of_a_listing_is_no_larger_than_cuda_allows(tmp_path):
    text = LISTING.read_text().replace("local_bytes=0", "local_bytes=1073741823")
    (tmp_path / "gather.sass").write_text(text)
    kernel = pa.from_cubin(tmp_path / "gather.sass")
    assert kernel.compiled.executable("sm_80").local_bytes < 2**20
