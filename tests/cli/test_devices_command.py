"""``perfassert devices --compare``: two device files side by side."""

import json

import perfassert as pa
from perfassert.cli.main import main


def test_where_two_devices_differ(capsys):
    assert main(["devices", "--compare", "h100", "b200"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line.split() for line in lines if line.startswith("compute_units"))
    assert row == ["compute_units", "132", "148", "1.12", "measured", "measured"]
    assert not any(line.startswith("warp_size") for line in lines)
    assert lines[-1].endswith("numbers are equal")


def test_as_json(capsys):
    assert main(["devices", "--compare", "h100", "b200", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["devices"] == ["H100-SXM5-80GB", "B200"]
    assert found["values"]["values.warp_size"] == [32, 32]
    assert found["values"]["matrix.tcgen05.f16.f32"] == [None, 4096]


def test_a_device_with_itself(capsys):
    assert main(["devices", "--compare", "a100", "a100"]) == 0
    total = len([k for k in pa.device("a100").provenance if not k.startswith("curves.")])
    assert capsys.readouterr().out.splitlines()[-1] == f"{total} of {total} numbers are equal"


def test_a_name_beside_it(capsys):
    assert main(["devices", "a100", "--compare", "a100", "h100"]) == 2
    assert "--compare takes two devices" in capsys.readouterr().err
