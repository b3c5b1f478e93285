"""Suites whose launches were recorded: found by program, name, template arguments and shape."""

import csv
from dataclasses import replace

import numpy as np
import pytest

import perfassert as pa
from perfassert.errors import SuiteError
from perfassert.lab.validation.data import read_rows
from perfassert.lab.validation.read import read_suite
from perfassert.lab.validation.recorded import template_arguments
from perfassert.lab.validation.report import text
from perfassert.lab.validation.run import validate

SUITE = """
data = "measured.csv"
[device]
name = "a100"
[kernel]
recorded = "{program}.toml"
named = "function"
[launch]
grid = ["grid_x", 1, 1]
block = "block_x"
[[metric]]
name = "time"
column = "us"
unit = "us"
"""
RECORDED = """
schema = 1
[kernels.copy]
accesses.fields = [{ name = "a", shape = 1048576 }, { name = "b", shape = 1048576 }]
accesses.loads = ["b[x]"]
accesses.stores = ["a[x]"]
[[launch]]
kernel = "copy"
grid = [4096, 1, 1]
block = [256, 1, 1]
[[launch]]
kernel = "copy"
grid = [8192, 1, 1]
block = [128, 1, 1]
"""


def validated(folder, *rows):
    (folder / "suite.toml").write_text(SUITE)
    (recordings := folder / "recordings").mkdir()
    (recordings / "copies.toml").write_text(RECORDED)
    with (folder / "measured.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("program", "function", "grid_x", "block_x", "us"), *rows])
    suite = read_suite(folder / "suite.toml", recordings)
    return validate(suite, read_rows(suite))


def test_a_row_is_the_recorded_launch_of_its_shape(tmp_path):
    name = "void copy(const float *, float *)"
    found = validated(
        tmp_path, ("copies", name, 4096, 256, 10), ("copies", name, 8192, 128, 10)
    ).metric("time")
    fields = [pa.Field(n, shape=1 << 20) for n in "ab"]
    kernel = pa.Kernel.from_accesses("copy", fields, ["b[x]"], ["a[x]"])
    wanted = [
        float(pa.predict(kernel, pa.Launch(grid, block), "a100").time)
        for grid, block in ((4096, 256), (8192, 128))
    ]
    assert list(found.predicted) == wanted
    assert wanted[0] != wanted[1]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (("others", "copy", 4096, 256, 10), "there is no recording"),
        (("copies", "scale", 4096, 256, 10), "no launch of 'scale' was recorded"),
        (("copies", "copy", 4096, 128, 10), "was not launched as grid, block"),
        (("copies", "copy<3>", 4096, 256, 10), "other template arguments"),
        (("copies", "copy(const double4 *)", 4096, 256, 10), "built for another precision"),
    ],
)
def test_what_was_not_recorded_says_so(tmp_path, row, why):
    ((_, reason),) = validated(tmp_path, row).failures
    assert why in reason


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("f(int)", ()),
        ("void f<1, float>(T1 *)", ("1", "float")),
        ("f<true, float>(float*)", ("1", "float")),
        ("f<(int)256, Map<int, 4u>, 8ul>(int)", ("256", "Map<int, 4u>", "8")),
        ("space<int>::f<2>(int)", ("2",)),
        ("_Z1fILi7EEvPf", ("7",)),
    ],
)
def test_template_arguments_are_compared_as_profilers_and_compilers_write_them(name, arguments):
    assert template_arguments(name) == arguments


def test_a_kernel_has_one_way(tmp_path):
    path = tmp_path / "suite.toml"
    path.write_text(SUITE.replace("[kernel]\n", '[kernel]\ncuda = "a.cu"\n'))
    with pytest.raises(SuiteError, match=r"give accesses .*, cuda .* or recorded"):
        read_suite(path)


def test_guesses_are_counted_apart(tmp_path):
    """Of three rows off by more than 2, one is a guess; of the three known rows, one is within
    1.25."""
    found = validated(tmp_path, *[("copies", "copy", 4096, 256, 10)] * 4)
    assert "not guessed" not in str(text(found))
    (metric,) = found.metrics
    ratios = np.array([1.1, 0.3, 3.0, 3.0])
    kinds = (*metric.kinds[:3], None)
    bands = np.array([0.2, 0.8, 0.2, 0.2])
    changed = replace(metric, predicted=ratios * metric.measured, kinds=kinds, bands=bands)
    lines = str(text(replace(found, metrics=(changed,)))).splitlines()
    (rest,) = (line.split() for line in lines if line.startswith("not guessed"))
    assert rest[2:] == ["3", "75.0", "%", "70.0", "%", "174.0", "%", "3.33×", *["33.3", "%"] * 3,
                        "66.7", "%"]  # fmt: skip
    assert "3 rows off by more than 2×, 1 of them said to be guesses" in lines


ALL = SUITE.replace('named = "function"', 'launches = "all"').replace(
    '[launch]\ngrid = ["grid_x", 1, 1]\nblock = "block_x"\n', ""
)


def validated_as_a_whole(folder, recorded, suite=ALL):
    (folder / "suite.toml").write_text(suite)
    (recordings := folder / "recordings").mkdir()
    (recordings / "copies.toml").write_text(recorded)
    (folder / "measured.csv").write_text("program,us\ncopies,10\nothers,10\n")
    suite = read_suite(folder / "suite.toml", recordings)
    return validate(suite, read_rows(suite))


def test_a_row_may_stand_for_all_launches_of_a_recording(tmp_path):
    """Times and volumes are added, each launch as often as it happens."""
    volume = '[[metric]]\nname = "dram_volume"\ncolumn = "us"\nunit = "B"\n'
    often = RECORDED + "count = 3\n"
    found = validated_as_a_whole(tmp_path, often, ALL + volume)
    fields = [pa.Field(n, shape=1 << 20) for n in "ab"]
    kernel = pa.Kernel.from_accesses("copy", fields, ["b[x]"], ["a[x]"])
    first, second = (
        pa.predict(kernel, pa.Launch(grid, block), "a100")
        for grid, block in ((4096, 256), (8192, 128))
    )
    (time,) = found.metric("time").predicted
    assert time == pytest.approx(float(first.time) + 3 * float(second.time))
    (dram,) = found.metric("dram_volume").predicted
    volumes = [p.volumes.dram_load.total + p.volumes.dram_store.total for p in (first, second)]
    assert dram == pytest.approx(float(volumes[0]) + 3 * float(volumes[1]))
    ((line, reason),) = found.failures
    assert line == 3
    assert "there is no recording" in reason


def test_an_occupancy_is_not_added(tmp_path):
    occupancy = '[[metric]]\nname = "occupancy"\ncolumn = "us"\n'
    found = validated_as_a_whole(tmp_path, RECORDED, ALL + occupancy)
    assert "cannot be added over several launches" in found.metric("occupancy").failures[0][1]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ('"all"', '"first"', r"must be \"all\""),
        ('launches = "all"', 'launches = "all"\nnamed = "us"', "named: does not go with"),
        ("[[metric]]", "[launch]\nblock = 32\n[[metric]]", "launch: does not go with"),
        ('recorded = "{program}.toml"', "accesses = {}", "launches: goes with recorded"),
    ],
)
def test_all_launches_stand_alone(before, after, why, tmp_path):
    path = tmp_path / "suite.toml"
    path.write_text(ALL.replace(before, after, 1))
    with pytest.raises(SuiteError, match=why):
        read_suite(path)
