"""Predictions from PTX where nothing assembles it: the volumes of machine code, no guess."""

from pathlib import Path
from random import Random

import pytest

import perfassert as pa
from perfassert.errors import KernelSourceError
from perfassert.frontends.cuda.ptx_binary import unassembled
from perfassert.frontends.cuda.ptx_describe import describe_ptx, machine_opcode
from perfassert.frontends.cuda.ptx_machine import executable_ptx
from perfassert.frontends.cuda.ptx_text import PtxInstruction
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.build import Source, build

SPMV = """\
extern "C" __global__ void spmv(int n, const int* rows, const int* columns, const float* values,
                                const float* x, float* y) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0;
    for (int e = rows[row]; e < rows[row + 1]; e++) sum += values[e] * x[columns[e]];
    y[row] = sum;
}
"""
NAMES = ("n", "rows", "columns", "values", "x", "y")
ROWS = 1 << 12
EXAMPLES = Path(__file__).parents[2] / "examples" / "kernels"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))


def ptx_of(path, kernel, tmp_path):
    for tool in ("nvrtc", "ptxas", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")
    target = tmp_path / f"{kernel}.ptx"
    target.write_text(build(Source(path, "cuda", kernel), "sm_80").ptx)
    return target


@pytest.fixture
def spmv(tmp_path):
    source = tmp_path / "spmv.cu"
    source.write_text(SPMV)
    return ptx_of(source, "spmv", tmp_path)


def hide_ptxas(monkeypatch, tmp_path):
    found = tools.candidates

    def without(name):
        return [] if name == "ptxas" else found(name)

    monkeypatch.setattr(tools, "candidates", without)
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "empty"))


