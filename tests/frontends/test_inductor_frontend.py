"""Tests of what :func:`from_inductor` reads of the files of ``torch.compile``, and rejects.

The files in ``examples/generated`` are written by hand, in PyTorch's layout.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.frontends.generators.inductor_configs import configurations

GENERATED = Path(__file__).parents[2] / "examples/generated"
STATIC = (GENERATED / "inductor_rows.py").read_text()
DYNAMIC = (GENERATED / "inductor_columns.py").read_text()
A100 = "A100-SXM4-40GB"
RELU, SOFTMAX = "triton_poi_fused_add_relu_0", "triton_per_fused__softmax_1"
NUMBERS = 4096 * 1024


@pytest.fixture
def written(tmp_path):
    """Writes a file as Inductor's cache has it: two letters of its name are its folder."""
    pytest.importorskip("triton")

    def write(text, name="cprogram"):
        path = tmp_path / name[1:3] / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_kernels_with_their_launches(written):
    path = written(STATIC)
    relu, softmax = pa.from_inductor(path)
    assert (relu.name, relu.calls, relu.chosen) == (RELU, 1, None)
    assert (softmax.name, softmax.calls) == (SOFTMAX, 2)
    assert str(relu.span) == f"{path}:{STATIC[: STATIC.index(f'def {RELU}')].count(chr(10)) + 1}"
    assert list(relu.candidates) == [
        "XBLOCK=1024 warps=4 stages=1",
        "XBLOCK=512 warps=8 stages=1",
    ]
    assert relu.launch.grid == (NUMBERS // 1024, 1, 1)
    assert relu.launch.block == (128, 1, 1)
    assert dict(relu.launch.args) == {"xnumel": NUMBERS}
    assert list(softmax.candidates) == ["XBLOCK=1 R0_BLOCK=1024 warps=8 stages=1"]
    assert softmax.launch.grid == (4096, 1, 1)


def test_volumes_are_those_of_the_program(written, toolchain):
    """A number is read once and written once; the bias of a row is negligible."""
    relu, softmax = pa.from_inductor(written(STATIC))
    for kernel in (relu, softmax):
        prediction = pa.predict(kernel.kernel, kernel.launch, A100)
        volumes = prediction.volumes
        assert prediction.confidence != "guessed"
        assert not [a for a in prediction.assumptions if "no closed form" in a.text]
        assert volumes.l2_store.total == 4 * NUMBERS
    assert volumes.dram_load.total == pytest.approx(4 * NUMBERS, rel=0.01)
    ranking = pa.rank(relu.candidates, A100)
    assert ranking.best in relu.candidates


def test_lines_are_those_of_the_file(written):
    wrong = STATIC.replace("tmp4 = tmp0 - tmp3", "tmp4 = tl.dot(tmp0, tmp3)")
    path = written(wrong)
    softmax = pa.from_inductor(path)[1]
    line = wrong[: wrong.index("tl.dot")].count("\n") + 1
    with pytest.raises(pa.KernelSourceError, match=f"{path}:{line}: Triton cannot compile"):
        pa.predict(softmax.kernel, softmax.launch, A100)


def test_neither_pytorch_nor_the_file_is_imported(written):
    code = (
        "import sys, perfassert as pa\n"
        f"pa.from_inductor({str(written(STATIC))!r})\n"
        "print(sorted({'torch', 'cprogram'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_tuning_found_goes_first(written):
    path = written(STATIC)
    found = {"XBLOCK": 2048, "num_warps": 4, "num_stages": 1, "configs_hash": "0",
             "found_by_coordesc": True, "time_taken_ms": 7}  # fmt: skip
    folder = path.parent.parent / "br"
    folder.mkdir()
    (folder / "cbrownfoxbiasandrelu.best_config").write_text(json.dumps(found))
    relu, softmax = pa.from_inductor(path)
    assert relu.chosen == "XBLOCK=2048 warps=4 stages=1"
    assert relu.launch.grid == (NUMBERS // 2048, 1, 1)
    assert len(relu.candidates) == 3
    assert softmax.chosen is None
    (folder / "cbrownfoxbiasandrelu.best_config").write_text('{"XBLOCK": -1}')
    with pytest.raises(pa.KernelSourceError, match=r"best_config: .* integers above 0"):
        pa.from_inductor(path)


def test_a_folder_is_searched(written, tmp_path):
    written(STATIC, "cone")
    written("x = 1\n", "cother")
    assert [kernel.name for kernel in pa.from_inductor(tmp_path)] == [RELU, SOFTMAX]
    (tmp_path / "empty").mkdir()
    with pytest.raises(pa.KernelSourceError, match="TORCHINDUCTOR_CACHE_DIR"):
        pa.from_inductor(tmp_path / "empty")
    with pytest.raises(pa.KernelSourceError, match="no such file or folder"):
        pa.from_inductor(tmp_path / "nowhere")


def test_dynamic_shapes_need_sizes(written):
    path = written(DYNAMIC)
    with pytest.raises(pa.KernelSourceError, match=r"'s0' has no value; give sizes=\{'s0': 4096\}"):
        pa.from_inductor(path)
    (kernel,) = pa.from_inductor(path, sizes={"s0": 2048})
    assert dict(kernel.launch.args) == {"xnumel": 1024, "rnumel": 4096}
    # 64 columns at a time, 16 blocks; 1 column, 1024 blocks
    assert {launch.grid[0] for _, launch in kernel.candidates.values()} == {16, 128, 1024}


def test_configurations_of_ones_own(written):
    mine = {RELU: [{"XBLOCK": 256, "num_warps": 2}]}
    relu, softmax = pa.from_inductor(written(STATIC), configs=mine)
    assert list(relu.candidates) == ["XBLOCK=256 warps=2"]
    assert relu.launch.block == (64, 1, 1)
    assert len(softmax.candidates) == 1
    with pytest.raises(pa.KernelSourceError, match="launches no kernel 'other'"):
        pa.from_inductor(written(STATIC), configs={"other": []})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("async_compile.triton(", "async_compile.cpp(", "has no async_compile.triton"),
        ("x2 = xindex", "x2 = open('/etc/passwd')", "it names 'open', which is none of its own"),
        ("x2 = xindex", "x2 = tl.core.os", "'tl.core.os' is no part"),
        ("x2 = xindex", "x2 = tl._private", "'tl._private' is no part"),
        ("x2 = xindex", "x2 = xindex.__class__", "'xindex.__class__' is no part"),
        ("x2 = xindex", "x2 = triton_helpers.frexp(xindex)", "'triton_helpers.frexp' is no part"),
        ("x2 = xindex", "import os", "Import is no part of Triton's language"),
        ("x2 = xindex", "x2 = (lambda: 1)()", "Lambda is no part"),
        ("XBLOCK : tl.constexpr)", "XBLOCK : print(1))", "is launched with 4 arguments"),
        ("xnumel, XBLOCK :", "xnumel=print(1), XBLOCK :", "SyntaxError|no constant|is no Python"),
        ("x2 = xindex", "x2 = = xindex", "is no Python"),
        ("'Grid1D'", "'SplitScanGrid'", "is a SplitScanGrid, not known here"),
        ("heuristics.pointwise", "heuristics.split_scan", "give configs="),
        ("buf1, 4194304", "buf1", "is launched with 3 arguments"),
        ("4194304, stream", "n + 1, stream", "the shape is dynamic: 'n' has no value"),
        ("type='cuda'", "type='xpu'", "has no async_compile.triton"),
    ],
)
def test_refused(written, old, new, message):
    assert old in STATIC
    with pytest.raises(pa.KernelSourceError, match=message):
        [kernel.launch for kernel in pa.from_inductor(written(STATIC.replace(old, new)))]


META = "the arguments of triton_heuristics.pointwise are not as Inductor prints them"
HINTS, CONSTANTS = "size_hints={'x': 4194304}", "'constants': {}"
SIGNATURE = "'in_ptr0': '*fp32', 'in_ptr1'"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (HINTS, "size_hints={'x': 0}", META),
        (HINTS, "size_hints={'x': 'many'}", META),
        (HINTS, "size_hints=5", META),
        (HINTS, "size_hints={{}: 1}", "'{{}: 1}' is not written out"),
        (HINTS, f"{HINTS}, num_warps=1000000000", "num_warps must be an integer from 1 to 32"),
        (HINTS, f"{HINTS}, num_stages=1000000000", "num_stages must be an integer from 1 to 64"),
        (HINTS, f"{HINTS}, num_warps='4'*9", "is not written out"),
        ("inductor_meta={", "inductor_meta=3, more={", META),
        ("'grid_type': 'Grid1D'", "'grid_type': {}", "is a {}, not known here"),
        ("'grid_type'", "'extra_launcher_args': ('x',), 'grid_type'", META),
        ("'grid_type'", "'extra_launcher_args': ('in_ptr0', 'y', 'z'), 'grid_type'", META),
        (SIGNATURE, "7: '*fp32', 'in_ptr1'", META),
        (SIGNATURE, "'in_ptr0': 'tensordesc<fp32[99999999999]>', 'in_ptr1'", META),
        (SIGNATURE, "'in_ptr0': ('*fp32',), 'in_ptr1'", META),
        (CONSTANTS, "'constants': {'in_ptr1': 'a'}", "'in_ptr1' is no number of at most 64 bits"),
        (CONSTANTS, "'constants': {'xnumel': 'a'}", META),
        (CONSTANTS, "'constants': {9: 1}", META),
        (CONSTANTS, "'constants': 5", META),
        ("'tt.divisibility', 16", "'llvm.byval', 16", META),
        ("'tt.divisibility', 16", "'tt.divisibility', 'a'", META),
        ("'configs': [{(0,): [['tt", "'configs': [{(0,): [7], (9,): [['tt", META),
    ],
)
def test_decorators_that_inductor_does_not_print(written, old, new, message):
    assert old in STATIC
    path = written(STATIC.replace(old, new, 1))
    with pytest.raises(pa.KernelSourceError, match=message) as raised:
        [kernel.launch for kernel in pa.from_inductor(path)]
    assert str(path) in str(raised.value) or "num_" in message


