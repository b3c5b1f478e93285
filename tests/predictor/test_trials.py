"""Advice is proven: what a compiler can do about it is compiled on a copy, and predicted."""

import json
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.predictor.diagnose.source_edits import (
    inline_calls,
    unroll_loop,
    use_single_precision,
)

pytestmark = pytest.mark.exhaustive(one_in=8)

SOURCE = """template <class T>
__global__ void scale(T* out, const T* in,
                      int n) {
#pragma unroll 1
  for (int k = 0; k < 4; ++k) out[k] = in[k];
}
// for (the sake of it) "while (true)"
extern "C" __global__ void bound(const float* __restrict__ in, float (*out)[4]) {
    if (in) while (in[0] > 0) out[0][0] = 1;
}
"""


class TestEdits:
    @pytest.mark.parametrize("line", [5, 9])
    def test_every_line_stays_where_it_is(self, line):
        made = unroll_loop(SOURCE, line, 8)
        before, after = SOURCE.splitlines(), made.splitlines()
        changed = [n for n, (a, b) in enumerate(zip(before, after, strict=True), 1) if a != b]
        assert changed == [4, 5] if line == 5 else [9]

    def test_a_pragma_takes_the_place_of_another(self):
        made = unroll_loop(SOURCE, 5, 8)
        assert '\n\n  _Pragma("unroll 8") for (int k' in made
        assert "unroll 1" not in made

    @pytest.mark.parametrize("line", [0, 1, 4, 7, 99])
    def test_what_is_no_loop_stays(self, line):
        assert unroll_loop(SOURCE, line, 4) is None

    def test_functions_that_are_kept_apart(self):
        made = inline_calls("__device__ __noinline__ float f();\n")
        assert made == "__device__ __forceinline__ float f();\n"
        assert inline_calls(SOURCE) is None

    @pytest.mark.parametrize(
        ("double", "single"),
        [
            ("x * 2.0 + .5", "x * 2.0f + .5f"),
            ("1e-3 * sqrt(x)", "1e-3f * sqrtf(x)"),
            ("a.5x + 2.0f + 0x1.0p3", "a.5x + 2.0f + 0x1.0p3"),
            ("v1.0", "v1.0"),
        ],
    )
    def test_literals(self, double, single):
        assert use_single_precision(f"{double}\n{double}", {1}) == (
            None if double == single else f"{single}\n{double}"
        )


PAIRS = Path(__file__).parents[1] / "advisor_kernels" / "pairs.cu"
LISTING = Path(pa.__file__).parent / "sensitivity/saxpy.sass"
ROLLED = ["advise", str(PAIRS), "--kernel", "rolled", "--device", "a100", "--grid", "216",
          "--block", "64", "--arg", f"n={1 << 20}"]  # fmt: skip

KERNELS = """
__device__ __noinline__ float mix(float x, float y) { return x * y + 0.5f; }
__global__ void calls(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0, x = in[i];
    for (int k = 0; k < n; ++k) s = mix(s, x + k);
    out[i] = s;
}
__global__ void precise(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0, x = in[i];
    for (int k = 0; k < n; ++k) s += expf(x + k) / (x + s);
    out[i] = s;
}
__global__ void doubles(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0, x = in[i];
    for (int k = 0; k < n; ++k) s = s * 0.999 + x;
    out[i] = s;
}
"""


@pytest.fixture(scope="module")
def toolchain():
    """Skips where CUDA cannot be compiled."""
    try:
        pa.kernels(PAIRS, arch="sm_80")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def kernels(tmp_path, toolchain):
    (file := tmp_path / "kernels.cu").write_text(KERNELS)
    return file


def asked(file, kernel, **more):
    launch = pa.Launch(864, 256, {"n": 1000})
    return pa.predict(pa.from_cuda(file, kernel), launch, "a100", **more)


