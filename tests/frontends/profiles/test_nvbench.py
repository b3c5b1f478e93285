"""nvbench's JSON: measured times of states, and what it does not say."""

from __future__ import annotations

import copy
import json

import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.frontends.profiles.read import read_measurements, read_profile
from perfassert.frontends.toolchain import tools
from perfassert.lab.validation.data import read_rows
from perfassert.lab.validation.read import read_suite

SUITE = """
data = "bench.json"

[device]
name = "a100"

[[metric]]
name = "time"
column = "nv/cold/time/gpu/mean"
unit = "s"

[filter]
benchmark = ["copy"]

[launch]
grid = "NumBlocks"
block = "BlockSize"

[kernel]
cuda = "copy.cu"
kernel = "copy"
"""
SOURCE = "__global__ void copy(float* y) { y[blockIdx.x * blockDim.x + threadIdx.x] = 0; }"


def state(block, seconds, **changed):
    values = {"BlockSize": ("int64", block), "NumBlocks": ("int64", 64), "T": ("string", "F32")}
    axes = [{"name": n, "type": kind, "value": str(v)} for n, (kind, v) in values.items()]
    data = [{"name": "value", "type": "float64", "value": str(seconds)}]
    files = [{"name": "filename", "type": "string", "value": "x.bin"}]
    summaries = [
        {"tag": "nv/cold/time/gpu/mean", "name": "GPU Time", "data": data},
        {"tag": "nv/json/bin:sample_times", "name": "Samples", "data": files},
        {"tag": "empty", "name": "Empty", "data": None},
    ]
    own = {"name": f"Device=0 BlockSize={block}", "device": 0, "axis_values": axes}
    return {**own, "summaries": summaries, "is_skipped": False, **changed}


def results(*states):
    skipped = state(32, "nan", is_skipped=True, summaries=None, axis_values=None)
    return {
        "meta": {"version": {"json": {"major": 1, "string": "1.0.0"}}},
        "devices": [{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}],
        "benchmarks": [
            {"name": "copy", "states": [*states, skipped]},
            {"name": "none", "states": None},
        ],
    }


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(data):
        path = tmp_path / "bench.json"
        path.write_text(json.dumps(data), "utf-8")
        return path

    return write


def test_states_and_their_axes(write):
    measured = read_measurements(write(results(state(64, 2e-6), state(128, "nan"))))
    first, second = measured.measurements
    assert measured.device == "NVIDIA A100-SXM4-40GB"
    assert (first.label, first.shape) == ("copy [Device=0 BlockSize=64]", None)
    assert (first.values, second.values) == ({"time": 2e-6}, {})
    assert first.cells == {
        "benchmark": "copy", "device": "NVIDIA A100-SXM4-40GB", "BlockSize": "64",
        "NumBlocks": "64", "T": "F32", "nv/cold/time/gpu/mean": "2e-06",
    }  # fmt: skip


def test_it_says_what_was_measured_and_not_what_was_launched(write):
    with pytest.raises(pa.RecordError, match=r"nvbench's JSON names no kernels, grids or blocks"):
        read_profile(write(results(state(64, 2e-6))))


def test_a_suite_reads_states(write, tmp_path):
    write(results(state(64, 2e-6), state(128, 3e-6)))
    (tmp_path / "copy.cu").write_text(SOURCE)
    (tmp_path / "suite.toml").write_text(SUITE)
    rows = read_rows(read_suite(tmp_path / "suite.toml"))
    assert [(row.cells["BlockSize"], row.cells["time_s"]) for row in rows] == [
        ("64", "2e-06"),
        ("128", "3e-06"),
    ]
    write({**results(), "benchmarks": []})
    with pytest.raises(pa.SuiteError, match="no state of a benchmark was run"):
        read_rows(read_suite(tmp_path / "suite.toml"))


def test_a_prediction_beside_a_state(write, tmp_path, capsys):
    for name in ("nvrtc", "nvdisasm"):
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")
    (tmp_path / "copy.cu").write_text(SOURCE)
    command = ["predict", "copy.cu", "--device", "a100", "--grid", "64", "--block", "128"]
    command += ["--measured", "bench.json"]
    write(results(state(64, 2e-6), state(128, 3e-6)))
    assert main(command) == 2
    assert "1: copy [Device=0 BlockSize=128]" in capsys.readouterr().err
    assert main([*command, "--measured-launch", "1"]) == 0
    assert "measured 3 us: plausible" in capsys.readouterr().out
    write(results(state(128, 4e-6)))
    assert main(command) == 0
    assert "Measured: copy [Device=0 BlockSize=128]." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.pop("benchmarks"), "no key 'benchmarks'"),
        (lambda data: data.pop("meta"), "is not nvbench's JSON: KeyError at 'meta'"),
        (lambda data: data.update(devices=None), "is not nvbench's JSON: TypeError"),
        (lambda data: data["benchmarks"][0].update(states=[3]), "AttributeError"),
        (lambda data: data["benchmarks"][0].update(states=None), "no state of a benchmark was run"),
        (lambda data: data["meta"]["version"]["json"].update(major=2), "is version 1.0.0 of"),
    ],
)
def test_what_is_no_such_file(write, change, message):
    data = copy.deepcopy(results(state(64, 2e-6)))
    change(data)
    with pytest.raises(pa.RecordError, match=message):
        read_measurements(write(data))


@pytest.mark.parametrize("text", ["{", '{"a": ' + "[" * 100_000])
def test_what_is_no_json(tmp_path, text):
    (tmp_path / "bench.json").write_text(text)
    with pytest.raises(pa.RecordError, match="is not JSON: .*write it with: BENCHMARK --json FILE"):
        read_measurements(tmp_path / "bench.json")
