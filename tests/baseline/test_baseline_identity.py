"""The digest of a kernel: what changes it, and what does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.baseline.identity import digest, machine_code

N = 1 << 16
LAUNCH = pa.Launch(N // 256, 256)
A100 = pa.device("a100")
SAXPY = Path(__file__).parents[1] / "frontends" / "fixtures" / "saxpy.sass"

GIVEN = {"name": "k", "loads": ["a[x]"], "stores": ["b[x]"], "flops": 2, "registers": 32}


def of(**changes):
    fields = [pa.Field("a", shape=(N,), halo=changes.pop("halo", 1)), pa.Field("b", shape=(N,))]
    return digest(pa.Kernel.from_accesses(fields=fields, **{**GIVEN, **changes}), LAUNCH, A100)


@pytest.mark.parametrize("same", [{"name": "other"}, {"loads": ["a[ (x) ]"]}, {"flops": 2.0}])
def test_what_the_model_does_not_read_changes_nothing(same):
    assert of(**same) == of()


@pytest.mark.parametrize(
    "change",
    [{"loads": ["a[x+1]"]}, {"loads": ["a[x]"] * 2}, {"flops": 3}, {"registers": 33}, {"halo": 2},
     {"updates_per_thread": 2}, {"dtype": "float32"}, {"stores": []}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_what_the_model_reads_changes_it(change):
    assert of(**change) != of()


def graph(trips=4, last="fp32", name=""):
    builder = pa.InstructionGraph.builder()
    first = builder.op("int32", name=name)
    with builder.loop(trips=trips):
        builder.op(last, first)
    return builder.build()


def of_graph(latencies=None, **changes):
    return digest(pa.Kernel.from_graph("g", graph(**changes), latencies), LAUNCH, A100)


def test_graphs():
    latency = pa.Latency(issue=2, completion=9)
    digests = [
        of_graph(),
        of_graph(trips=5),
        of_graph(last="fp64"),
        of_graph({"fp32": latency}),
        of_graph({"fp32": lambda warps: pa.Latency(issue=warps, completion=9)}),
        of_graph({"fp32": lambda warps: pa.Latency(issue=2 * warps, completion=9)}),
    ]
    assert len(set(digests)) == len(digests)
    assert of_graph(name="label") == of_graph()
    assert of_graph({"fp32": lambda _: latency}) == of_graph({"fp32": lambda warps: latency})


def of_listing(tmp_path, text, **hints):
    file = tmp_path / "kernel.sass"
    file.write_text(text)
    return digest(pa.from_cubin(file, **hints), LAUNCH, A100)


def test_machine_code_without_its_lines(tmp_path):
    text = SAXPY.read_text()
    whole = of_listing(tmp_path, text)
    moved = text.replace('.cu", line 1', '.cu", line 21').replace("saxpy.cu", "other.cu")
    assert moved != text
    assert of_listing(tmp_path, moved) == whole
    assert of_listing(tmp_path, text.replace(".L_x_", ".L_x_7")) == whole
    changed = text.replace("0x001fca00078e0203", "0x001fda00078e0203", 1)
    assert changed != text
    assert of_listing(tmp_path, changed) != whole
    assert of_listing(tmp_path, text.replace("registers=", "registers=1", 1)) != whole
    assert of_listing(tmp_path, text, updates_per_thread=2) != whole
    hinted = [of_listing(tmp_path, text, trip_counts={f"a.cu:{n}": c}) for n, c in
              ((14, 3), (15, 3), (14, 4))]  # fmt: skip
    assert hinted[0] == hinted[1] != hinted[2]


def test_every_instruction_counts():
    code = machine_code(SAXPY.read_text())
    instructions = [line for line in code if ";" in line]
    assert len(code) == 2 * len(instructions)
    assert instructions[0].startswith("MOV R1, c[0x0][0x28] ; 0x")


def test_a_comment_in_cuda_source(tmp_path):
    source = "__global__ void f(float *p) { p[threadIdx.x] *= 2.0f; }\n"
    digests = []
    for text in (source, f"// a comment\n\n{source}", source.replace("2.0f", "3.0f")):
        file = tmp_path / "kernel.cu"
        file.write_text(text)
        digests.append(digest(pa.from_cuda(file), pa.Launch(8, 256), A100))
    assert digests[0] == digests[1] != digests[2]


def test_the_same_in_every_process():
    code = (
        "import perfassert as pa; from perfassert.baseline.identity import digest;"
        "k = pa.Kernel.from_accesses('k', [pa.Field('a', shape=(64,)), pa.Field('b', shape=(64,))],"
        "['a[x]'], ['b[x]']); print(digest(k, pa.Launch(2, 32), pa.device('a100')))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(said) == 1
