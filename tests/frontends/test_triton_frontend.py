"""Tests of :func:`from_triton` on JIT functions, and of what it rejects."""

from importlib.metadata import version

import pytest

import perfassert as pa
from perfassert.frontends.analysis.describe import describe
from perfassert.frontends.generators.triton import from_triton
from perfassert.frontends.toolchain import tools

SOURCE = """
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@triton.jit
def scale(target, source, n, stride, factor, BLOCK: tl.constexpr, EVEN: tl.constexpr = False):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + index * stride, mask=index < n)
    tl.store(target + index, value * factor, mask=index < n)


@triton.jit
def gather(target, source, index, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + i, tl.load(source + tl.load(index + i)))


@triton.jit
def padded(target, source, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) - 4
    inside = (i >= 0) & (i < 1000)
    tl.store(target + i + 4, tl.load(source + i, mask=inside, other=0.0))


@triton.jit
def inner(x):
    return x + nothing_of_that_name


@triton.jit
def broken(x):
    tl.store(x, inner(1))


@triton.jit
def grouped(target, source, m, n, BLOCK: tl.constexpr):
    # groups of eight rows of tiles, the last one cut off; offsets wrap around
    rows, columns = tl.cdiv(m, BLOCK), tl.cdiv(n, BLOCK)
    group = tl.program_id(0) // (8 * columns)
    height = tl.minimum(rows - group * 8, 8)
    row = group * 8 + tl.program_id(0) % (8 * columns) % height
    column = tl.program_id(0) % (8 * columns) // height
    i = (row * BLOCK + tl.arange(0, BLOCK)) % m
    j = (column * BLOCK + tl.arange(0, BLOCK)) % n
    tl.store(target + j, tl.load(source + i))


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=[])
@triton.jit
def tuned(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0)


def plain(x):
    pass


@gluon.jit
def transposed(target, source, n, TILE: gl.constexpr, rows: gl.constexpr, columns: gl.constexpr):
    i = gl.arange(0, TILE, layout=gl.SliceLayout(1, rows))
    j = gl.arange(0, TILE, layout=gl.SliceLayout(0, rows))
    tile = gl.load(source + gl.program_id(0) * TILE + i[:, None] * n + j[None, :])
    turned = gl.convert_layout(tile, columns)
    i = gl.arange(0, TILE, layout=gl.SliceLayout(1, columns))
    j = gl.arange(0, TILE, layout=gl.SliceLayout(0, columns))
    gl.store(target + gl.program_id(0) * TILE * n + j[None, :] * n + i[:, None], turned)
"""
TYPES = {"target": "*fp32", "source": "*fp32", "n": "i32", "stride": "i32", "factor": "fp32"}
needs_nvdisasm = pytest.mark.skipif(tools.find("nvdisasm") is None, reason="nvdisasm is missing")


@pytest.fixture(scope="module")
def functions(tmp_path_factory, import_text):
    pytest.importorskip("triton")
    return import_text(tmp_path_factory.mktemp("triton") / "jit_functions.py", SOURCE)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))


@pytest.fixture
def kernel(functions):
    return from_triton(functions.scale, TYPES, {"BLOCK": 512})


def line(text):
    return next(i for i, s in enumerate(SOURCE.split("\n"), 1) if text in s)


def test_what_is_no_jit_function(functions):
    with pytest.raises(pa.KernelSourceError, match=r"decorate it with @triton\.jit"):
        from_triton(functions.plain, {})
    with pytest.raises(pa.KernelSourceError, match=r"pass the function itself, kernel\.fn"):
        from_triton(functions.tuned, {"x": "*fp32"})


@needs_nvdisasm
def test_both_ends_in_one_comparison(functions):
    """Numbers below 0 are not below 1000 as unsigned numbers.

    1000 floats are 125 sectors, and two blocks share three more.
    """
    kernel = from_triton(functions.padded, {"target": "*fp32", "source": "*fp32"}, {"BLOCK": 256})
    prediction = pa.predict(kernel, pa.Launch(4, 128), "A100-SXM4-40GB")
    assert [a.text for a in prediction.assumptions if a.stands_for] == []
    assert prediction.volumes.l2_load.parts["compulsory"] == 128 * 32


@needs_nvdisasm
def test_data_in_addresses_are_executed(functions):
    """Each of 2^20 numbers is in another sector, so that 32 bytes are loaded for each."""
    import numpy as np

    types = {"target": "*fp32", "source": "*fp32", "index": "*i32"}
    kernel = from_triton(functions.gather, types, {"BLOCK": 256})
    places = np.random.default_rng(0).permutation(1 << 17).astype(np.int32) * 8
    args = {"index": pa.Buffer(data=places), "source": pa.Buffer(1 << 20, "float32")}
    prediction = pa.predict(kernel, pa.Launch(1 << 9, 128, args), "A100-SXM4-40GB")
    assert prediction.confidence != "guessed"
    loaded = (1 << 17) * (32 + 4)
    assert prediction.volumes.l2_load.total == pytest.approx(loaded, rel=0.01)


@pytest.mark.parametrize(
    ("types", "constants", "message"),
    [
        ({**TYPES, "sorce": "*fp32"}, {"BLOCK": 64}, "no parameter 'sorce'; did you mean 'source'"),
        (TYPES, {}, "parameter 'BLOCK' of 'scale' needs a value in constexprs"),
        ({}, ["BLOCK"], "constexprs must be a mapping, not"),
        ({}, {"BLOCK": 64}, "parameter 'target' of 'scale' needs a type in the signature"),
        ({**TYPES, "n": 32}, {"BLOCK": 64}, "the type of 'n' must be text, not 32"),
        ("*fp32", {}, "must map names to types"),
    ],
)
def test_signature_that_is_not_the_functions(functions, types, constants, message):
    with pytest.raises(pa.KernelSourceError, match=message):
        from_triton(functions.scale, types, constants)


