"""The key of a device file that is a word: which warp a scheduler prefers."""

import pytest

import perfassert as pa
from perfassert.engines.pipeline.simulate import SCHEDULERS
from perfassert.hardware.entries import Grade
from perfassert.hardware.schema import CHOICES
from perfassert.hardware.write import device_toml

ROUND_ROBIN, GREEDY = "loose-round-robin", "greedy-then-oldest"


def extended(tmp_path, entry, base="a100"):
    path = tmp_path / "Mine.toml"
    path.write_text(
        f'schema = 1\nname = "Mine"\nextends = "{base}"\n[sources]\nbench = "my benchmark"\n'
        f"[values]\n{entry}\n"
    )
    return path


def test_choices_are_those_of_the_simulator():
    assert set(CHOICES["warp_scheduler"]) == set(SCHEDULERS)


@pytest.mark.parametrize(
    ("name", "scheduler"),
    [("C2050", ROUND_ROBIN), ("GTX-1060-6GB", ROUND_ROBIN), ("V100-PCIE-32GB", GREEDY),
     ("RTX-2080-Ti", GREEDY), ("a100", GREEDY), ("L40", GREEDY), ("h200", GREEDY),
     ("B200", GREEDY)],
)  # fmt: skip
def test_shipped_devices_say_it_with_source_and_grade(name, scheduler):
    device = pa.device(name)
    assert device.warp_scheduler == scheduler
    origin = device.provenance["values.warp_scheduler"]
    assert origin.source
    assert origin.grade in (Grade.DOCUMENTED, Grade.ASSUMED)


def test_a_file_may_say_it(tmp_path):
    entry = f'warp_scheduler = {{ value = "{ROUND_ROBIN}", source = "bench", grade = "measured" }}'
    device = pa.device(extended(tmp_path, entry))
    assert device.warp_scheduler == ROUND_ROBIN
    assert device.provenance["values.warp_scheduler"].source == "my benchmark"
    assert device.digest != pa.device(extended(tmp_path, "")).digest


def test_a_file_without_it_has_what_it_extends(tmp_path):
    device = pa.device(extended(tmp_path, "", "C2050"))
    assert device.warp_scheduler == ROUND_ROBIN
    assert device.provenance["values.warp_scheduler"].note.startswith("as C2050")


def test_a_complete_file_without_it_is_greedy(tmp_path):
    lines = device_toml(pa.device("C2050")).splitlines()
    path = tmp_path / "Old.toml"
    path.write_text("\n".join(x for x in lines if not x.startswith("warp_scheduler")))
    assert pa.device(path).warp_scheduler == GREEDY
    assert pa.device(path).provenance["values.warp_scheduler"].grade is Grade.ASSUMED


def test_the_text_of_a_device_has_it(tmp_path):
    path = tmp_path / "C2050.toml"
    path.write_text(device_toml(pa.device("C2050")))
    assert pa.device(path).warp_scheduler == ROUND_ROBIN


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('warp_scheduler = "loose-round-robin"', r"must be \{ value, source, grade \}"),
        ('warp_scheduler = { value = "fifo", source = "bench", grade = "measured" }',
         "must be one of: greedy-then-oldest, loose-round-robin; not 'fifo'"),
        (f'warp_scheduler = {{ value = "{GREEDY}", grade = "measured" }}', "source: missing"),
        (f'warp_scheduler = {{ value = "{GREEDY}", unit = "B" }}', "unit: is none"),
    ],
)  # fmt: skip
def test_what_a_file_may_not_say(tmp_path, entry, reason):
    with pytest.raises(pa.DeviceFileError, match=reason):
        pa.device(extended(tmp_path, entry))


def test_replace_takes_it_and_checks_it():
    device = pa.device("a100").replace(warp_scheduler=ROUND_ROBIN)
    assert device.warp_scheduler == ROUND_ROBIN
    assert device.digest != pa.device("a100").digest
    with pytest.raises(pa.DeviceFileError, match="warp_scheduler: must be one of"):
        device.replace(warp_scheduler="fifo")
    with pytest.raises(pa.DeviceFileError, match="warp_scheduler"):
        device.replace(warp_scheduler=1)
