import json

import pytest

from perfassert.cli.main import main


def test_devices(capsys):
    assert main(["devices"]) == 0
    assert "A100-SXM4-40GB" in capsys.readouterr().out.splitlines()
    assert main(["devices", "--json"]) == 0
    assert "V100-PCIE-32GB" in json.loads(capsys.readouterr().out)


def test_one_device_shows_where_values_come_from(capsys):
    assert main(["devices", "a100"]) == 0
    out = capsys.readouterr().out
    assert "A100-SXM4-40GB (sm_80)" in out
    assert "measured" in out
    assert main(["devices", "a100", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["values"]["compute_units"]["value"] == 108


@pytest.mark.parametrize("arguments", [[], ["no-such"], ["devices", "b100x"]])
def test_usage_errors(capsys, arguments):
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_help_and_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("perfassert ")
    assert main(["--help"]) == 0


def test_internal_errors_are_told_apart(capsys, monkeypatch):
    monkeypatch.setattr("perfassert.hardware.load.devices", lambda: 1 / 0)
    assert main(["devices"]) == 3
    assert "internal error: ZeroDivisionError" in capsys.readouterr().err
