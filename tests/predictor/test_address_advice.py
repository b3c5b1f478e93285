"""Advice for kernels by address expressions is what the changed kernel is predicted to gain."""

import pytest
from address_pairs import DEVICE, PAIRS, SIDE, N, copied, cover, plane, row, structures

import perfassert as pa
from perfassert.predictor.rewrites.rewritten_accesses import neighbours, rewrite

BY_ADDRESSES = {
    "Coalescing", "Memory Transaction Reduction", "Block Shape", "Block Increase",
    "Thread Increase", "Occupancy Increase",
}  # fmt: skip


def gained(prediction, optimizer):
    return max((a.speedup for a in prediction.advice if a.optimizer == optimizer), default=1.0)


@pytest.mark.parametrize("name", PAIRS)
def test_before_and_after(name):
    optimizer = name.partition(" (")[0]
    before, after = (make() for make in PAIRS[name])
    speedup, gain = gained(before, optimizer), float(before.time) / float(after.time)
    if optimizer in ("Block Increase", "Thread Increase"):  # sizes are doubled while that gains
        assert speedup >= gain
    else:
        assert speedup == pytest.approx(gain, rel=1e-6)
    assert gained(after, optimizer) < speedup
    assert {a.optimizer for a in before.advice} <= BY_ADDRESSES
    for advice in (*before.advice, *after.advice):
        assert advice.speedup > 1.02
        assert advice.context["estimate"] == "simulation"


def test_nothing_is_advised_where_nothing_helps():
    assert copied(["a[y, x]"], ["b[y, x]"], cover((256, 1))).advice == ()


def test_it_names_the_accesses():
    (advice,) = (a for a in structures("a[x, {}]", (N, 8)).advice if a.optimizer == "Coalescing")
    assert "32 sectors where 4 would do" in advice.suggestion
    assert "a[x, 0], a[x, 3], a[x, 5]" in advice.suggestion
    assert {h["def"] for h in advice.hotspots} <= {"a[x, 0]", "a[x, 3]", "a[x, 5]"}
    advice_again = pa.Prediction.from_dict(structures("a[x, {}]", (N, 8)).to_dict()).advice
    assert advice_again[0].suggestion == advice.suggestion


def test_what_depends_on_data_is_not_advised_on():
    fields = [*row(N), pa.Field("idx", "int32", (N,))]
    loads = ["idx[x]", "a[idx[x]]"]
    gather = pa.Kernel.from_accesses("gather", fields, loads, ["b[x]"], dtype="float32",
                                     assume={"idx[x]": "x * 31 % n"})  # fmt: skip
    assert pa.predict(gather, pa.Launch.cover(N, 256, {"n": N}), DEVICE).advice == ()


def test_another_access_of_the_field_stays():
    """``a`` is read along both axes: one of them goes through a copy that lies the other way."""
    both = copied(["a[y, x]", "a[x, y]"], ["b[y, x]"], cover((32, 8)))
    fields = [plane("a", "float32"), plane("c", "float32"), plane("b", "float32")]
    apart = copied(["a[y, x]", "c[y, x]"], ["b[y, x]"], cover((32, 8)), fields=fields)
    assert gained(both, "Coalescing") == pytest.approx(float(both.time) / float(apart.time))
    assert both.time > 1.03 * apart.time


@pytest.mark.parametrize(
    "subscript",
    ["[blockIdx.y * 8 + threadIdx.y, x]", "[y, blockIdx.x * 32 + threadIdx.x]"],
)
def test_a_block_whose_size_is_written_out_keeps_its_shape(subscript):
    p = copied([f"a{subscript}"], [f"b{subscript}"], pa.Launch((128, 512), (32, 8)))
    assert not {"Block Shape", "Thread Increase"} & {a.optimizer for a in p.advice}


def test_depths_are_shapes():
    shape = (256, 256, 256)
    fields = [pa.Field(name, "float64", shape, halo=4) for name in "ab"]
    loads = [f"a[z + {k}, y, x]" for k in range(-4, 5)]
    star = pa.Kernel.from_accesses("star", fields, loads, ["b[z, y, x]"], 18)
    flat = pa.predict(star, pa.Launch.cover(shape, (256, 1, 1)), DEVICE)
    (advice,) = (a for a in flat.advice if a.optimizer == "Block Shape")
    block = tuple(map(int, advice.suggestion.split()[2].split("×")))
    assert block[2] > 1
    deep = pa.predict(star, pa.Launch.cover(shape, block), DEVICE)
    assert advice.speedup == pytest.approx(float(flat.time) / float(deep.time), rel=1e-6)


def expressions(*loads, shape=(64,), dtype="float32", **field):
    fields = [pa.Field("a", dtype, shape, **field), pa.Field("b", "float32", (SIDE,))]
    return pa.Kernel.from_accesses("k", fields, loads, ["b[x]"], dtype="float32")


LAUNCH = pa.Launch(1, 8)


@pytest.mark.parametrize(
    ("kernel", "width"),
    [
        (expressions("a[4 * x]", "a[4 * x + 1]", "a[4 * x + 2]", "a[4 * x + 3]"), 4),
        (expressions("a[4 * x + 2]", "a[4 * x + 3]"), 2),
        (expressions("a[4 * x + 1]", "a[4 * x + 2]"), 1),  # not aligned
        (expressions("a[4 * x]", "a[4 * x + 1]", "a[4 * x + 2]"), 1),
        (expressions("a[3 * x]", "a[3 * x + 1]"), 1),
        (expressions("a[x]", "a[x + 1]"), 1),
        (expressions("a[4 * x]", "a[4 * x + 1]", dtype="complex128"), 1),  # as wide as can be
        (expressions("a[0, 2 * x]", "a[0, 2 * x + 1]", shape=(2, 32), pitch=33), 1),
        (expressions("a[2 * x]", "a[2 * x + 1]", halo=1), 1),
        (expressions("a[2 * x]", "a[2 * x + 1]", offset=4), 1),
    ],
)
def test_neighbours(kernel, width):
    """One access of ``width`` elements replaces as many neighbouring accesses, if aligned."""
    found = neighbours(kernel, LAUNCH)
    loads = range(len(kernel.loads))
    assert {found.get(n, 1) for n in loads} == {width}
    assert len(kernel.loads) not in found
    joined = rewrite(kernel, LAUNCH, joined=loads)
    assert len(joined.loads) == len(kernel.loads) // width
    if width > 1:
        assert joined.fields["a"].item_bytes == width * kernel.fields["a"].item_bytes