@pytest.mark.parametrize("wrong", [{"num_warps": 0}, {"num_warps": None}, {"num_stages": True}])
def test_counts(functions, wrong):
    with pytest.raises(pa.KernelSourceError, match="must be an integer from 1 to"):
        from_triton(functions.scale, TYPES, {"BLOCK": 512}, **wrong)


def test_trip_counts(functions):
    with pytest.raises(pa.KernelError, match="must be at least 0, not -1"):
        from_triton(functions.scale, TYPES, {"BLOCK": 512}, trip_counts={"a.py:3": -1})


def test_errors_of_the_compiler_have_place_and_reason(functions):
    kernel = from_triton(functions.broken, {"x": "*fp32"})
    with pytest.raises(pa.KernelSourceError) as caught:
        pa.predict(kernel, pa.Launch(1, 128), "A100-SXM4-40GB")
    place = f"jit_functions.py:{line('tl.store(x, inner(1))')}:"
    assert place in str(caught.value)
    assert "nothing_of_that_name" in str(caught.value)


@needs_nvdisasm
@pytest.mark.parametrize("block", [64, 256, (64, 2)])
def test_block_that_triton_would_not_start(kernel, block):
    launch = pa.Launch(16, block, {"n": 8192, "stride": 2})
    with pytest.raises(pa.LaunchError, match=r"use block=128, not .*, or another num_warps"):
        pa.predict(kernel, launch, "A100-SXM4-40GB")


@needs_nvdisasm
def test_binary(kernel, functions):
    binary = kernel.compiled.binary("sm_80", {"stride": 2})
    shown = [(p.name, p.size, p.pointer, p.dtype) for p in binary.parameters[:5]]
    assert shown == [
        ("target", 8, True, "float"), ("source", 8, True, "float"), ("n", 4, False, "int"),
        ("stride", 4, False, "int"), ("factor", 4, False, "float"),
    ]  # fmt: skip
    assert all(p.pointer and "scratch" in p.name for p in binary.parameters[5:])
    assert binary.kernel == "scale"
    assert binary.registers > 0
    assert binary.files == {functions.__file__: SOURCE}
    assert kernel.compiled.binary("sm_80", {"stride": 2}) is binary


@needs_nvdisasm
def test_a_stride_of_one_is_a_constant_as_in_a_launch(kernel):
    """Then the loads are contiguous, and Triton makes them wide."""
    by_position = pa.Launch(16, 128, (None, None, 8192, 1))
    for launch in (by_position, pa.Launch(16, 128, {"n": 8192, "stride": 1})):
        binary = kernel.compiled.binary("sm_80", {"n": 8192, "stride": 1})
        assert "stride" not in [p.name for p in binary.parameters]
        assert "LDG.E.128" in binary.listing
        assert pa.predict(kernel, launch, "A100-SXM4-40GB").resources.instructions > 0
    unaligned = {"n": 8192, "stride": 1, "source": pa.Buffer((8192,), "float32", 4)}
    assert "LDG.E.128" not in kernel.compiled.binary("sm_80", unaligned).listing


@needs_nvdisasm
def test_attributes_of_ones_own(functions):
    kernel = from_triton(functions.scale, TYPES, {"BLOCK": 512}, attrs={})
    binary = kernel.compiled.binary("sm_80", {"n": 8192, "stride": 1})
    assert "stride" in [p.name for p in binary.parameters]
    assert ".128" not in binary.listing


@needs_nvdisasm
def test_too_many_arguments(kernel):
    with pytest.raises(pa.LaunchError, match="whose parameters are: target, source, n"):
        pa.predict(kernel, pa.Launch(16, 128, range(9)), "A100-SXM4-40GB")


@needs_nvdisasm
def test_accesses_are_those_of_the_python_text(kernel):
    launch = pa.Launch(16, 128, {"n": 8192, "stride": 2})
    bound, _ = kernel.compiled.bind(launch, "sm_80", 32)
    places = {(a.field, a.span.line) for a in bound.bound}
    assert places == {("source", line("tl.load(source")), ("target", line("tl.store(target"))}


@needs_nvdisasm
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_offsets_that_wrap_around_have_one_address(functions, arch):
    """Behind the last block ``height`` is negative: there, quotients are not rounded alike."""
    types = {"target": "*fp32", "source": "*fp32", "m": "i32", "n": "i32"}
    tiles = from_triton(functions.grouped, types, {"BLOCK": 128})
    program = describe(tiles.compiled.binary(arch, {"m": 2048, "n": 2048}))
    assert [a.text for a in program.assumptions] == []


@needs_nvdisasm
@pytest.mark.parametrize("device", ["A100-SXM4-40GB", "H100-SXM5-80GB"])
def test_functions_of_gluon(functions, device):
    """Rows in, columns out, each of 128 bytes: what is read and written once, through a tile."""
    if version("triton").startswith("3.4."):
        pytest.skip("Triton 3.4 compiles no Gluon function without a GPU")
    from triton.experimental.gluon import language as gl

    rows = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    columns = gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])
    types = {"target": "*fp32", "source": "*fp32", "n": "i32"}
    constants = {"TILE": 32, "rows": rows, "columns": columns}
    kernel = from_triton(functions.transposed, types, constants)
    prediction = pa.predict(kernel, pa.Launch(64, 128, {"n": 2048}), device)
    moved = 64 * 32 * 32 * 4
    assert float(prediction.volumes.l2_load.total) == moved
    assert float(prediction.volumes.l2_store.total) == moved
    assert [a.text for a in prediction.assumptions if a.stands_for] == []
