import pytest
from star3d25pt import DOMAIN, star3d25pt

import perfassert as pa

BLOCKS = [(1, 32, 32), (16, 2, 16), (256, 1, 4), (512, 1, 1), (8, 8, 16)]


@pytest.fixture(scope="module")
def ranking():
    return pa.rank(BLOCKS, "a100", kernel=star3d25pt(), domain=DOMAIN)


def test_order(ranking):
    assert ranking.best in {(16, 2, 16), (8, 8, 16)}
    assert ranking.position((1, 32, 32)) == len(BLOCKS)
    times = [p.time for _, p in ranking.entries]
    assert times == sorted(times)
    assert ranking.table().count("\n") == len(BLOCKS) + 1
    assert "2 =" in ranking.table()


def test_claims_that_hold(ranking):
    ranking.expect(best=(8, 8, 16))  # tied with 16×2×16 within the band
    ranking.expect(best=(8, 8, 16), best_in=[(1, 32, 32), (16, 2, 16)])
    ranking.expect(order=[(16, 2, 16), (256, 1, 4), (512, 1, 1), (1, 32, 32)])
    ranking.expect(order=[(16, 2, 16), (8, 8, 16)]).expect(order=[(8, 8, 16), (16, 2, 16)])
    ranking.expect(within="100 %", of=(256, 1, 4))
    ranking.expect(within=1.0, of=(256, 1, 4))


@pytest.mark.parametrize(
    ("claim", "headline"),
    [
        ({"best": (512, 1, 1)}, "best is {best}, expected 512×1×1 (place {place}, "),
        (
            {"best_in": [(512, 1, 1), (1, 32, 32)]},
            "best is {best}, expected 512×1×1 or 1×32×32 (place {place}, ",
        ),
        ({"order": [(512, 1, 1), (16, 2, 16)]}, "512×1×1 is slower than 16×2×16"),
        (
            {"within": "5 %", "of": (256, 1, 4)},
            " % slower than the best, {best}, expected at most 5.0 %",
        ),
    ],
)
def test_claims_that_fail(ranking, claim, headline):
    with pytest.raises(pa.ExpectationFailed) as caught:
        ranking.expect(**claim)
    first, *rest = str(caught.value).splitlines()
    best = "×".join(map(str, ranking.best))
    assert headline.format(best=best, place=ranking.position((512, 1, 1))) in first
    assert "place" in rest[1]


@pytest.mark.parametrize(
    ("claim", "error"),
    [
        ({}, pa.ExpectationError),
        ({"within": "5 %"}, pa.ExpectationError),
        ({"best_in": []}, pa.ExpectationError),
        ({"order": []}, pa.ExpectationError),
        ({"order": [(256, 1, 4), (256, 1, 4)]}, pa.ExpectationError),
        ({"within": "5 us", "of": (256, 1, 4)}, pa.ExpectationError),
        ({"within": "5", "of": (256, 1, 4)}, pa.ExpectationError),
        ({"within": "-5 %", "of": (256, 1, 4)}, pa.ExpectationError),
        ({"within": "a bit", "of": (256, 1, 4)}, pa.ExpectationError),
        ({"best": (7, 7, 7)}, pa.RankingError),
        ({"best": "fast one"}, pa.RankingError),
        ({"best": "16"}, pa.RankingError),
    ],
)
def test_senseless_claims(ranking, claim, error):
    with pytest.raises(error):
        ranking.expect(**claim)


def test_variants_compete():
    variants = {
        block: (star3d25pt(), pa.Launch.cover(DOMAIN, size))
        for block, size in (("deep", (16, 2, 32)), ("flat", (32, 32, 1)))
    }
    ranking = pa.rank(variants, "a100")
    assert ranking.best == "deep"
    ranking.expect(best="deep", order=["deep", "flat"])


def test_labels_may_be_anything():
    variants = {
        ("tile", size): (star3d25pt(), pa.Launch.cover(DOMAIN, (32, size, 4))) for size in (2, 8)
    }
    ranking = pa.rank(variants, "a100")
    assert {ranking.position(("tile", 2)), ranking.position(("tile", 8))} == {1, 2}
    assert "tile" in ranking.table()


def test_launches_compete():
    launches = [pa.Launch.cover(DOMAIN, b) for b in BLOCKS[:2]]
    assert pa.rank(launches, "a100", kernel=star3d25pt()).best == launches[1]


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        (([],), pa.RankingError, "no candidate"),
        (([(16, 2, 16), (16, 2, 16)],), pa.RankingError, "occurs twice"),
        (([(16, 2, 2048)],), pa.LaunchError, "candidate 16×2×2048: a block"),
        (([(16, 0, 1)],), pa.LaunchError, "at least 1"),
    ],
)
def test_candidates_that_cannot_be_ranked(arguments, error, reason):
    with pytest.raises(error, match=reason):
        pa.rank(*arguments, "a100", kernel=star3d25pt(), domain=DOMAIN)


def test_missing_parts():
    with pytest.raises(pa.RankingError, match="needs kernel="):
        pa.rank(BLOCKS, "a100", domain=DOMAIN)
    with pytest.raises(pa.RankingError, match="needs domain="):
        pa.rank(BLOCKS, "a100", kernel=star3d25pt())
    with pytest.raises(pa.RankingError, match="bring kernel"):
        pa.rank({"a": (star3d25pt(), pa.Launch(1, 1))}, "a100", kernel=star3d25pt())
    with pytest.raises(pa.RankingError, match="must be"):
        pa.rank({"a": star3d25pt()}, "a100")
