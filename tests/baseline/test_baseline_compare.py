"""Tolerances, verdicts, components."""

import pytest

import perfassert as pa
from perfassert.baseline.compare import (
    MetricRow,
    Verdict,
    compare,
    differences,
    failure_text,
    foreign,
    other_model,
)
from perfassert.baseline.components import Change, components
from perfassert.baseline.entry import BaselineKey, entry_of
from perfassert.baseline.tolerance import GROUPS, Margin, members, parse, tolerances
from perfassert.expect.metrics import METRICS

N = 1 << 20
KEY = BaselineKey("test_copy", "default", "A100-SXM4-40GB")


def entry(loads=("a[x]",), block=256, **more):
    fields = [pa.Field(n, shape=(N,), halo=1) for n in "abc"]
    kernel = pa.Kernel.from_accesses("copy", fields, list(loads), ["b[x]"], **more)
    return entry_of(pa.predict(kernel, pa.Launch.cover(N, block), "a100"))


OLD = entry()


@pytest.mark.parametrize(
    ("metric", "text", "above", "below"),
    [
        ("time", "2 %", Margin(0.02), Margin(0.02)),
        ("time", "2%", Margin(0.02), Margin(0.02)),
        ("time", "± 2 %", Margin(0.02), Margin(0.02)),
        ("time", "2 % or 1 us", Margin(0.02, 1e-6), Margin(0.02, 1e-6)),
        ("time", "1 µs or 2 %", Margin(0.02, 1e-6), Margin(0.02, 1e-6)),
        ("time", "+2 % -100 %", Margin(0.02), Margin(1.0)),
        ("time", "-100 % +2 % or 1 us", Margin(0.02, 1e-6), Margin(1.0)),
        ("time", "+1e-2 us -1 %", Margin(0, 1e-8), Margin(0.01)),
        ("time", "0", Margin(), Margin()),
        ("time", 0, Margin(), Margin()),
        ("registers", "2", Margin(0, 2), Margin(0, 2)),
        ("dram_load", "1 kB", Margin(0, 1000), Margin(0, 1000)),
    ],
)
def test_tolerances_are_read(metric, text, above, below):
    found = parse(METRICS[metric], text)
    assert (found.above.share, found.above.absolute) == pytest.approx((above.share, above.absolute))
    assert (found.below.share, found.below.absolute) == pytest.approx((below.share, below.absolute))


@pytest.mark.parametrize(
    ("metric", "text", "message"),
    [
        ("time", "2", "should be a percentage or have the unit 's'"),
        ("time", "2 B", "should be a percentage or have the unit 's'"),
        ("time", "1 us/update", "should be a percentage or have the unit 's'"),
        ("registers", "2 B", "should be a percentage or have no unit"),
        ("time", "+2 %", "give both sides"),
        ("time", "+2 % +3 %", "give both sides"),
        ("time", "two percent", "is not a number"),
        ("time", "2 % or", "is not a number"),
        ("time", "", "give a string such as '2 %'"),
        ("time", 0.02, "give a string such as '2 %'"),
        ("time", True, "give a string such as '2 %'"),
        ("time", "± -2 %", "has no sign of its own"),
        ("limiter", "2 %", "it can only be 'same'"),
    ],
)
def test_tolerances_without_meaning(metric, text, message):
    with pytest.raises(pa.ExpectationError, match=f"tolerance of {metric}") as caught:
        parse(METRICS[metric], text)
    assert message in str(caught.value)


def test_groups_and_their_metrics():
    wanted, named = tolerances("2 %", {"all": "9 %", "dram": "1 %", "dram_load": "3 %"})
    assert (wanted["time"].text, wanted["cycles"].text) == ("2 %", "9 %")
    assert (wanted["dram_load"].text, wanted["dram_store"].text) == ("3 %", "1 %")
    assert named == {"dram_load"}
    assert "limiter" not in wanted
    assert tolerances(None, {"volumes": "1 %", "l2": None})[0].keys() == {
        m for m in members("volumes") if not m.startswith("l2")
    }
    assert all(m in METRICS for group in GROUPS for m in members(group))
    with pytest.raises(pa.ExpectationError, match="did you mean 'volumes'"):
        tolerances("2 %", {"volume": "1 %"})


@pytest.mark.parametrize(
    ("before", "after", "text", "verdict"),
    [
        (100, 100.00000001, "0", Verdict.SAME),
        (100, 102, "2 %", Verdict.WITHIN),
        (100, 102.1, "2 %", Verdict.REGRESSED),
        (100, 97.9, "2 %", Verdict.IMPROVED),
        (100, 98, "2 %", Verdict.WITHIN),
        (100, 50, "+2 % -100 %", Verdict.WITHIN),
        (100, 105, "+2 % or 5 -100 %", Verdict.WITHIN),
        (0, 8, "2 %", Verdict.REGRESSED),
        (8, 0, "2 %", Verdict.IMPROVED),
    ],
)
def test_verdicts(before, after, text, verdict):
    wanted = {"registers": parse(METRICS["registers"], text)}
    found = compare(KEY, {"registers": before}, {"registers": after}, wanted)
    assert found.rows[0].verdict is verdict


def test_more_occupancy_is_better():
    wanted = {"occupancy": parse(METRICS["occupancy"], "1 %")}
    (more,) = compare(KEY, {"occupancy": 0.5}, {"occupancy": 0.75}, wanted).rows
    (less,) = compare(KEY, {"occupancy": 0.75}, {"occupancy": 0.5}, wanted).rows
    assert (more.verdict, less.verdict) == (Verdict.IMPROVED, Verdict.REGRESSED)
    assert str(less) == "occupancy 75.0 % → 50.0 % (-33.3 %)"