def launch(skew, columns):
    args = {
        "n": ROWS,
        "rows": pa.Buffer(ROWS + 1, fill=f"csr_rows(nnz_per_row=8, skew='{skew}')"),
        "columns": pa.Buffer(9 * ROWS, "int32", fill=columns),
        "values": pa.Buffer(9 * ROWS),
        "x": pa.Buffer(ROWS),
        "y": pa.Buffer(ROWS),
    }
    return pa.Launch(ROWS // 128, 128, args=args)


def volumes(prediction):
    v = prediction.volumes
    loads = (v.l2_load, v.l2_store, v.dram_load, v.dram_store)
    return [float(x.total) for x in loads], float(v.l1_wavefronts.total)


@pytest.mark.parametrize(
    ("skew", "columns"),
    [("banded", "arange % n"), ("power-law", "random(0, n)"), ("uniform", "random(0, n)")],
)
def test_a_sparse_matrix_is_executed_from_ptx(skew, columns, spmv, monkeypatch, tmp_path):
    where = launch(skew, columns)
    known = pa.predict(pa.from_ptx(spmv, parameters=NAMES), where, "a100")
    hide_ptxas(monkeypatch, tmp_path)
    found = pa.predict(pa.from_ptx(spmv, parameters=NAMES), where, "a100")
    assert any("predicted from PTX" in a.text for a in found.assumptions)
    assert not any("predicted from PTX" in a.text for a in known.assumptions)
    assert found.confidence == "transferred"
    (traffic, wavefronts), (there, wavefronts_there) = volumes(found), volumes(known)
    assert traffic == pytest.approx(there, rel=0.01)
    # which lanes a warp has left depends on how the loop is unrolled
    assert wavefronts == pytest.approx(wavefronts_there, rel=0.01 if skew == "banded" else 0.25)
    assert 0.5 < float(found.time) / float(known.time) < 2


def test_without_contents_it_is_a_guess_that_names_the_buffer(spmv, monkeypatch, tmp_path):
    hide_ptxas(monkeypatch, tmp_path)
    args = {**launch("uniform", "random(0, n)").args, "rows": pa.Buffer(ROWS + 1, "int32")}
    found = pa.predict(
        pa.from_ptx(spmv, parameters=NAMES), pa.Launch(ROWS // 128, 128, args=args), "a100"
    )
    assert found.confidence == "guessed"
    assert any("rows" in a.text and a.stands_for for a in found.assumptions)


@pytest.mark.parametrize(
    ("file", "kernel", "args", "grid", "block"),
    [
        ("saxpy", "saxpy", {"n": 1 << 16, "a": 2.0, "x": 1 << 16, "y": 1 << 16}, 256, 256),
        ("transpose", "transpose_naive", None, (32, 32), (32, 8)),
        ("transpose", "transpose_padded", None, (32, 32), (32, 8)),
        ("matmul", "matmul", None, (16, 16), (16, 16)),
    ],
)
def test_closed_forms_of_the_examples(file, kernel, args, grid, block, monkeypatch, tmp_path):
    path = ptx_of(EXAMPLES / f"{file}.cu", kernel, tmp_path)
    count = 1 << 20
    names = list(args or ())
    if args is None:
        program = pa.from_ptx(path, kernel).compiled.program("sm_80")
        names = [f"a{n}" for n in range(len(program.parameters))]
        small = 16 * grid[0] if kernel == "matmul" else 1024
        args = {
            name: count if p.size == 8 else small
            for name, p in zip(names, program.parameters, strict=True)
        }
    given = {n: pa.Buffer(a) if a >= 1 << 16 and n != "n" else a for n, a in args.items()}
    where = pa.Launch(grid, block, args=given)
    known = pa.predict(pa.from_ptx(path, kernel, parameters=tuple(names)), where, "a100")
    hide_ptxas(monkeypatch, tmp_path)
    found = pa.predict(pa.from_ptx(path, kernel, parameters=tuple(names)), where, "a100")
    (traffic, wavefronts), (there, wavefronts_there) = volumes(found), volumes(known)
    assert traffic == pytest.approx(there, rel=0.01)
    assert wavefronts == pytest.approx(wavefronts_there, rel=0.01)
    assert float(found.volumes.shared_wavefronts.total) == pytest.approx(
        float(known.volumes.shared_wavefronts.total), rel=0.01
    )
    assert found.confidence != "measured"


def test_an_architecture_that_ptxas_does_not_know(spmv):
    if tools.find("ptxas") is None:
        pytest.skip("ptxas is not installed")
    binary = pa.from_ptx(spmv).compiled.binary("sm_199")
    assert not binary.listing
    assert "does not know sm_199" in binary.assumptions[0].text
    assert len(describe_ptx(binary).loops) == 2


def test_damaged_text_is_refused_or_read(spmv):
    """Whatever happens to a text, it is a kernel or a KernelSourceError."""
    text, random = spmv.read_text(), Random(5)
    for _ in range(300):
        place = random.randrange(len(text))
        cut = place + random.randrange(1, 30)
        bad = (
            text[:place] + random.choice(["", "{", "}", ";", ", ", "%", "[", "9", "@"]) + text[cut:]
        )
        try:
            executable_ptx(bad, "spmv", "k.ptx")
            describe_ptx(unassembled(bad, "spmv", "sm_80", "k.ptx", "no ptxas"))
        except KernelSourceError:
            continue


@pytest.mark.parametrize(
    ("opcode", "machine"),
    [
        ("ld.global.nc.v4.f32", "LDG.128"), ("st.shared.u8", "STS.U8"),
        ("red.global.add.u32", "RED.32"), ("add.s64", "IADD3"), ("fma.rn.f32", "FFMA"),
        ("fma.rn.f64", "DFMA"), ("div.rn.f32", "MUFU"),
        ("cvt.rn.f32.s32", "I2F"), ("cvt.rzi.s32.f32", "F2I"), ("cvt.u64.u32", "MOV"),
        ("bar.sync", "BAR.SYNC"), ("cp.async.cg.shared.global", "LDGSTS.E.128"),
        ("fma.rn.f16x2", "HFMA2"), ("vadd4.s32.s32.s32", "VADD4"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "HMMA.16816.F32.BF16"),
        ("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", "HMMA.1688.F16"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "LDSM.4"),
    ],
)  # fmt: skip
def test_which_instruction_of_the_machine_stands_for_one(opcode, machine):
    assert machine_opcode(PtxInstruction(0, 1, opcode, ("%r1", "%r2"), None)) == machine
