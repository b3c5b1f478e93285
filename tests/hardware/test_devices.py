import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import perfassert as pa
from perfassert.hardware.entries import Grade
from perfassert.hardware.occupancy import occupancy
from perfassert.hardware.schema import VALUES

SHIPPED = [
    *("C2050", "GTX-1060-6GB", "RTX-2080-Ti", "V100-PCIE-32GB", "TITAN-V"),
    *("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIE-40GB", "A100-PCIE-80GB"),
    *("A40", "RTX-A6000", "RTX-A5000", "RTX-A4000", "RTX-3080", "RTX-3090", "RTX-4090", "L40"),
    *("H100-SXM5-80GB", "H100-PCIE-80GB", "H100-NVL", "H20", "H200", "GH200-480GB"),
    *("T4", "A10", "RTX-4080", "RTX-4070", "L4", "L40S"),
    *("B200", "GB200", "GB200-DIE"),
    *("RTX-5090", "RTX-5080", "RTX-5070", "RTX-PRO-6000-Blackwell"),
]
FILE = Path(__file__).parents[2] / "devices" / "A100-SXM4-40GB.toml"


def test_every_promised_device_is_shipped():
    assert pa.devices() == tuple(sorted(SHIPPED))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_devices_are_sourced(name):
    device = pa.device(name.upper())
    assert device.name == name
    assert {f"values.{key}" for key in VALUES} <= set(device.provenance)
    for key, origin in device.provenance.items():
        assert origin.source, key
        assert origin.grade in Grade
        if "no source" in origin.source:
            assert origin.grade is Grade.ASSUMED, key


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("NVIDIA GeForce RTX 2080 Ti", "RTX-2080-Ti"),
        ("Tesla V100-PCIE-32GB", "V100-PCIE-32GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX-PRO-6000-Blackwell"),
    ],
)
def test_names_that_a_driver_reports(driver, name):
    assert pa.device(driver).name == name


def test_aliases_and_paths():
    assert pa.device("a100") is pa.device("A100-SXM4-40GB")
    assert pickle.loads(pickle.dumps(pa.device("a100"))) == pa.device("a100")
    assert len({pa.device("a100"), pa.device("v100")}) == 2
    with pytest.raises(TypeError):
        pa.device("a100").operations["x"] = 1
    assert pa.device(FILE) == pa.device("a100")
    assert pa.device(pa.device("v100")).arch == "sm_70"


def test_unknown_names():
    with pytest.raises(pa.UnknownDevice, match=r"did you mean.*'A100-SXM4-40GB'"):
        pa.device("a10O")
    with pytest.raises(pa.DeviceFileError, match="no/such.toml: cannot be read"):
        pa.device("no/such.toml")


def test_variants():
    device = pa.device("a100")
    slow = device.replace(clock_hz=765e6)
    assert slow.clock_hz == 765e6
    assert slow.digest != device.digest
    assert device.replace(l2_bytes=2**30).l2_effective_bytes == 2**29
    with pytest.raises(pa.DeviceFileError, match="no parameter 'clok'; did you mean"):
        device.replace(clok=1)
    with pytest.raises(pa.DeviceFileError, match="l1_bytes: 196608 is larger than l2_bytes"):
        device.replace(l2_bytes=1024)
    with pytest.raises(pa.DeviceFileError, match="integer"):
        device.replace(compute_units=10.5)
    with pytest.raises(pa.DeviceFileError, match="clock_hz: must be finite and above 0"):
        device.replace(clock_hz=0)
    with pytest.raises(pa.DeviceFileError, match="no operation class 'fp31'; did you mean"):
        device.operation("fp31")


