"""``pa.kernels`` and ``perfassert kernels``: facts of every kernel, without a launch."""

import json
import re
import subprocess

import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.errors import KernelSourceError
from perfassert.frontends.cuda import inventory
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import compiled_module

pytestmark = pytest.mark.exhaustive(one_in=8)

COUNT = 24
MANY = """\
template <int N, class T> __global__ void smooth(T* a, int n) {
  __shared__ T s[128];
  T sum = 0;
  for (int j = 0; j < N; ++j) {
    s[threadIdx.x] = a[(threadIdx.x + j * N) % n];
    __syncthreads();
    sum += s[127 - threadIdx.x] * T(N);
    __syncthreads();
  }
  a[threadIdx.x] = sum;
}
"""
SPILLS = """\
__global__ void __launch_bounds__(1024, 2) spills(float* a) {
  float v[64];
  for (int i = 0; i < 64; ++i) v[i] = a[i * 1024 + threadIdx.x];
  for (int j = 0; j < 64; ++j) for (int i = 0; i < 64; ++i) v[i] += v[j] * v[63 - i];
  for (int i = 0; i < 64; ++i) a[i * 1024 + threadIdx.x] = v[i];
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def toolchain():
    for name in ("nvrtc", "nvdisasm"):
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")


def instances(count):
    kinds = ("float", "double")
    lines = (
        f"template __global__ void smooth<{i // 2 + 1}, {kinds[i % 2]}>({kinds[i % 2]}*, int);"
        for i in range(count)
    )
    return MANY + "\n".join(lines)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """An object file of two architectures with ``COUNT`` kernels in each."""
    nvcc = tools.find("nvcc")
    if nvcc is None or tools.find("cuobjdump") is None:
        pytest.skip("nvcc or cuobjdump is not installed")
    folder = tmp_path_factory.mktemp("library")
    (folder / "many.cu").write_text(instances(COUNT))
    both = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in (80, 90)]
    command = [nvcc.path, *both, "-c", "many.cu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("nvcc finds no host compiler")
    return folder / "many.o"


def written(tmp_path, text, name="k.cu"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_every_kernel_of_every_architecture(library):
    found = pa.kernels(library)
    assert len(found) == 2 * COUNT
    assert {i.arch for i in found} == {"sm_80", "sm_90"}
    assert {i.name for i in found} == {
        f"smooth<{n}, {kind}>" for n in range(1, COUNT // 2 + 1) for kind in ("float", "double")
    }
    double = next(i for i in found if i.name == "smooth<3, double>" and i.arch == "sm_80")
    assert (double.shared_bytes, double.barriers, double.spill_bytes) == (1024, 1, 0)
    assert double.mix["barrier"] >= 2
    assert sum(double.mix.values()) == double.code_bytes // 16
    assert len({i.digest for i in found}) == 2 * COUNT


def test_they_are_what_a_kernel_by_itself_has(library):
    info = next(i for i in pa.kernels(library, "sm_86") if i.name == "smooth<5, float>")
    made = pa.predict(
        pa.from_cubin(library, "smooth<5, float>"), pa.Launch(64, 128, {"arg1": 4096}), "a100"
    )
    assert info.arch == "sm_80"
    assert info.registers == made.resources.registers
    assert info.shared_bytes == made.resources.shared_bytes


def test_no_tool_runs_again(library, monkeypatch):
    first = pa.kernels(library)
    record = []
    real = tools.run_tool
    monkeypatch.setattr(
        tools, "run_tool", lambda name, *a, **k: (record.append(name), real(name, *a, **k))[1]
    )
    assert pa.kernels(library) == first
    assert record == []
    copy = library.with_name("copied.o")  # known by content, wherever it lies
    copy.write_bytes(library.read_bytes())
    assert pa.kernels(copy) == first
    assert record == []


DIVISIONS = "".join(
    f"__global__ void divide{n}(double* a) {{ a[threadIdx.x] = {n}.5 / a[threadIdx.x + {n}]; }}\n"
    for n in range(COUNT - 1)
)
"""The slow path of a division is a function of its own in the section of each kernel."""


@pytest.fixture
def disassembled(monkeypatch):
    """Options of each run of nvdisasm."""
    commands = []
    real = tools.run_tool

    def run(name, command, **more):
        if name == "nvdisasm":
            commands.append([word for word in command[1:-1] if word != "--no-dataflow"])
        return real(name, command, **more)

    monkeypatch.setattr(tools, "run_tool", run)
    monkeypatch.setattr(inventory, "_KNOWN_CODE", {})
    return commands


def test_code_that_is_known_is_not_disassembled_again(tmp_path, disassembled, monkeypatch):
    text = "__global__ void k{0}(int* a) {{ a[threadIdx.x] = {0}; }}\n"
    base = written(tmp_path, text.format(1) + text.format(2), "base.cu")
    head = written(tmp_path, text.format(3) + text.format(2), "head.cu")
    pa.kernels(base, "sm_80")
    infos = pa.kernels(head, "sm_80")
    everything, part = disassembled
    assert (everything, part[:2]) == (["-c"], ["-c", "-fun"])
    assert len(part[2].split(",")) == 1
    monkeypatch.setattr(inventory, "_KNOWN_CODE", {})
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "new"))
    assert pa.kernels(head, "sm_80") == infos
    assert disassembled[2] == ["-c"]


def test_known_code_that_is_forgotten_meanwhile_is_described(tmp_path, disassembled, monkeypatch):
    text = "__global__ void k{0}(int* a) {{ a[threadIdx.x] = {0}; }}\n"
    (known,) = pa.kernels(written(tmp_path, text.format(2), "base.cu"), "sm_80")
    real = inventory._disassemble

    def forget(*given):
        inventory._KNOWN_CODE.clear()
        return real(*given)

    monkeypatch.setattr(inventory, "_disassemble", forget)
    infos = pa.kernels(written(tmp_path, text.format(1) + text.format(2), "head.cu"), "sm_80")
    assert {i.name: i.mix for i in infos}["k2"] == known.mix != {}


def test_code_that_calls_functions_is_disassembled_with_them(tmp_path, disassembled):
    function = "__device__ __noinline__ int f(int x) {{ return x * x % {}; }}\n"
    kernel = "__global__ void k(int* a) { a[threadIdx.x] = f(a[threadIdx.x]); }\n"
    seven, nine = (
        pa.kernels(written(tmp_path, function.format(n) + kernel, f"{n}.cu"), "sm_80")[0]
        for n in (7, 9)
    )
    assert seven.digest != nine.digest
    assert disassembled == [["-c"], ["-c"]]


def test_code_that_takes_a_functions_address_has_its_digest_from_it_too(tmp_path):
    text = """__device__ __noinline__ int f(int x) {{ return x * x % {}; }}
      __device__ __noinline__ int g(int x) {{ return x + 1; }}
      __global__ void k(int* a, bool b) {{ int (*p)(int) = b ? f : g; a[0] = p(a[1]); }}"""
    options = {"options": ("-rdc=true",)}
    seven, nine = (
        pa.kernels(written(tmp_path, text.format(n), f"{n}.cu"), "sm_80", **options)[0]
        for n in (7, 9)
    )
    assert (seven.mix, seven.control_flow) == (nine.mix, nine.control_flow)
    assert seven.digest != nine.digest


def test_targets_of_jumps_by_table_are_named(tmp_path, disassembled):
    cases = "".join(f"case {n}: a[{n}] = b / {n + 3}; break;" for n in range(12))
    text = f"__global__ void k(int* a, int b) {{ switch (a[99]) {{ {cases} }} }}"
    (info,) = pa.kernels(written(tmp_path, text), "sm_80")
    assert disassembled == [["-c"], ["-c"]]
    assert info.mix["branch"] > 1


@pytest.mark.parametrize("text", [instances(COUNT), DIVISIONS], ids=["loops", "divisions"])
def test_much_code_is_disassembled_in_pieces(tmp_path, disassembled, monkeypatch, text):
    path = written(tmp_path, text, "many.cu")
    whole = pa.kernels(path, "sm_80")
    monkeypatch.setattr(inventory, "_KNOWN_CODE", {})
    monkeypatch.setattr(inventory, "_PIECE", 1 << 10)
    monkeypatch.setattr(inventory, "cores", lambda: 3)
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "new"))
    assert pa.kernels(path, "sm_80") == whole
    assert [len(c) for c in disassembled] == [1, 3, 3, 3]


def test_digests_are_of_the_code(tmp_path):
    text = "__global__ void one(int* a) {{ a[threadIdx.x] = {}; }}"
    (one,) = pa.kernels(written(tmp_path, text.format(1)), "sm_80")
    other = written(tmp_path, "// moved\n" + text.format(1).replace("one", "else_"), "other.cu")
    (renamed,) = pa.kernels(other, "sm_80")
    (changed,) = pa.kernels(written(tmp_path, text.format(2), "changed.cu"), "sm_80")
    assert renamed.digest == one.digest != changed.digest
    assert renamed.control_flow == one.control_flow == changed.control_flow
    assert (renamed.name, one.name) == ("else_", "one")


def test_spills(tmp_path):
    (info,) = pa.kernels(written(tmp_path, SPILLS), "sm_80")
    assert info.registers == 32
    assert 0 < info.spill_bytes <= info.stack_bytes


LOCAL = """\
#include <cstdio>
__device__ __noinline__ void fill(float* w, int n) { for (int i = 0; i < n; ++i) w[i] = i; }
__global__ void printing(float* a, int n) {
  if (a[threadIdx.x] > 3) printf("%d %f\\n", n, a[threadIdx.x]);
}
__global__ void indexed(float* a, const int* index) {
  float w[24];
  for (int i = 0; i < 24; ++i) w[i] = a[index[i]];
  for (int i = 0; i < 24; ++i) a[i] += w[index[i + 24]];
}
__global__ void passed(float* a, int n) {
  float w[8];
  w[0] = a[1], w[1] = a[2], w[7] = 4;
  fill(w, n);
  a[threadIdx.x] = w[0] + w[1] + w[7];
}
"""


def built(tmp_path, text, release=None):
    """Return the path of a cubin, as if a compiler of that release (125: 12.5) had written it."""
    made = compiled_module(Source(written(tmp_path, text), "cuda"), "sm_80").cubin
    path = tmp_path / "k.cubin"
    pattern = rb"\x04\x37\x04\x00(.{4})"
    if release is not None:
        older = b"\x04\x37\x04\x00" + release.to_bytes(4, "little")
        made = re.sub(pattern, lambda _: older, made, flags=re.DOTALL)
    path.write_bytes(made)
    return path


def spills(path):
    inventory._KNOWN_CODE.clear()
    return {info.name: info.spill_bytes for info in pa.kernels(path)}


def test_local_variables_are_no_spills(tmp_path):
    assert spills(built(tmp_path, LOCAL)) == {"printing": 0, "indexed": 0, "passed": 0}


def test_a_kernel_that_spills_and_prints(tmp_path):
    """The arguments of a printf are on the stack, too, and do not count."""
    before = spills(built(tmp_path, SPILLS))["spills"]
    printing = SPILLS.replace("\n}", '\n  if (a[0] > 9) printf("%f %f", a[1], a[2]);\n}')
    after = spills(built(tmp_path, "#include <cstdio>\n" + printing))["spills"]
    assert before > 0
    assert abs(after - before) < 16


def test_compilers_that_do_not_record_spills(tmp_path):
    """What is only stored is the argument of a call; what is also loaded counts."""
    older = spills(built(tmp_path, LOCAL, release=125))
    assert (older["printing"], older["indexed"]) == (0, 0)
    assert spills(built(tmp_path, SPILLS, 125)) == spills(built(tmp_path, SPILLS))


def test_errors(tmp_path, library):
    with pytest.raises(KernelSourceError, match="give the architecture"):
        pa.kernels(written(tmp_path, MANY))
    with pytest.raises(KernelSourceError, match=r"has nothing for sm_75: it has sm_80, sm_90"):
        pa.kernels(library, "sm_75")
    with pytest.raises(KernelSourceError, match="no readable cubin"):
        pa.kernels(written(tmp_path, "rubbish", "k.cubin"))
    with pytest.raises(KernelSourceError, match="is no compilation database"):
        raise_from(written(tmp_path, "[{}]", "compile_commands.json"))


def raise_from(path):
    from perfassert.frontends.cuda.compile_commands import compile_commands

    compile_commands(path)


def test_on_the_command_line(library, capsys):
    block = ["--block", "128", "--device", "a100"]
    assert main(["kernels", str(library), "--filter", "smooth<2,*", *block]) == 0
    text = capsys.readouterr().out
    assert text.endswith("\n2 kernels\n")
    assert str(library) not in text
    assert "100%" in text or "94%" in text
    assert main(["kernels", str(library), "--arch", "sm_90", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == COUNT
    assert {"name", "mangled", "mix", "digest", "control_flow"} <= set(rows[0])
    assert main(["kernels", str(library), "--block", "128"]) == 2


def test_several_files_are_told_apart(tmp_path, capsys):
    text = "__global__ void k{}(int* a) {{ a[0] = 1; }}\n"
    files = [str(written(tmp_path, text.format(n), f"{n}.cu")) for n in "ab"]
    assert main(["kernels", *files, "--arch", "sm_80"]) == 0
    header, _, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["kernel", "file"]
    assert [row.split()[:2] for row in rows[:2]] == [["ka", files[0]], ["kb", files[1]]]
    assert main(["kernels", files[0], "--arch", "sm_80"]) == 0
    assert capsys.readouterr().out.endswith("\n1 kernel\n")


def test_a_compilation_database(tmp_path, library, capsys):
    written(tmp_path, MANY + "template __global__ void smooth<1, KIND>(KIND*, int);")
    entries = [
        {
            "directory": str(tmp_path),
            "file": "k.cu",
            "command": "nvcc -DKIND=float -gencode arch=compute_90a,code=sm_90a -O3 -c k.cu -o k.o",
        },
        {
            "directory": str(library.parent),
            "file": "many.cu",
            "output": "many.o",
            "command": "nvcc",
        },
        {"directory": str(tmp_path), "file": "main.cpp", "command": "g++ -c main.cpp"},
    ]
    path = written(tmp_path, json.dumps(entries), "compile_commands.json")
    assert main(["kernels", str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(r["name"], r["arch"]) for r in rows][:1] == [("smooth<1, float>", "sm_90a")]
    assert len(rows) == 1 + 2 * COUNT


@pytest.mark.parametrize(
    "command",
    [
        "nvcc -x cu -arch=sm_80 -c k.cpp -o k.o",
        "nvcc -x=cu -arch=sm_80 -c k.cpp",
        "clang++ -xcuda --cuda-gpu-arch=sm_80 -c k.cpp",
        "clang++ -x cuda --offload-arch=sm_80 -c k.cpp",
    ],
)
def test_cuda_in_files_of_cpp(tmp_path, capsys, command):
    """Programs that also build without CUDA call their sources so."""
    source = written(tmp_path, "__global__ void k(int* a) { *a = 1; }\n", "k.cpp")
    entry = {"directory": str(tmp_path), "file": "k.cpp", "command": command}
    other = {"directory": str(tmp_path), "file": "main.cpp", "command": "g++ -xc++ -c main.cpp"}
    path = written(tmp_path, json.dumps([entry, other]), "compile_commands.json")
    assert main(["kernels", str(path), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["arch"]) == ("k", "sm_80")
    assert main(["kernels", str(source), "--arch", "sm_80", "--json"]) == 0
    assert [other["name"] for other in json.loads(capsys.readouterr().out)] == ["k"]


def test_folders_and_option_files_of_a_build(tmp_path, capsys):
    """Folders are relative to the command's folder, and options lie in files, as CMake writes."""
    for folder in ("source", "build", "headers", "system"):
        (tmp_path / folder).mkdir()
    written(tmp_path / "headers", "using Kind = float;\n", "kind.h")
    written(tmp_path / "system", "#define COUNT 3\n", "count.h")
    written(tmp_path / "build", "-I../headers -isystem ../system -I../nowhere", "includes.rsp")
    text = '#include "kind.h"\n#include <count.h>\n'
    written(
        tmp_path / "source", text + MANY + "template __global__ void smooth<COUNT>(Kind*, int);"
    )
    entry = {
        "directory": str(tmp_path / "build"),
        "file": "../source/k.cu",
        "command": "nvcc --options-file includes.rsp -arch=sm_80 -c ../source/k.cu -o k.o",
    }
    path = written(tmp_path / "build", json.dumps([entry]), "compile_commands.json")
    assert main(["kernels", str(path), "--json"]) == 0
    assert [r["name"] for r in json.loads(capsys.readouterr().out)] == ["smooth<3, float>"]
    assert main(["kernels", str(path), "-DCOUNT=3"]) == 2
    assert "has options of its own" in capsys.readouterr().err


def test_macros_and_folders_on_the_command_line(tmp_path, capsys, monkeypatch):
    (tmp_path / "headers").mkdir()
    written(tmp_path / "headers", "#pragma once\n", "kind.h")
    text = '#include "kind.h"\n' + MANY + "template __global__ void smooth<COUNT>(KIND*, int);"
    path = written(tmp_path, text)
    command = ["kernels", str(path), "--arch", "sm_80", "-DKIND=int", "-D", "COUNT=2", "--json"]
    monkeypatch.chdir(tmp_path / "headers")
    for folder in (".", "headers"):  # from here, as compilers take it; beside the source
        assert main([*command, "-I", folder, "--option=-use_fast_math"]) == 0
        assert [r["name"] for r in json.loads(capsys.readouterr().out)] == ["smooth<2, int>"]
    assert main(command) == 2
    assert "kind.h" in capsys.readouterr().err
