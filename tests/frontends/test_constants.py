"""``constants=``: what the program writes into ``__constant__`` memory."""

import ctypes
import json
import struct

import numpy as np
import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.frontends.toolchain import modules, tools
from perfassert.frontends.toolchain.build import Source, prepare
from tests.frontends.described import KERNELS, missing
from tests.frontends.test_arguments import Box, stored

pytestmark = pytest.mark.exhaustive(one_in=4)

needs_tools = pytest.mark.skipif(missing() is not None, reason=f"{missing()} is not installed")
N = 1 << 16
GIVEN = {"limit": 3, "reach": 1024, "inside": {4: 512}}


def predicted(**constants):
    kernel = pa.from_cuda(KERNELS / "arguments.cu", "limited", constants=constants)
    return pa.predict(kernel, pa.Launch(N // 256, 256), "A100-SXM4-40GB")


@needs_tools
def test_a_constant_without_a_value_is_unknown():
    assert predicted(**GIVEN).confidence != "guessed"
    without = predicted(**{k: v for k, v in GIVEN.items() if k != "limit"})
    assert without.confidence == "guessed"
    assert any("__constant__ limit has no value" in a.text for a in without.assumptions)


@needs_tools
@pytest.mark.parametrize(("given", "trips"), [({}, 12), ({"given": 3}, 3), ({"given": 0}, 0)])
def test_a_value_in_the_file_may_be_overwritten(given, trips):
    """A given value overrides that of the file, as cudaMemcpyToSymbol does."""
    kernel = pa.from_cuda(KERNELS / "addresses.cu", "length_in_the_binary", constants=given)
    prediction = pa.predict(kernel, pa.Launch(16, 256), "A100-SXM4-40GB")
    assert float(prediction.volumes.l2_load.parts.get("compulsory", 0)) == trips * 16 * 256 * 4
    assert prediction.confidence != "guessed"


@needs_tools
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_constant_is_what_was_given(limit):
    fields = predicted(**{**GIVEN, "limit": limit}).volumes.l2_load.fields
    loaded = sum(float(v.parts["compulsory"]) for v in fields.values())
    assert loaded == 4 * 512 * limit
    assert stored(predicted(**GIVEN)) == 4 * 512


@needs_tools
@pytest.mark.parametrize(
    "inside",
    [
        {4: 512},
        {"low": [0, 512], "scale": 1},
        Box((0, 512), 1.0, 0, 0),
        struct.pack("<iid", 0, 512, 1.0),
        np.array([0, 512], np.int32),
    ],
    ids=["offset", "member", "ctypes", "bytes", "array"],
)
def test_structures_and_arrays(inside):
    assert stored(predicted(**{**GIVEN, "inside": inside})) == 4 * 512
    with_factors = predicted(**GIVEN, factors=[1.0, 2.0, 3.0, 4.0])
    assert stored(with_factors) == stored(predicted(**GIVEN))


@needs_tools
@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"limits": 3}, "no symbol 'limits'; did you mean 'limit'"),
        ({"zzz": 3}, "symbols of the binary: factors, inside, limit, reach"),
        ({"limit": 2**40}, "has 32 bits"),
        ({"limit": 1.5, "reach": ctypes.c_int * 4}, "does not fit"),
        ({"factors": 1.0}, "give a typed array"),
        ({"factors": np.zeros(5)}, "has 32 bytes"),
        ({"factors": [1.0] * 5}, "has 32 bytes"),
        ({"inside": {32: 1}}, "has 32 bytes"),
        ({"inside": {"lo": 1}}, r"no member 'lo'.*low\[0\]"),
        ({"inside.low[1]": 1.5}, r"'inside.low\[1\]'.*is int"),
        ({"inside": 5, "inside.count": 1}, "'inside' has a value, too"),
    ],
)
def test_refused_constants(constants, said):
    with pytest.raises(pa.KernelError, match=said):
        predicted(**constants)


UNREAD = """
__constant__ int rows, columns;
extern "C" __global__ void fill(float* y) { if (threadIdx.x < rows) y[threadIdx.x] = 1; }
extern "C" __global__ void spread(float* y) { if (threadIdx.x < columns) y[threadIdx.x] = 1; }
"""


@needs_tools
def test_a_constant_that_another_kernel_reads_is_an_error(tmp_path, capsys):
    path = tmp_path / "two.cu"
    path.write_text(UNREAD)
    unread = "constants: kernel 'fill' does not read 'columns'; leave it out"
    kernel = pa.from_cuda(path, "fill", constants={"rows": 3, "columns": 5})
    with pytest.raises(pa.LaunchError, match=unread):
        pa.predict(kernel, pa.Launch(1, 32), "a100")
    launch = ("--device", "a100", "--grid", "1", "--block", "32")
    command = ["predict", str(path), "--kernel", "fill", *launch, "--constant", "rows=3"]
    assert main([*command, "--constant", "columns=5"]) == 2
    assert unread in capsys.readouterr().err
    assert main(command) == 0
    file = tmp_path / "k.perf.toml"
    file.write_text(
        'devices = ["a100"]\n[[test]]\nname = "t"\nlaunch = { grid = 1, block = 32 }\n'
        'kernel = { cuda = "two.cu", name = "fill", constants = { rows = 3, columns = 5 } }\n'
        'expect = { l2_store = "> 0 B" }\n'
    )
    assert pytest.main(["-q", "-p", "no:cacheprovider", str(file)]) == 1
    assert unread in capsys.readouterr().out