@pytest.mark.parametrize(
    ("pattern", "replacement", "key", "reason"),
    [
        (r"^schema = 1", "schema = 2", "schema", "schema = 1"),
        (r"^name = .*", "", "name", "missing"),
        (r"^compute_units = .*", "", "values.compute_units", "missing"),
        (r"^compute_units", "compute_unit", "values.compute_unit", "did you mean 'compute_units'"),
        (r'value = 1410, unit = "MHz"', 'value = 1410, unit = "MB"', "clock_hz.unit", "none of"),
        (r"value = 108", "value = 108.5", "compute_units.value", "integer"),
        (r"value = 108", 'value = "many"', "compute_units.value", "must be a number"),
        (r"value = 108", "value = 0", "compute_units", "above 0"),
        (r"value = 40, unit = \"MiB\"", 'value = 4, unit = "KiB"', "l1_bytes", "l2_bytes"),
        (r'source = "gpu-benches"', 'source = "gpu-bench"', "source", "did you mean 'gpu-benches'"),
        (r'grade = "measured"', 'grade = "guessed"', "grade", "must be one of"),
        (r'alu = "scheduler"', 'alu = "warp"', "pipelines.alu", "'unit' or 'scheduler'"),
        (r"^issue = \{ value = 2", "issue = { value = -2", "issue", "λ must be above 0"),
        (r'^pipeline = "alu"', 'pipeline = "abacus"', "pipeline", "is none of"),
        (r'capacity_fits = "warpspeed"', "capacity_fits = 1", "capacity_fits", "string"),
        (r'capacity_fits = "warpspeed"', 'capacity_fits = "mine"', "capacity_fits", "known: "),
        (r"^aliases = .*", 'aliases = "a100"', "aliases", "list of strings"),
        (r"^\[values\]", "[values", "not valid TOML", ""),
    ],
)
def test_broken_files(tmp_path, pattern, replacement, key, reason):
    text, count = re.subn(pattern, replacement, FILE.read_text(), count=1, flags=re.M)
    assert count == 1
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(pa.DeviceFileError) as caught:
        pa.device(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert key in message
    assert reason in message


def test_an_edited_file_is_read_again(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(FILE.read_text())
    first = pa.device(path)
    path.write_text(FILE.read_text().replace("value = 1410", "value = 1500"))
    import os

    os.utime(path, ns=(1, 1))
    assert pa.device(path).clock_hz == 1.5e9 != first.clock_hz


@pytest.mark.parametrize(
    ("device", "threads", "registers", "shared", "blocks", "limit"),
    [
        ("a100", 256, 32, 0, 8, "warps"),
        ("a100", 32, 16, 0, 32, "blocks"),
        ("a100", 256, 64, 0, 4, "registers"),
        ("a100", 256, 65, 0, 3, "registers"),  # 72 registers per thread, 28 warps
        ("a100", 96, 168, 0, 4, "registers"),  # 3 warps in each of 4 partitions: 12, not 12.19
        ("a100", 128, 32, 40 * 1024, 4, "shared"),  # 41 KiB with the driver's own KiB
        ("rtx-2080-ti", 256, 32, 0, 4, "warps"),
        ("a40", 1024, 32, 0, 1, "warps"),
        ("v100", 1024, 64, 0, 1, "registers"),
    ],
)
def test_occupancy(device, threads, registers, shared, blocks, limit):
    found = occupancy(pa.device(device), threads, registers, shared)
    assert (found.resident_blocks, found.limited_by) == (blocks, limit)
    assert found.warps_per_unit == blocks * -(-threads // 32)
    assert found.fraction == found.warps_per_unit / pa.device(device).max_warps_per_unit


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "reason"),
    [
        (1025, 32, 0, "larger than the 1024"),
        (32, 256, 0, "more than the 255"),
        (32, 32, 200 * 1024, "bytes of shared memory"),
        (1024, 128, 0, "exceed its registers"),
    ],
)
def test_impossible_blocks(threads, registers, shared, reason):
    with pytest.raises(pa.LaunchError, match=reason):
        occupancy(pa.device("a100"), threads, registers, shared)


def test_blocks_too_deep():
    kernel = pa.Kernel.from_accesses("k", [pa.Field("a", shape=(1024,))], loads=["a[z]"])
    flat = pa.device("a100").replace(max_block_z=32)
    with pytest.raises(pa.LaunchError, match="64 threads deep is more than the 32"):
        pa.predict(kernel, pa.Launch(1, (1, 1, 64)), flat)


def test_numbers_of_numpy_in_a_variant():
    device = pa.device("a100")
    made = device.replace(l2_bytes=np.int64(2**22), clock_hz=np.float32(1e9), compute_units=54.0)
    assert (made.l2_bytes, made.clock_hz, made.compute_units) == (2**22, 1e9, 54)
    assert [type(v) for v in (made.l2_bytes, made.clock_hz, made.compute_units)] == [
        int, float, int,
    ]  # fmt: skip
    assert made.digest == device.replace(l2_bytes=2**22, clock_hz=1e9, compute_units=54.0).digest


@pytest.mark.parametrize(
    "wrong",
    [{key: value} for key in ("l2_bytes", "clock_hz", "l1_tag_cycles", "compute_units")
     for value in (float("inf"), float("nan"), "4", None, 10**400, 10**40, -1, [1], True)]
    + [{"operations": 5}, {"operations": None}, {"name": 5}, {"aliases": "a"}, {"curves": []},
       {"pipelines": "unit"}, {"matrix": {"tensor.f16.f32": float("nan")}}],
)  # fmt: skip
def test_variants_that_cannot_be(wrong):
    (key,) = wrong
    with pytest.raises(pa.DeviceFileError, match=key):
        pa.device("a100").replace(**wrong)


@pytest.mark.parametrize("digits", ["9" * 400, "1e400", "-1e400", "nan", "inf"])
def test_a_device_file_with_a_number_beyond_all(tmp_path, digits):
    path = tmp_path / "d.toml"
    text = FILE.read_text()
    line = next(x for x in text.splitlines() if x.startswith("l2_bytes"))
    path.write_text(text.replace(line, re.sub(r"value = [^,]+", f"value = {digits}", line)))
    with pytest.raises(pa.DeviceFileError, match=r"l2_bytes\.value must be finite"):
        pa.device(path)
