"""Tests of :func:`from_pystencils` on generated kernels and on assignments; the two agree."""

import os
import random
from math import prod

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.exhaustive(one_in=4)

A100 = "A100-SXM4-40GB"
SIZE = (128, 64, 96)
METRICS = ("dram_load", "dram_store", "l2_load", "l2_store", "l1_wavefronts")
BLOCKS = [(32, 4, 1), (64, 2, 2), (16, 4, 4), (8, 8, 8), (128, 1, 2), (256, 1, 1), (16, 16, 1)]


@pytest.fixture(scope="module")
def ps():
    return pytest.importorskip("pystencils")


@pytest.fixture(scope="module")
def create(ps):
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        pytest.skip("the toolchain is not installed")
    config = ps.CreateKernelConfig(target=ps.Target.CUDA)
    return lambda assignments: ps.create_kernel(assignments, config)


def stencil(ps, seed):
    """A sum of up to 12 random neighbours, at most three away; its interior, and a block."""
    draw = random.Random(seed)
    dtype = draw.choice(["float32", "float64"])
    extents = ",".join(map(str, SIZE))
    src, dst = ps.fields(f"src, dst: {dtype}[{extents}]", layout="fzyx")
    reach = draw.randint(0, 3)
    offsets = {tuple(draw.randint(-reach, reach) for _ in SIZE) for _ in range(draw.randint(1, 12))}
    ghosts = max(abs(o) for offset in offsets for o in offset)
    total = sum(src[offset] for offset in sorted(offsets))
    interior = tuple(n - 2 * ghosts for n in SIZE)
    return [ps.Assignment(dst[0, 0, 0], total)], interior, draw.choice(BLOCKS)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("seed", range(int(os.environ.get("PERFASSERT_STENCILS", "10"))))
def test_expressions_and_code_have_the_same_volumes(ps, create, seed):
    assignments, interior, block = stencil(ps, seed)
    launch = pa.Launch.cover(interior, block)
    compiled = pa.predict(pa.from_pystencils(create(assignments)), launch, A100)
    registers = compiled.resources.registers
    described = pa.predict(pa.from_pystencils(assignments, registers=registers), launch, A100)
    for metric in METRICS:
        pair = (getattr(p.volumes, metric).total for p in (described, compiled))
        assert next(pair) == pytest.approx(next(pair), rel=0.01), metric


@pytest.mark.parametrize("fields", ["f({0}), g({0}): float64[34,34,34]"])
@pytest.mark.parametrize("layout", ["fzyx", "zyxf"])
def test_an_index_beside_the_position(ps, create, fields, layout):
    """A thread moves two numbers, which are neighbours or a whole field apart, by the layout."""
    f, g = ps.fields(fields.format(3), layout=layout)
    moves = [ps.Assignment(g.center(i), f[o](i)) for i, o in enumerate([(1, 0, 0), (0, -1, 0)])]
    launch = pa.Launch.cover((32, 32, 32), (32, 4, 1))
    compiled = pa.predict(pa.from_pystencils(create(moves)), launch, A100)
    described = pa.predict(pa.from_pystencils(moves, registers=16), launch, A100)
    for metric in METRICS[2:]:
        pair = (getattr(p.volumes, metric).total for p in (described, compiled))
        assert next(pair) == pytest.approx(next(pair), rel=0.01), metric


@pytest.fixture
def scaled(ps, create):
    src, dst = ps.fields("src, dst: float32[3D]", layout="fzyx")
    alpha = ps.TypedSymbol("alpha", "float32")
    return pa.from_pystencils(create([ps.Assignment(dst[0, 0, 0], alpha * src[1, 0, 0])]))


def test_fields_are_arguments(scaled):
    """Odd places: the 32 numbers of a warp lie in five sectors of 32 bytes, never in four."""
    args = {"src": (130, 66, 66), "dst": (130, 66, 66), "alpha": 0.5}
    launch = pa.Launch((5, 17, 66), (32, 4, 1), args)
    bound, _ = scaled.bind(launch, "sm_80", 32)
    assert {a.field for a in bound.bound} == {"src", "dst"}
    volumes = pa.predict(scaled, launch, A100).volumes
    assert volumes.l2_store.total == pytest.approx(128 * 64 * 64 * 5, rel=0.01)
    spelled = scaled.spell_out(launch)
    assert [spelled.args[f"dst.strides[{i}]"] for i in range(3)] == [1, 130, 130 * 66]
    assert scaled.spell_out(spelled).args == spelled.args