def test_sizes_that_double(written):
    """The last size would have 2 ** 200 terms if it were kept as text."""
    doubled = "".join(f"        s{i + 1} = s{i} + s{i}\n" for i in range(200))
    text = STATIC.replace("        stream0", f"        s0 = -1 + 2\n{doubled}        stream0", 1)
    (relu, _) = pa.from_inductor(written(text.replace("buf1, 4194304", "buf1, s20")))
    assert relu.launch.args["xnumel"] == 1 << 20
    with pytest.raises(pa.KernelSourceError, match="a size has more than 64 bits|no value"):
        pa.from_inductor(written(text.replace("buf1, 4194304", "buf1, s199")))
    unknown = text.replace("s0 = -1 + 2", "s0 = n + 1").replace("buf1, 4194304", "buf1, s30")
    with pytest.raises(pa.KernelSourceError, match="'n' has no value"):
        pa.from_inductor(written(unknown))


def test_one_that_is_not_known_leaves_the_others(written):
    path = written(STATIC.replace("triton_helpers.maximum", "triton_helpers.frexp"))
    relu, softmax = pa.from_inductor(path)
    assert (softmax.refused, len(softmax.candidates)) == (None, 1)
    assert f"{path}:" in relu.refused
    assert not relu.candidates


def test_the_program_is_read_only(written, tmp_path):
    """Nothing of it runs, neither outside of its kernels nor what decorates them."""
    mark = tmp_path / "ran"
    touch = f"open({str(mark)!r}, 'w')\n"
    decorated = STATIC.replace("filename=__file__", f"filename=open({str(mark)!r}, 'w')")
    pa.from_inductor(written(touch + decorated))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("heuristic", "hints", "count", "first"),
    [
        ("pointwise", {"x": 1 << 20}, 2, {"XBLOCK": 1024, "num_warps": 4}),
        ("pointwise", {"x": 64}, 1, {"XBLOCK": 64, "num_warps": 1}),
        ("pointwise", {"y": 4096, "x": 4096}, 6, {"YBLOCK": 32, "XBLOCK": 32, "num_warps": 4}),
        ("pointwise", [64, 64, 64], 7, {"ZBLOCK": 16, "YBLOCK": 16, "XBLOCK": 16, "num_warps": 8}),
        ("reduction", {"x": 4096, "r0_": 8192}, 5, {"XBLOCK": 1, "R0_BLOCK": 2048}),
        ("reduction", [4096, 8192], 5, {"XBLOCK": 1, "RBLOCK": 2048}),
        ("persistent_reduction", {"x": 4096, "r0_": 128}, 3, {"XBLOCK": 1, "num_warps": 2}),
        ("split_scan", {"x": 1}, 0, {}),
    ],
)
def test_configurations_that_are_tried(heuristic, hints, count, first):
    found = configurations(heuristic, {"size_hints": hints})
    assert (len(found), first) == (count, {k: v for k, v in found[0].items() if k in first}
                                   if found else {})  # fmt: skip
    for config in found:
        assert all(value & (value - 1) == 0 for value in config.values()), "powers of two"


def test_what_a_template_fixes():
    given = {"size_hints": {}, "num_warps": 8, "num_stages": 3}
    assert configurations("template", given) == [{"num_warps": 8, "num_stages": 3}]