def test_metrics_that_one_side_lacks():
    wanted, named = tolerances("2 %", {"spill_bytes": "0"})
    with pytest.raises(pa.ExpectationError, match="cannot have it"):
        compare(KEY, OLD, OLD, wanted, named)
    assert [row.metric for row in compare(KEY, OLD, OLD, wanted).rows] == ["time"]
    with pytest.raises(pa.BaselineError, match="has no spill_bytes"):
        compare(KEY, OLD, {**OLD, "spill_bytes": 0}, wanted, named)


def test_nothing_differs_from_itself():
    assert components(OLD, OLD) == ()


def test_components_name_field_and_part():
    new = entry(loads=["a[x]", "c[x]"], registers=80)
    found = {c.name: c for c in components(OLD, new)}
    part = found["dram_load of c: compulsory"]
    assert (part.before, part.after, part.relative_change) == (0, 8 * N, None)
    assert str(part) == "dram_load of c: compulsory 0 B → 8.389 MB"
    assert str(found["registers"]) == "registers 32 → 80 (+150.0 %)"
    assert str(found["occupancy limited by"]) == "occupancy limited by warps → registers"
    assert found["occupancy"].relative_change == pytest.approx(new["occupancy"] - 1)
    assert not {"time", "cycles", "dram load", "kernel digest", "grid"} & found.keys()


def test_a_launch_is_a_component():
    assert {str(c) for c in components(OLD, entry(block=(64, 2)))} > {
        "block 256×1×1 → 64×2×1",
        "grid 4096×1×1 → 16384×1×1",
    }


def test_the_message_of_a_regression():
    new = entry(loads=["a[x]", "c[x]"])
    wanted, _ = tolerances("2 %", {"dram_load": "1 %", "dram_store": "1 %"})
    found = compare(KEY, OLD, new, wanted)
    parts = failure_text(found, "the cause", "pytest --perf-update x").split("\n\n")
    headline, why, table, differing, step = parts
    assert why == "the cause"
    assert headline.startswith("time is ")
    assert "; dram_load is 16.78 MB, +100.0 % to the baseline 8.389 MB (allowed: 1 %) (" in headline
    assert [row.split()[0] for row in table.splitlines()[2:]] == [
        "time", "dram_load", "dram_store",
    ]  # fmt: skip
    assert differing.splitlines()[0] == "what differs (the kernel has changed):"
    assert differing.splitlines()[1].split() == "component baseline predicted difference".split()
    assert "dram_load of c: compulsory  0 B         8.389 MB" in differing
    assert step == "pytest --perf-update x"


def test_the_message_of_an_improvement():
    larger = entry(loads=["a[x]", "c[x]"])
    wanted, _ = tolerances("2 %", {"dram_load": "+1 % -10 %"})
    comparison = compare(KEY, larger, OLD, wanted)
    headline, why, table, *_ = failure_text(comparison, "why", "accept it").split("\n\n")
    assert (
        "; dram_load is 8.389 MB, 50.0 % better than the baseline 16.78 MB (allowed: +1" in headline
    )
    assert [row.split()[-1] for row in table.splitlines()[2:]] == ["improved", "improved"]
    assert why == "why"


def test_the_table_of_differences_is_short():
    new = entry(loads=["a[x]", "c[x]", "a[x+1]"], registers=80, block=96, flops=100)
    tolerance = tolerances("2 %", {})[0]
    *_, table, _ = failure_text(compare(KEY, OLD, new, tolerance), "", "").split("\n\n")
    _title, _header, _rule, *rows, more = table.splitlines()
    assert len(rows) == 8
    assert more == f"… and {len(differences(OLD, new)) - 8} more"
    same = failure_text(compare(KEY, OLD, OLD, tolerance), "", "").split("\n\n")[-2]
    assert same == "what differs (the kernel is the same): no component"


def test_counts_have_prefixes():
    assert Change(("l1_wavefronts",), 1572864, 50320128).values == ("1.573 M", "50.32 M")
    assert Change(("registers",), 63, 67).values == ("63", "67")


def test_other_models_and_device_files():
    assert foreign(KEY, OLD, OLD) == ""
    other = {**OLD, "model_version": "0"}
    assert foreign(KEY, other, OLD) == other_model(KEY, OLD, OLD) == ""
    assert "version 0 of the model" in other_model(KEY, other, OLD)
    other["device_digest"] = "x"
    assert "another device file of A100-SXM4-40GB" in other_model(KEY, other, OLD)
    assert "A100-SXM4-40GB has changed" in foreign(KEY, {**OLD, "device_digest": "x"}, OLD)


def test_predictions_read_from_a_file_can_be_kept():
    fields = [pa.Field("a", shape=(N,))]
    kernel = pa.Kernel.from_accesses("copy", fields, ["a[x]"])
    made = pa.predict(kernel, pa.Launch.cover(N, 256), "a100")
    read = entry_of(pa.Prediction.from_dict(made.to_dict()))
    assert read == {**entry_of(made), "kernel_digest": "unknown"}


@pytest.mark.parametrize(
    ("factor", "shown"),
    [(1.0204, "+2.04 %"), (1.02001, "+2.001 %"), (1.03, "+3.0 %"), (20.0, "20 times")],
)
def test_a_regression_is_told_from_its_tolerance(factor, shown):
    allowed = tolerances("2 %", {})[0]["time"]
    row = MetricRow(Change(("time",), 1e-5, 1e-5 * factor), allowed, Verdict.REGRESSED)
    assert row.cells()[3] == shown
