"""``perfassert whatif``: the changes of ``pa.whatif`` in the words of the command line."""

import json
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.cli.whatif import changes_of

LISTING = Path(pa.__file__).parent / "sensitivity/saxpy.sass"
N = 1 << 18
LAUNCH = ("--device", "a100", "--domain", str(N), "--block", "256", "--arg", f"n={N}")
LAUNCHES = f"""
schema = 1
[recorded]
device = "a100"
[kernels.saxpy]
cubin = "{LISTING.name}"
[[launch]]
kernel = "saxpy"
grid = [1024]
block = [256]
args = {{ n = {N} }}
[[launch]]
kernel = "saxpy"
grid = [4]
block = [256]
args = {{ n = 1024 }}
"""


@pytest.fixture(scope="module")
def before():
    launch = pa.Launch.cover(N, 256, {"n": N})
    return pa.predict(pa.from_cubin(LISTING), launch, "a100")


def whatif(*options):
    return main(["whatif", str(LISTING), *LAUNCH, *options])


def test_the_table_is_that_of_python(before, capsys):
    assert whatif("--change", "dram_bandwidth=2", "--change", "latency.dram=0.5") == 0
    heading, *table = str(pa.whatif(before, dram_bandwidth=2, latency={"dram": 0.5})).splitlines()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"what if dram_bandwidth=2, latency.dram=0.5: {heading.rpartition(': ')[2]}"
    assert shown[1 : 1 + len(table)] == table
    assert shown[-1].startswith("confidence: ")


@pytest.mark.parametrize(
    ("texts", "changes"),
    [
        (["clock_hz=0.5"], {"clock_hz": 0.5}),
        (["registers=128", "l2_bandwidth=1.5"], {"registers": 128, "l2_bandwidth": 1.5}),
        (["block=128"], {"block": 128}),
        (["block=32,4", "grid=2048,2"], {"block": (32, 4), "grid": (2048, 2)}),
        (["latency.imad=3,9"], {"latency": {"imad": pa.Latency(3, 9)}}),
        (["latency.l1=2", "latency.dram=0.5"], {"latency": {"l1": 2, "dram": 0.5}}),
        (["args.n=1024"], {"args": {"n": 1024}}),
    ],
    ids=str,
)
def test_changes(before, capsys, texts, changes):
    assert whatif("--json", *(word for text in texts for word in ("--change", text))) == 0
    data = json.loads(capsys.readouterr().out)
    expected = pa.whatif(before, **changes)
    assert pa.Prediction.from_dict(data["before"]).time == before.time
    assert pa.Prediction.from_dict(data["after"]).volumes == expected.after.volumes
    assert data["after"]["time"] == float(expected.after.time)
    assert data["speedup"] == pytest.approx(expected.speedup)
    assert data["changes"] == ", ".join(texts)
    assert [d["metric"] for d in data["differences"]] == [
        line.partition("  ")[0] for line in str(expected).splitlines()[3:]
    ]


def test_arguments_that_are_not_changed_stay():
    """Arguments that are not named keep their values; in Python ``args`` replaces all of them."""
    launch = pa.Launch(1, 32, {"a": 2.0, "n": 5, "box": {"low": 1, "high": 9}})
    changes = changes_of(["args.n=7", "args.box.high=8", "flops=2"], launch)
    assert changes == {"flops": 2, "args": {"a": 2.0, "n": 7, "box": {"low": 1, "high": 8}}}
    with pytest.raises(pa.LaunchError, match="arguments by position"):
        changes_of(["args.n=7"], pa.Launch(1, 32, (5,)))


def test_every_launch_of_a_file(tmp_path, capsys):
    (tmp_path / LISTING.name).write_bytes(LISTING.read_bytes())
    path = tmp_path / "launches.toml"
    path.write_text(LAUNCHES)
    arguments = ["whatif", "--launches", str(path), "--change", "dram_bandwidth=2"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "saxpy: what if dram_bandwidth=2: " in text
    assert "saxpy#2: what if dram_bandwidth=2: " in text
    assert main([*arguments, "--json"]) == 0
    labels = [each["label"] for each in json.loads(capsys.readouterr().out)["launches"]]
    assert labels == ["saxpy", "saxpy#2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--change is missing"),
        (
            ("--change", "dram_bandwith=2"),
            "--change: what if has no parameter 'dram_bandwith'; did",
        ),
        (("--change", "clock_hz"), "--change: 'clock_hz' is not of the form NAME=VALUE"),
        (("--change", "clock_hz=1410e6"), "--change: clock_hz: 1410000000 is no factor"),
        (("--change", "latency.imda=2"), "--change: latency: no operation class 'imda'; did you"),
        (("--change", "latency.imad=0,4"), "--change: issue latency must be above 0"),
        (("--change", "grid=1,70000"), "the grid has 70000 blocks in y; CUDA launches at most"),
        (("--change", "args.m=3"), "has no parameter 'm'"),
    ],
)
def test_changes_without_meaning(capsys, options, message):
    assert whatif(*options) == 2
    assert message in capsys.readouterr().err