@needs_tools
def test_a_recorded_kernel_need_not_read_what_its_program_wrote(tmp_path):
    (tmp_path / "two.cu").write_text(UNREAD)
    path = tmp_path / "launches.toml"
    path.write_text(
        'schema = 1\n[kernels.fill]\ncuda = "two.cu"\nname = "fill"\n[[launch]]\n'
        'kernel = "fill"\ngrid = 1\nblock = 32\nconstants = { rows = 3, columns = 5 }\n'
    )
    (recorded,) = pa.launches(path)
    assert pa.predict(recorded.kernel, recorded.launch, "a100").volumes.l2_store.total == 32


@needs_tools
def test_constants_on_the_command_line_and_in_toml(tmp_path, capsys):
    given = ["--constant", "limit=1+2", "--constant", "reach=1024", "--constant", "inside.4=512"]
    source = str(KERNELS / "arguments.cu")
    command = ["predict", source, "--kernel", "limited", "--device", "a100", "--grid", "256"]
    assert main([*command, "--block", "256", *given, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert pa.Prediction.from_dict(said).time == predicted(**GIVEN).time
    file = tmp_path / "k.perf.toml"
    file.write_text(
        'devices = ["a100"]\n[[test]]\nname = "t"\n'
        f'kernel = {{ cuda = "{source}", name = "limited",'
        ' constants = { limit = "1 + 2", reach = 1024, inside = { 4 = 512 } } }\n'
        'launch = { grid = 256, block = 256 }\nexpect = { l2_store = "== 2048 B" }\n'
    )
    assert pytest.main(["-q", "-p", "no:cacheprovider", str(file)]) == 0


HOST = """\
#include <cstdio>
struct Params { int n; float scale; struct { int low[2]; } box; float* out; };
__constant__ Params params;
__constant__ float scale;
__constant__ int table[2][2];
namespace ns { static __constant__ short hidden; }
__global__ void k(Params p, float* a) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < params.n && i < p.n)
    a[i] = p.out[i] * scale * params.scale + table[i & 1][1] + ns::hidden; }
int main() { Params p{}; k<<<1, 32>>>(p, nullptr); std::printf("done"); }
"""


@pytest.fixture
def hosted(tmp_path):
    if missing() is not None or tools.find("nvcc") is None:
        pytest.skip("nvcc is not installed")
    (tmp_path / "host.cu").write_text(HOST)
    return tmp_path / "host.cu"


def test_types_and_members_in_a_file_with_host_code(hosted):
    """Values in every notation have the memory layout of a C compiler."""
    inner = struct.pack("<if2i", 100, 2.0, 3, 4)
    ways = (
        {"params": {"n": 100, "scale": 2, "box": {"low": [3, 4]}}, "scale": 3,
         "table": [1, 2, 3, 4]},
        {"params.n": 100, "params.scale": 2.0, "params.box.low": [3, 4], "scale": 3.0,
         "table": [[1, 2], [3, 4]]},
        {"params": {"n": 100, "scale": 2, "box": {"low": [3, 4]}}, "scale": 3,
         "table": {"[0][0]": 1, "[0][1]": 2, "[1][0]": 3, "[1][1]": 4}},
        {"params": inner, "scale": np.float64(3), "table": np.arange(1, 5)},
    )  # fmt: skip
    for constants in ways:
        code = pa.from_cuda(hosted, "k", constants={**constants, "hidden": 7}).compiled
        binary = code.binary("sm_80")
        (bank,) = binary.constants.values()
        for part in (inner, struct.pack("<f", 3), struct.pack("<4i", 1, 2, 3, 4)):
            assert part in bank
        assert [(u.name, u.start, u.size) for u in binary.unset] == [("params", 16, 8)]
    with pytest.raises(pa.KernelError, match="holds int; values of float64 do not fit"):
        pa.from_cuda(hosted, "k", constants={"table": np.full(4, 0.5)}).compiled.binary("sm_80")


def test_types_that_came_too_late_come_the_next_time(hosted, tmp_path, monkeypatch):
    """A slow minute of the machine is not remembered."""
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))
    real = modules.compilers.with_debug_information

    def late(*given):
        raise tools.TooSlow("nvcc did not finish")

    monkeypatch.setattr(modules.compilers, "with_debug_information", late)
    job = prepare(Source(hosted, "cuda"), "sm_80")
    assert modules.debug_information(job, job.inputs()) == b""
    monkeypatch.setattr(modules.compilers, "with_debug_information", real)
    assert modules.debug_information(job, job.inputs())


LONG = """\
struct Long { int row[3][100]; int last; };
__global__ void k(Long p, float* a) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < p.last * p.row[2][99]) a[i] = 1; }
"""


@needs_tools
def test_long_structures_and_arrays_of_arrays(tmp_path):
    (tmp_path / "long.cu").write_text(LONG)
    rows = [[0] * 100, [0] * 100, [0] * 99 + [256]]
    launch = pa.Launch(N // 256, 256, {"p": {"row": rows, "last": 2}})
    assert stored(pa.predict(pa.from_cuda(tmp_path / "long.cu"), launch, "a100")) == 4 * 512


def test_arguments_by_member_in_a_file_with_host_code(hosted):
    kernel = pa.from_cuda(hosted, "k", constants={"params.n": N})
    for n in (512, 1024):
        launch = pa.Launch(N // 256, 256, {"p": {"n": n}})
        assert stored(pa.predict(kernel, launch, "A100-SXM4-40GB")) == 4 * n
