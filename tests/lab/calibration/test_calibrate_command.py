"""``perfassert calibrate`` end to end, on GPUs that are simulated from shipped device files."""

import json
import sys

import pytest
from fake_gpu import FakeGpu, expected

import perfassert as pa
from perfassert.cli.main import main
from perfassert.lab.calibration import cuda_driver
from perfassert.lab.calibration.driver import CalibrationError
from perfassert.lab.calibration.run import calibrate, default_name, journal_path
from perfassert.lab.calibration.write import nearest_device

pytestmark = pytest.mark.exhaustive(one_in=8)

DEVICES = ["A100-SXM4-40GB", "V100-PCIE-32GB", "RTX-2080-Ti", "RTX-4090", "H100-SXM5-80GB"]


@pytest.fixture
def plugged(monkeypatch):
    """``plugged(gpu)`` is the GPU that the command finds."""

    def plug(gpu):
        monkeypatch.setattr(cuda_driver, "open_driver", lambda index: gpu)
        return gpu

    return plug


def value(device, key):
    name, _, part = key.partition(".")
    return getattr(device.operations[name], part) if part else getattr(device, name)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("name", DEVICES)
def test_what_the_gpu_is_comes_back(name, tmp_path, plugged, capsys):
    """Some 2700 noisy shots of an A100: each measured value is within 3 % of the fake's."""
    gpu = plugged(FakeGpu(name))
    path = tmp_path / "my-gpu.toml"
    assert main(["calibrate", "-o", str(path)]) == 0
    printed = capsys.readouterr()
    assert "2 other processes use the GPU" in printed.err
    assert f"those of {name}" in printed.out
    assert gpu.closed
    device = pa.device(path)
    assert device.name == f"Fake-{name}"
    assert device.arch == gpu.device.arch
    measured = 0
    for key, true in expected(gpu.device).items():
        origin = device.provenance[f"operations.{key}" if "." in key else f"values.{key}"]
        if origin.grade is not origin.grade.MEASURED:
            assert origin.grade.value == "assumed"
            assert f"as {name}; not measured: " in origin.note
            continue
        measured += 1
        assert value(device, key) == pytest.approx(true, rel=0.03), key
        assert origin.source.startswith("perfassert calibrate, 20")
        assert "%" in origin.note or "above the knee" in origin.note, key
    assert measured >= 35
    for key in ("compute_units", "registers_per_unit", "l2_bytes", "shared_bytes_per_block"):
        assert getattr(device, key) == getattr(gpu.device, key)
        assert device.provenance[f"values.{key}"].source == "CUDA driver 13.0, device attributes"
    for key in ("block_launch_cycles", "block_drain_cycles"):
        assert value(device, key) == pytest.approx(getattr(gpu.device, key), abs=25)
    assert "the driver reports" in device.provenance["values.clock_hz"].note


def test_the_new_device_predicts(tmp_path):
    gpu = FakeGpu("A100-SXM4-40GB")
    outcome = calibrate(gpu, tmp_path / "a.toml", name="MINE")
    n = 1 << 24
    fields = [pa.Field("a", shape=(n,)), pa.Field("b", shape=(n,))]
    copy = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
    launch = pa.Launch.cover(n, 256)
    times = [pa.predict(copy, launch, d).time for d in (outcome.device, gpu.device)]
    assert float(times[0]) == pytest.approx(float(times[1]) + gpu.launch_overhead, rel=0.03)


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("shots", [0, 5, 700, 2500])
def test_interrupted_and_resumed(shots, tmp_path, plugged, capsys):
    whole = tmp_path / "whole.toml"
    all_shots = plugged(FakeGpu("A100-SXM4-40GB"))
    assert main(["calibrate", "-o", str(whole), "--name", "G"]) == 0
    path = tmp_path / "parts.toml"
    first = plugged(FakeGpu("A100-SXM4-40GB", stop_after=shots))
    assert main(["calibrate", "-o", str(path), "--name", "G"]) == 130
    assert "interrupted; " in capsys.readouterr().err
    assert first.closed
    assert not path.exists()
    kept = journal_path(path)
    done = len(json.loads(kept.read_text())["results"]) if kept.exists() else 0
    assert (done > 5) == (shots >= 700)
    second = plugged(FakeGpu("A100-SXM4-40GB"))
    assert main(["calibrate", "-o", str(path), "--name", "G"]) == 0
    assert path.read_text() == whole.read_text()
    assert (second.shots < all_shots.shots) == (done > 0)
    third = plugged(FakeGpu("A100-SXM4-40GB"))
    assert main(["calibrate", "-o", str(path), "--name", "G"]) == 0
    assert third.shots == 0
    assert main(["calibrate", "-o", str(path), "--name", "G", "--fresh"]) == 0
    assert third.shots == all_shots.shots


