import argparse
import json
import platform
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.cli.sources import compilation_of
from perfassert.sensitivity import sensitivity
from perfassert.version import VERSION

pytestmark = pytest.mark.exhaustive(one_in=2)


def test_devices(capsys):
    assert main(["devices"]) == 0
    assert "A100-SXM4-40GB" in capsys.readouterr().out.splitlines()
    assert main(["devices", "--json"]) == 0
    assert "V100-PCIE-32GB" in json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def data_of_a100():
    """Return the output of ``perfassert devices a100 --json``, which predicts examples many
    times."""
    with redirect_stdout(StringIO()) as printed:
        assert main(["devices", "a100", "--json"]) == 0
    return json.loads(printed.getvalue())


def test_one_device_shows_where_values_come_from(capsys, data_of_a100, monkeypatch):
    monkeypatch.setattr(sensitivity, "sensitivities", lambda *_: ())  # which the data have
    assert main(["devices", "a100"]) == 0
    out = capsys.readouterr().out
    assert "A100-SXM4-40GB (sm_80)" in out
    assert "measured" in out
    assert data_of_a100["values"]["compute_units"]["value"] == 108


@pytest.mark.parametrize("arguments", [[], ["no-such"], ["devices", "b100x"]])
def test_usage_errors(capsys, arguments):
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_help_and_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("perfassert ")
    assert main(["--help"]) == 0


def test_every_command_has_help(capsys):
    """A lone percent sign in a default made an internal error of it."""
    assert main(["--help"]) == 0
    commands = re.findall(r"^    ([a-z]+)\b", capsys.readouterr().out, re.M)
    assert len(commands) > 15
    for command in commands:
        assert main([command, "--help"]) == 0
        assert f"perfassert {command}" in capsys.readouterr().out


def test_internal_errors_are_told_apart(capsys, monkeypatch):
    monkeypatch.setattr("perfassert.hardware.load.devices", lambda: 1 / 0)
    assert main(["devices"]) == 3
    assert "internal error: ZeroDivisionError" in capsys.readouterr().err


def failing(*_):
    secret = "my secret kernel"
    try:
        raise KeyError(secret)
    except KeyError as error:
        raise ZeroDivisionError(f"of {secret}") from error


@pytest.mark.parametrize("debug", ["", "--debug", "PERFASSERT_DEBUG"])
def test_an_internal_error_says_what_to_report(capsys, monkeypatch, debug, tmp_path):
    monkeypatch.setattr("perfassert.hardware.load.device", failing)
    monkeypatch.setenv("PERFASSERT_DEBUG", "1" if debug.startswith("PERF") else "0")
    words = [debug] if debug.startswith("--") else []
    assert main([*words, "devices", str(tmp_path / "secret-device.toml"), "--toml"]) == 3
    said = capsys.readouterr().err
    for wanted in ("internal error: ZeroDivisionError", f"perfassert {VERSION}", "Please report",
                   "command: perfassert", "devices ….toml --toml", platform.python_version(),
                   platform.machine()):  # fmt: skip
        assert wanted in said
    assert ("secret" in said) == bool(debug)
    assert debug or re.search(
        r"  perfassert/cli/devices.py:\d+ in \w+\n  …/test_cli.py:\d+\n", said
    )
    assert debug or "KeyError\n  which led to\n" in said
    assert (str(Path.home()) + "/" in said) <= bool(debug)


def test_a_device_as_one_file(tmp_path, capsys):
    assert main(["devices", "rtx-3090", "--toml"]) == 0
    path = tmp_path / "copy.toml"
    path.write_text(capsys.readouterr().out)
    assert pa.device(path) == pa.device("rtx-3090")
    assert main(["devices", "--toml"]) == 2
    assert "--toml needs the name" in capsys.readouterr().err


def test_which_assumed_values_matter(data_of_a100):
    shown = data_of_a100["assumed"]
    assert {"key": "values.launch_overhead", "change": None, "kernel": None} in shown
    changes = [one["change"] or 0 for one in shown]
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > 0
    assert shown[0]["kernel"]


def test_explain_says_the_same_as_data(capsys):
    """Costs of accesses and what the launch has to assume are in the text and in JSON."""
    listing = Path(__file__).parents[1] / "frontends" / "fixtures" / "saxpy.sass"
    launch = ["--grid", "4096", "--block", "256", "--arg", "n=1048576"]
    asked = ["explain", str(listing), "--device", "a100", *launch]
    assert main(asked) == 0
    text = capsys.readouterr().out
    assert main([*asked, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert all(assumed in text for assumed in data["assumptions"])
    assert data["assumptions"] or "Assumptions" not in text
    touched = [a for line in data["lines"] for a in line["accesses"] if "global" in a["kind"]]
    assert touched
    assert all(a["wavefronts"] > 0 and a["sectors"] > 0 for a in touched)
    assert main([*asked[:4], "--json"]) == 0
    without = json.loads(capsys.readouterr().out)["lines"]
    assert {a["sectors"] for line in without for a in line["accesses"]} == {None}


@pytest.mark.parametrize(("said", "value"), [("N", "1"), ("N=", ""), ("N=a=b", "a=b")])
def test_macros_as_compilers_have_them(said, value):
    options = argparse.Namespace(define=[said], include_dir=[], option=[], toolchain=None)
    assert compilation_of(options) == {"defines": {"N": value}}


def test_a_front_end_is_told_only_what_it_takes(capsys):
    listing = Path(__file__).parents[1] / "frontends" / "fixtures" / "saxpy.sass"
    asked = ["explain", str(listing), "--device", "a100"]
    assert main([*asked, "-D", "N=2"]) == 2
    assert "--define: the front end of .sass files takes none" in capsys.readouterr().err
    assert main([*asked, "--trip-count", "a.cu:3=4"]) == 0


def test_a_grid_that_cuda_does_not_launch(tmp_path, capsys):
    source = tmp_path / "k.cu"
    source.write_text("__global__ void k(int* a) { a[threadIdx.x] = 1; }")
    words = ["predict", str(source), "--device", "a100", "--block", "32"]
    assert main([*words, "--grid", "1,70000"]) == 2
    said = capsys.readouterr().err
    assert "the grid has 70000 blocks in y; CUDA launches at most 65535" in said


@pytest.mark.parametrize(
    ("measured", "code", "shown"),
    [
        ("1 us", 1, "impossible"),
        ("1 us", 1, "L2 to hold none of its data"),
        ("12 us", 0, "times the speed of light"),
        ("10 us", 0, "within its error band"),
        ("1 s", 0, "outside of its error band"),
    ],
)
def test_a_measured_time_is_judged(capsys, measured, code, shown):
    listing = Path(__file__).parents[1] / "frontends" / "fixtures" / "saxpy.sass"
    asked = ["predict", str(listing), "--device", "a100", "--grid", "4096", "--block", "256",
             "--arg", f"n={1 << 20}", "--measured", measured]  # fmt: skip
    assert main(asked) == code
    assert shown in capsys.readouterr().out
    assert main([*asked, "--json"]) == code
    verdict = json.loads(capsys.readouterr().out)["measured"]["verdict"]
    assert verdict == ("impossible" if code else "plausible")


@pytest.mark.parametrize("measured", ["3 B", "0 us", "-1 us", "fast", "12"])
def test_what_is_no_measured_time(capsys, measured):
    listing = Path(__file__).parents[1] / "frontends" / "fixtures" / "saxpy.sass"
    asked = ["predict", str(listing), "--device", "a100", "--grid", "4096", "--block", "256",
             "--arg", f"n={1 << 20}", f"--measured={measured}"]  # fmt: skip
    assert main(asked) == 2
