from dataclasses import replace

import pytest
from star3d25pt import DOMAIN, star3d25pt

import perfassert as pa
from perfassert.source import Assumption

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


def test_claims_that_hold(ranking):
    ranking.expect(best=(8, 8, 16))
    ranking.expect(best=(8, 8, 16), best_in=[(1, 32, 32), (8, 8, 16)])
    ranking.expect(order=[(16, 2, 16), (256, 1, 4), (512, 1, 1), (1, 32, 32)])
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
        (([(16, 2, 2048)],), pa.LaunchError, "candidate 16×2×2048: the block"),
        (([(16, 0, 1)],), pa.LaunchError, "at least 1"),
    ],
)
def test_candidates_that_cannot_be_ranked(arguments, error, reason):
    with pytest.raises(error, match=reason):
        pa.rank(*arguments, "a100", kernel=star3d25pt(), domain=DOMAIN)


@pytest.mark.parametrize(
    ("predictor", "message"),
    [
        (None, "predictor must be a function, not None"),
        (lambda *_: 5, "the result of predictor must be a prediction, not 5"),
    ],
)
def test_a_predictor_returns_predictions(predictor, message):
    copy = pa.Kernel.from_accesses("copy", [pa.Field("a", shape=4096)], ["a[x]"])
    with pytest.raises(pa.RankingError, match=message):
        pa.rank([256], "a100", kernel=copy, domain=4096, predictor=predictor)


def test_a_prediction_is_compared_with_another():
    copy = pa.Kernel.from_accesses("copy", [pa.Field("a", shape=4096)], ["a[x]"])
    prediction = pa.predict(copy, pa.Launch(16, 256), "a100")
    with pytest.raises(pa.RankingError, match="must be a prediction, not 3"):
        prediction.probability_faster(3)


def test_missing_parts():
    with pytest.raises(pa.RankingError, match="needs kernel="):
        pa.rank(BLOCKS, "a100", domain=DOMAIN)
    with pytest.raises(pa.RankingError, match="needs domain="):
        pa.rank(BLOCKS, "a100", kernel=star3d25pt())
    with pytest.raises(pa.RankingError, match="bring kernel"):
        pa.rank({"a": (star3d25pt(), pa.Launch(1, 1))}, "a100", kernel=star3d25pt())
    with pytest.raises(pa.RankingError, match="must be"):
        pa.rank({"a": star3d25pt()}, "a100")


TIED, FIRST = (8, 8, 16), (16, 4, 16)
"""Two blocks of which the second is predicted to be 6 % faster, which is not sure enough."""


@pytest.fixture(scope="module")
def close():
    return pa.rank([TIED, FIRST, (512, 1, 1)], "a100", kernel=star3d25pt(), domain=DOMAIN)


def test_ties_may_both_be_best(close):
    assert close.tied_with_best() == (FIRST, TIED)
    assert "2 =" in close.table()
    close.expect(best=FIRST).expect(best=TIED)


@pytest.mark.parametrize("order", [[TIED, FIRST], [FIRST, TIED], [FIRST, TIED, (512, 1, 1)]])
def test_an_order_of_ties_is_undecided_either_way(close, order):
    with pytest.raises(pa.ExpectationFailed, match=r"is undecided \(\d+\.\d % sure, 90.0 % needed"):
        close.expect(order=order)
    close.expect(order=order, undecided="allow")


def test_an_order_and_its_reverse_do_not_both_hold():
    """16 % apart, and 29 %: both held, as did their reverses, within 30 %."""
    for first, second in (((16, 4, 16), (32, 2, 16)), ((256, 4, 1), (4, 256, 1))):
        ranking = pa.rank([first, second], "a100", kernel=star3d25pt(), domain=DOMAIN)
        if ranking.probability_faster(first, second) >= 0.9:
            ranking.expect(order=[first, second])
        for undecided in ("fail", "allow"):
            if ranking.probability_faster(second, first) <= 0.1:
                with pytest.raises(pa.ExpectationFailed, match="is slower than"):
                    ranking.expect(order=[second, first], undecided=undecided)


def test_a_contradicted_pair_fails_although_undecided_ones_are_allowed(close):
    with pytest.raises(pa.ExpectationFailed, match="512×1×1 is slower than"):
        close.expect(order=[(512, 1, 1), FIRST, TIED], undecided="allow")


def test_less_confidence_decides_more():
    blocks = {"candidates": [TIED, FIRST], "kernel": star3d25pt(), "domain": DOMAIN}
    pa.rank(blocks.pop("candidates"), "a100", **blocks, confidence=0.65).expect(order=[FIRST, TIED])


@pytest.mark.parametrize("confidence", [0.5, 1, 2, -1, "0.9", None])
def test_senseless_confidence(confidence):
    with pytest.raises(pa.RankingError, match="confidence"):
        pa.rank(BLOCKS[:2], "a100", kernel=star3d25pt(), domain=DOMAIN, confidence=confidence)


def test_undecided_is_fail_or_allow(close):
    with pytest.raises(pa.ExpectationError, match="'fail' or 'allow'"):
        close.expect(best=FIRST, undecided="skip")


def test_a_guess_is_not_the_best():
    one, two = (
        pa.predict(star3d25pt(), pa.Launch.cover(DOMAIN, block), "a100") for block in (TIED, FIRST)
    )
    reason = Assumption("a trip count is assumed")
    guess = replace(one, confidence="guessed", confidence_reasons=(reason,))
    ranking = pa.Ranking((("a", guess), ("b", two)))
    with pytest.raises(pa.ExpectationFailed, match="what differs is guessed"):
        ranking.expect(best="b")
    with pytest.raises(pa.ExpectationFailed, match="what differs is guessed"):
        ranking.expect(order=["a", "b"])
    ranking.expect(best="b", order=["a", "b"], undecided="allow")


def test_what_is_printed_fits_a_terminal():
    many = {
        str(size): (star3d25pt(), pa.Launch.cover(DOMAIN, (size, 1, 1)))
        for size in range(32, 1024, 32)
    }
    ranking = pa.rank(many, "a100")
    assert len(str(ranking).splitlines()) <= 24
    assert max(map(len, str(ranking).splitlines())) <= 100
    assert "… and 11 more" in str(ranking)
    assert len(repr(ranking)) < 100


def test_candidates_share_one_state_of_the_devices_file(tmp_path):
    file = tmp_path / "mine.toml"

    def write(clock):
        file.write_text(
            f'schema = 1\nname = "mine"\nextends = "A100-SXM4-40GB"\n[sources]\ns = "s"\n'
            f'[values.clock_hz]\nvalue = {clock}\nunit = "GHz"\nsource = "s"\n'
            'grade = "documented"\n'
        )

    write(1)
    star, blocks = star3d25pt(), BLOCKS[-2:]
    launches = [pa.Launch.cover(DOMAIN, block) for block in blocks]
    expected = {pa.predict(star, launch, str(file)).question for launch in launches}

    def predict_and_edit(*question):
        prediction = pa.predict(*question)
        write(2)
        return prediction

    ranking = pa.rank(blocks, str(file), kernel=star, domain=DOMAIN, predictor=predict_and_edit)
    assert {p.question for _, p in ranking.entries} == expected
