"""``predict --launches`` and ``advise --launches``: tables, JSON, what does not go together."""

import json
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.cli.main import main

LISTING = Path(pa.__file__).parent / "sensitivity/saxpy.sass"
TWO = """
schema = 1
[recorded]
device = "a100"
[kernels.saxpy]
cubin = "saxpy.sass"
[[launch]]
kernel = "saxpy"
count = 3
grid = [1024]
block = [256]
args = { n = 262144 }
[[launch]]
kernel = "saxpy"
grid = [4]
block = [256]
args = { n = 1024 }
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "saxpy.sass").write_bytes((LISTING).read_bytes())
    (tmp_path / "launches.toml").write_text(TWO)
    return str(tmp_path / "launches.toml")


def predicted(blocks):
    kernel = pa.from_cubin(LISTING)
    return pa.predict(kernel, pa.Launch(blocks, 256, {"n": 256 * blocks}), "a100").time


def test_the_table(path, capsys):
    assert main(["predict", "--launches", path]) == 0
    text = capsys.readouterr().out
    first, second = (line.split() for line in text.splitlines() if line.startswith("saxpy"))
    assert first[:2] == ["saxpy", "3"]
    assert second[:2] == ["saxpy#2", "1"]
    total = pa.Quantity(3 * predicted(1024) + predicted(4), "s")
    assert f"4 launches, {total} of kernels in all" in text


def test_json(path, capsys):
    assert main(["predict", "--launches", path, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["launches"]
    assert (first["label"], first["count"], first["error"]) == ("saxpy", 3, "")
    assert pa.Prediction.from_dict(second["prediction"]).time == predicted(4)


def test_one_of_them_as_usual(path, capsys):
    assert (
        main(["predict", "--launches", path, "--kernel", "saxpy#2", "--device", "a100-80gb"]) == 0
    )
    assert capsys.readouterr().out.startswith("saxpy on A100-SXM4-80GB: grid 4×1×1")


def test_a_source_takes_the_place_of_the_code(path, capsys):
    assert main(["predict", str(LISTING), "--launches", path, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["launches"]) == 2


def test_advice_for_each(path, capsys):
    assert main(["advise", "--launches", path, "--json"]) == 0
    assert [a["label"] for a in json.loads(capsys.readouterr().out)["launches"]] == [
        "saxpy", "saxpy#2",
    ]  # fmt: skip


def test_advice_is_ranked_by_share_of_time(path, capsys):
    assert main(["advise", "--launches", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["launches"]
    shares = [one["share"] for one in found]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1)
    assert main(["advise", "--launches", path]) == 0
    assert f"{found[0]['label']}: " in capsys.readouterr().out.split(" of the time of all")[0]


def test_one_that_cannot_be_predicted_is_shown_beside_the_others(path, capsys):
    text = (
        Path(path)
        .read_text()
        .replace(
            "block = [256]\nargs = { n = 1024",
            "block = [256]\nshared_bytes = 500000\nargs = { n = 1024",
        )
    )
    Path(path).write_text(text)
    assert main(["predict", "--launches", path]) == 1
    out = capsys.readouterr().out
    assert "saxpy#2: no prediction: " in out
    assert "3 launches" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--grid", "4"], "--grid: --launches already says it"),
        (["--trip-count", "k.cu:3=7"], "--trip-count: is about a source"),
        (["--define", "N=4"], "--define: is about a source"),
        (["--kernel", "axpi"], "did you mean 'saxpy'"),
    ],
)
def test_what_does_not_go_together(path, options, message, capsys):
    assert main(["predict", "--launches", path, *options]) == 2
    assert message in capsys.readouterr().err


def test_what_is_missing(capsys):
    source = str(LISTING)
    assert main(["predict", source, "--device", "a100", "--grid", "1"]) == 2
    assert "--block is missing; give it, or --launches FILE" in capsys.readouterr().err