@pytest.mark.parametrize(
    ("kernel", "optimizer", "how", "change"),
    [
        ("precise", "Fast Math", "-use_fast_math", None),
        ("calls", "Function Inlining", "__forceinline__", ("__noinline__", "__forceinline__")),
        ("doubles", "Strength Reduction", "literals as float", ("0.999", "0.999f")),
    ],
)
def test_the_first_advice_gains_what_its_change_gains(kernels, kernel, optimizer, how, change):
    """The oracle: the source written that way, or compiled with that option, by itself."""
    before = asked(kernels, kernel)
    options = () if change else (how,)
    if change:
        (other := kernels.with_name("changed.cu")).write_text(KERNELS.replace(*change))
    else:
        other = kernels
    after = pa.predict(
        pa.from_cuda(other, kernel, options=options), pa.Launch(864, 256, {"n": 1000}), "a100"
    )
    first = before.advice[0]
    assert first.optimizer == optimizer
    assert first.context["estimate"] == "compiled"
    assert first.speedup == pytest.approx(float(before.time) / float(after.time), rel=1e-5)
    assert first.proof == f"{how}: {before.time} → {after.time}"


def test_how_many_are_compiled_is_part_of_the_question(kernels):
    """None by 0; the same number twice is the same question."""
    free, none, one = (asked(kernels, "precise", prove=n) for n in (None, 0, 1))
    assert free.time == none.time == one.time
    assert len({free.question, none.question, one.question}) == 3
    assert asked(kernels, "precise", prove=1).question == one.question
    assert all(a.proof is None for a in none.advice)
    assert none.diagnosis.trials == ()
    assert none.diagnosis.left_out[0].name == "-use_fast_math"
    assert one.diagnosis.trials[0].trial == none.diagnosis.left_out[0]
    with pytest.raises(pa.LaunchError, match="prove"):
        asked(kernels, "precise", prove=-1)


@pytest.mark.parametrize("gone", [False, True])
def test_a_proof_is_that_of_the_question(kernels, gone):
    """Whatever becomes of the file: its text is part of what was asked."""
    expected, before = (asked(kernels, "precise", prove=n) for n in (2, None))
    if gone:
        kernels.unlink()
    else:
        kernels.write_text(KERNELS.replace("expf", "cosf"))
    assert before.advice == expected.advice
    assert before.advice[0].proof is not None


def test_a_changed_header_proves_nothing(kernels):
    (header := kernels.with_name("more.cuh")).write_text("#define MORE 1\n")
    kernels.write_text('#include "more.cuh"\n' + KERNELS.replace("x + k)", "x + k * MORE)"))
    before = asked(kernels, "precise")
    header.write_text("#define MORE 2\n")
    assert all(a.proof is None for a in before.advice)
    assert "has changed" in before.diagnosis.trials[0].error


def test_what_if_the_source_were_another(kernels):
    before = asked(kernels, "precise")
    after = pa.whatif(before, source=KERNELS.replace("expf(x + k)", "1")).after
    assert after.time < before.time
    with pytest.raises(pa.KernelError, match="source must be the text"):
        pa.whatif(before, source=3)


@pytest.mark.usefixtures("toolchain")
class TestCopies:
    def test_what_wins_comes_with_a_patch(self, capsys):
        before = PAIRS.read_text()
        assert main([*ROLLED, "--try", "2", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        names = [f"#pragma unroll {n}, line 88" for n in (4, 8)]
        assert [t["change"] for t in found["tried"]] == names
        for one in found["tried"]:
            assert one["optimizer"] == "Loop Unrolling"
            assert one["speedup"] > 2
            assert '+  _Pragma("unroll' in one["patch"]
        assert found["advice"][0]["speedup"] == max(t["speedup"] for t in found["tried"])
        assert PAIRS.read_text() == before

    def test_as_text(self, capsys):
        assert main([*ROLLED, "--try", "1"]) == 0
        out = capsys.readouterr().out
        assert "(as it is)" in out
        assert "#pragma unroll 4, line 88: " in out
        assert "--- a/pairs.cu" in out
        assert "Not compiled (1 are compiled): #pragma unroll 8, line 88" in out


@pytest.mark.parametrize(
    ("more", "message"),
    [(["--try", "-1"], "at least 0"), (["--prove", "--samples", "x.csv"], "leave the profile")],
)
def test_what_does_not_go_together(more, message, capsys):
    assert main([*ROLLED, *more]) == 2
    assert message in capsys.readouterr().err


def test_a_listing_is_not_compiled_otherwise(capsys):
    command = ["advise", str(LISTING), "--device", "a100", "--grid", "4", "--block", "256"]
    assert main([*command, "--arg", "n=1024", "--prove"]) == 0
    assert "compiled with" not in capsys.readouterr().out
