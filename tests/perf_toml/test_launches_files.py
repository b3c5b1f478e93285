"""Launches files: read, chosen from, refused with their place; in ``*.perf.toml`` and pytest."""

from pathlib import Path

import numpy as np
import pytest

import perfassert as pa
from perfassert.perf_toml.launches import choose_launches, of_kernel

LISTINGS = {
    "gather": Path(__file__).parents[1] / "listings/gather.sass",
    "saxpy": Path(pa.__file__).parent / "sensitivity/saxpy.sass",
}
FILE = """
schema = 1
[recorded]
by = "perfassert 0.2.0"
command = ["./app"]
device = "A100-SXM4-40GB"
launches = 4

[kernels.gather]
cubin = "gather.sass"
name = "gather"
parameters = ["from", "at", "to", "count"]
[kernels.saxpy]
cubin = "saxpy.sass"
name = "saxpy"

[[launch]]
kernel = "gather"
grid = [64, 1, 1]
block = [256, 1, 1]
[launch.args]
from = { shape = 65536, dtype = "float32" }
at = { data = "launches.npz:indices" }
to = { alias = "from", offset = 4096 }
count = 16384

[[launch]]
kernel = "saxpy"
count = 2
grid = [4, 1, 1]
block = [256, 1, 1]
args = { n = 1024 }

[[launch]]
kernel = "gather"
grid = [1, 1, 1]
block = [256, 1, 1]
shared_bytes = 128
args = { from = "null", count = 256 }
"""
INDICES = (np.arange(16384, dtype=np.int32) * 7) % 65536


@pytest.fixture
def folder(tmp_path):
    for name in ("gather", "saxpy"):
        (tmp_path / f"{name}.sass").write_bytes(LISTINGS[name].read_bytes())
    np.savez(tmp_path / "launches.npz", indices=INDICES)
    (tmp_path / "launches.toml").write_text(FILE)
    return tmp_path


@pytest.fixture
def entries(folder):
    return pa.launches(folder / "launches.toml")


def test_what_is_read(entries):
    assert [e.label for e in entries] == ["gather", "saxpy", "gather#2"]
    assert [e.count for e in entries] == [1, 2, 1]
    assert {e.device for e in entries} == {"A100-SXM4-40GB"}
    first, second, third = (e.launch for e in entries)
    assert first.args["at"].data.tolist() == INDICES.tolist()
    assert first.args["from"] == pa.Buffer(65536, "float32")
    assert first.args["to"] == pa.Buffer(alias="from", offset=4096)
    assert (second.grid, second.block, dict(second.args)) == ((4, 1, 1), (256, 1, 1), {"n": 1024})
    assert (third.shared_bytes, third.args["from"]) == (128, None)


def test_predictions_are_those_of_the_launches(entries):
    for entry, name in zip(entries, ("gather", "saxpy"), strict=False):
        args = dict(entry.launch.args)
        if name == "gather":
            args = {"table": args["from"], "index": args["at"], "n": args["count"],
                    "out": pa.Buffer(alias="table", offset=4096)}  # fmt: skip
        same = pa.Launch(entry.launch.grid, entry.launch.block, args)
        expected = pa.predict(pa.from_cubin(LISTINGS[name]), same, "a100")
        assert pa.predict(entry.kernel, entry.launch, "a100").time == expected.time