def test_a_stride_of_its_own(scaled):
    """Rows that are padded to 256 elements."""
    shapes = {"src": (130, 66, 66), "dst": (130, 66, 66), "alpha": 0.5}
    launch = pa.Launch((4, 16, 64), (32, 4, 1), {**shapes, "src.strides[1]": 256})
    assert scaled.spell_out(launch).args["src.strides[1]"] == 256


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"src": (3, 4)}, "'src' of 'kernel' has 3 dimensions"),
        ({"srd": (3, 4, 5)}, "no parameter 'srd'"),
        ({}, r"needs its argument '\w+\.(shape|strides)\[\d\]'"),
    ],
)
def test_arguments_that_do_not_fit(scaled, args, message):
    with pytest.raises(pa.LaunchError, match=message):
        pa.predict(scaled, pa.Launch(1, 32, args), A100)


@pytest.mark.parametrize("fold", [(1, 1, 2), (1, 4), (2,), (2, 2, 2)])
def test_points_that_one_thread_makes(ps, fold):
    """Folding leaves bytes and operations unchanged, in fewer threads."""
    src, dst = ps.fields("src, dst: float32[66,66,66]", layout="fzyx")
    step = ps.Assignment(dst[0, 0, 0], src[1, 0, 0] + 2 * src[0, -1, 1])
    launch = pa.Launch.cover((64, 64, 64), (32, 4, 2))
    plain = pa.predict(pa.from_pystencils(step), launch, A100)
    inner = tuple(64 // n for n in (*fold, 1, 1)[:3])
    kernel = pa.from_pystencils(step, fold=fold)
    folded = pa.predict(kernel, pa.Launch.cover(inner, (8, 4, 2)), A100)
    assert kernel.updates_per_thread == prod(fold)
    assert kernel.flops == 2 * prod(fold)
    stored, before = folded.volumes.dram_store, plain.volumes.dram_store
    assert stored.updates == before.updates == 64**3
    assert stored.parts["compulsory"] == before.parts["compulsory"]
    loaded = plain.volumes.dram_load.total
    assert folded.volumes.dram_load.total == pytest.approx(loaded, rel=0.05)


@pytest.mark.parametrize("fold", [(0,), (1, 1, 1, 1), (), (1.5,)])
def test_folds_that_are_none(ps, create, fold):
    src, dst = ps.fields("src, dst: float32[66,66,66]", layout="fzyx")
    step = ps.Assignment(dst[0, 0, 0], src[1, 0, 0])
    with pytest.raises(pa.KernelSourceError, match="integers above 0"):
        pa.from_pystencils(step, fold=fold)
    with pytest.raises(pa.KernelSourceError, match="generated code makes one point per thread"):
        pa.from_pystencils(create([step]), fold=(2,))


def test_what_it_refuses(ps):
    src, dst = ps.fields("src, dst: float32[3D]")
    index, fixed = ps.fields("index, fixed: float32[8,8,8]")
    (other,) = [ps.fields("other: float32[9,8,8]")]
    for given, message in [
        (3, "neither a kernel of pystencils nor assignments"),
        ([], "neither a kernel of pystencils nor assignments"),
        (ps.Assignment(dst[0, 0, 0], src[0, 0, 0]), "the shape of dst, src is not fixed"),
        (ps.Assignment(ps.TypedSymbol("a", "float32"), fixed[0, 0, 0]), "store to no field"),
        (ps.Assignment(index[0, 0, 0], other[0, 0, 0]), "fields of several shapes"),
    ]:
        with pytest.raises(pa.KernelSourceError, match=message):
            pa.from_pystencils(given)


def test_a_kernel_of_a_cpu(ps):
    src, dst = ps.fields("src, dst: float32[3D]")
    kernel = ps.create_kernel(ps.Assignment(dst[0, 0, 0], src[0, 0, 0]))
    with pytest.raises(pa.KernelSourceError, match=r"kernel of a CPU.*Target\.CUDA"):
        pa.from_pystencils(kernel)