def test_a_failing_gpu_keeps_what_there_is(tmp_path, plugged, capsys):
    plugged(FakeGpu("A100-SXM4-40GB", fail_after=700))
    assert main(["calibrate", "-o", str(tmp_path / "a.toml")]) == 2
    assert "hull " in (message := capsys.readouterr().err)
    assert "fallen off the bus" in message
    assert len(json.loads((tmp_path / "a.journal.json").read_text())["results"]) > 3


def test_clocks_that_stand_still(tmp_path):
    gpu = FakeGpu("A100-SXM4-40GB")
    gpu.chain = lambda shot, operation: 0.0
    with pytest.raises(CalibrationError, match="clock: the GPU's clocks stand still"):
        calibrate(gpu, tmp_path / "a.toml")


def test_a_journal_of_another_gpu_or_none(tmp_path, plugged, capsys):
    path = tmp_path / "a.toml"
    journal = journal_path(path)
    gpu = FakeGpu("RTX-2080-Ti")
    calibrate(gpu, path)
    table = json.loads(journal.read_text())
    table["head"]["uuid"] = "beef"
    journal.write_text(json.dumps(table))
    plugged(gpu)
    assert main(["calibrate", "-o", str(path)]) == 2
    assert "its uuid is beef, the GPU at hand has 00ff" in capsys.readouterr().err
    others = ('{"head": 1}', '{"head": {}, "results": {"clock": [[[1]]]}}')
    for text in ("{", "[" * 100_000, "[]", *others):
        journal.write_text(text)
        assert main(["calibrate", "-o", str(path)]) == 2
        assert "is no journal" in capsys.readouterr().err
    assert main(["calibrate", "-o", str(path), "--fresh"]) == 0


def test_two_partitions_of_the_l2(tmp_path):
    device = calibrate(FakeGpu("A100-SXM4-40GB", far=400), tmp_path / "a.toml").device
    assert device.l2_latency == pytest.approx(205.5, rel=0.02)
    assert device.l2_partitions == 2
    near = device.provenance["values.l2_latency"].note
    assert near.startswith("near partition, ")
    assert "; far 4" in near or "; far 39" in near
    assert device.provenance["values.l2_partitions"].grade.value == "measured"


def test_measurements_that_contradict_each_other(tmp_path):
    gpu = FakeGpu("A100-SXM4-40GB")
    gpu.device = gpu.device.replace(l2_bandwidth=2e12, dram_bandwidth=1.9e12)
    gpu._read = lambda shot: shot.n * shot.a / 1e12 * gpu.device.clock_hz
    with pytest.raises(CalibrationError, match="contradict each other: .*dram_bandwidth"):
        calibrate(gpu, tmp_path / "a.toml")
    assert (tmp_path / "a.rejected.toml").exists()
    assert not (tmp_path / "a.toml").exists()


def test_pictures(tmp_path, plugged, capsys, monkeypatch):
    plugged(FakeGpu("RTX-2080-Ti"))
    pictures = tmp_path / "hulls"
    command = ["calibrate", "-o", str(tmp_path / "a.toml"), "--pictures", str(pictures)]
    assert main(command) == 0
    drawn = sorted(path.name for path in pictures.iterdir())
    assert "fp32.png" in drawn
    assert "fp64.png" in drawn  # refused as a hull, shown all the same
    assert f"{len(drawn)} pictures in" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0  # the journal knows everything: nothing is measured
    said = json.loads(capsys.readouterr().out)
    device = pa.device(tmp_path / "a.toml")
    assert said["device"] == device.name
    found = said["measured"]["values.l1_latency"]["value"]
    assert found == pytest.approx(device.l1_latency, rel=1e-3)  # the file has four digits
    assert said["measured"].keys().isdisjoint(said["missing"])
    assert len(said["pictures"]) == len(drawn)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(command) == 2
    assert "perfassert[plot]" in capsys.readouterr().err


def test_usage(tmp_path, capsys):
    assert main(["calibrate"]) == 2
    assert main(["calibrate", "-o", str(tmp_path / "a")]) == 2
    assert "ends with .toml" in capsys.readouterr().err
    assert main(["calibrate", "-o", str(tmp_path / "none" / "a.toml")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_the_nearest_device():
    properties = FakeGpu("H200").properties()
    assert nearest_device(properties).name == "H200"
    from dataclasses import replace

    assert nearest_device(replace(properties, arch="sm_121")).arch == "sm_120"
    assert nearest_device(replace(properties, arch="sm_87")).arch == "sm_86"
    assert nearest_device(replace(properties, arch="sm_72")).arch == "sm_70"
    assert default_name(replace(properties, name="NVIDIA GeForce RTX 4090")) == "GeForce-RTX-4090"