def test_choosing(entries):
    assert [e.label for e in choose_launches(entries, "gather")] == ["gather", "gather#2"]
    assert [e.label for e in choose_launches(entries, "gather#2")] == ["gather#2"]
    assert len(choose_launches(entries, None)) == 3
    with pytest.raises(pa.RecordError, match="'gatter'.*did you mean 'gather'"):
        choose_launches(entries, "gatter")
    own = pa.from_cubin(LISTINGS["saxpy"], "saxpy")
    (replaced,) = of_kernel(entries, own)
    assert replaced.kernel is own
    assert replaced.launch == entries[1].launch


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema = 1", "schema = 2", "launches.toml:2: schema: must be 1"),
        ("schema = 1", "", "schema: must be 1"),
        ("count = 2", "count = 0", "launch[1].count: must be an integer above 0"),
        ('kernel = "saxpy"', 'kernel = "saxpi"', "no kernel 'saxpi'; did you mean 'saxpy'"),
        ('cubin = "saxpy.sass"', 'cubin = "no.sass"', "kernels.saxpy.cubin: there is no file"),
        ("launches.npz:indices", "launches.npz:none", "indices; name one behind"),
        ("launches.npz:indices", "other.npz:indices", "no file 'other.npz'; did you mean"),
        ("grid = [4, 1, 1]", "grid = [0, 1, 1]", "grid must be at least 1"),
        ("grid = [4, 1, 1]", "", "launch[1]: give domain"),
        ("args = { n = 1024 }", "argz = { n = 1024 }", "launch[1].argz: unknown key"),
        ("[recorded]", "[recoded]", "recoded: unknown key; did you mean 'recorded'"),
        ('"from", "at", "to", "count"', '"from", "at"', "has 4, not 2"),
        ('"from", "at", "to", "count"', '"a", "a", "b", "c"', "must be names"),
    ],
)
def test_what_cannot_be_used(folder, old, new, message):
    path = folder / "launches.toml"
    assert old in FILE
    path.write_text(FILE.replace(old, new, 1))
    with pytest.raises(pa.PerfAssertError) as error:
        predict_all(path)
    assert message in str(error.value)


def predict_all(path):
    for entry in pa.launches(path):
        pa.predict(entry.kernel, entry.launch, "a100")


def test_a_file_without_launches(tmp_path):
    path = tmp_path / "launches.toml"
    path.write_text("schema = 1\n")
    with pytest.raises(pa.RecordError, match="there is no launch"):
        pa.launches(path)
    with pytest.raises(pa.RecordError, match="cannot be read"):
        pa.launches(tmp_path / "nothing.toml")


def test_the_fixture_predicts_all_of_them(folder, pytester):
    for file in folder.iterdir():
        (pytester.path / file.name).write_bytes(file.read_bytes())
    pytester.makepyfile(
        """
        import perfassert as pa
        import pytest

        def test_all(perf):
            first, second, third = perf(launches="launches.toml", allow_guesses=True)
            assert (first.grid, second.grid) == ((64, 1, 1), (4, 1, 1))
            (only,) = perf("saxpy", launches="launches.toml")
            assert only.time == second.time
            own = pa.from_cubin("saxpy.sass", "saxpy")
            assert perf(own, launches="launches.toml")[0].time == second.time

        def test_twice(perf):
            with pytest.raises(pa.LaunchError, match="already says"):
                perf(launches="launches.toml", block=256)
            with pytest.raises(pa.LaunchError, match="give the kernel"):
                perf()
        """
    )
    pytester.makefile(
        ".perf.toml",
        app="""
        [[test]]
        name = "all"
        launches = "launches.toml"
        allow_guesses = true
        expect = { spill_bytes = 0 }
        [[test]]
        name = "one"
        kernel = "saxpy"
        launches = "launches.toml"
        expect = { spill_bytes = "> 0 B" }
        [[test]]
        name = "own"
        kernel = { cubin = "saxpy.sass", name = "saxpy" }
        launches = "launches.toml"
        expect = { spill_bytes = 0 }
        """,
    )
    result = pytester.runpytest("--perf-device", "a100", "-v")
    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines_random(
        [
            "*all[[]A100*-gather#2]*PASSED*",
            "*one[[]A100*-saxpy]*FAILED*",
            "*own[[]A100*-saxpy]*PASSED*",
        ]
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('launch = { grid = 1, block = 32 }\nlaunches = "launches.toml"', "does not go with"),
        ('launches = "no.toml"', "cannot be read"),
        ('kernel = "saxpi"\nlaunches = "launches.toml"', "did you mean 'saxpy'"),
    ],
)
def test_perf_files_that_cannot_use_them(folder, more, message):
    from perfassert.perf_toml.read import read_perf_file

    path = folder / "app.perf.toml"
    path.write_text(f'[[test]]\nname = "all"\nexpect = {{ spill_bytes = 0 }}\n{more}\n')
    with pytest.raises(pa.PerfFileError, match=message):
        read_perf_file(path)
