"""``perfassert measure`` from suite to CSV, on a GPU that is none; and ``validate`` over it."""

import csv
import json
import shutil

import pytest
from own_suite import PATH
from pretended_gpu import FakeGpu

import perfassert as pa
from perfassert.cli.main import main
from perfassert.lab.calibration.driver import CalibrationError
from perfassert.lab.measurement import counters, cuda_gpu, run
from perfassert.lab.measurement.gpu import MeasurementError
from perfassert.lab.measurement.run import device_name
from perfassert.lab.validation.read import read_suite

pytestmark = pytest.mark.exhaustive(one_in=4)

SUITE = """
title = "Two"
data = "two.csv"
select = "kernel"
group = "problem"

[device]
column = "device"
clock_hz = "clock_hz"

[[metric]]
name = "time"
column = "time_us"
unit = "us"

[[metric]]
name = "dram_load"
column = "dram_read_bytes"
unit = "B"

[kernels.copy]
cuda = "streams.cu"
kernel = "copy"
rows = [{ n = [65536, 1048576], block = [128, 256] }]

[kernels.copy.launch]
domain = "n"
block = "block"
args = { in = { shape = "n" }, out = { shape = "n" }, n = "n" }

[kernels.chains]
cuda = "arithmetic.cu"
kernel = "chains_float"
rows = [{ grid = [108, 432] }]

[kernels.chains.launch]
grid = "grid"
block = 128
args = { in = { shape = "grid * 128", fill = "i % 7" }, out = { shape = "grid * 128" } }
"""
RAW = '"ID","dram__bytes_read.sum","smsp__inst_executed.sum"\n"","byte","inst"\n'


@pytest.fixture(scope="module", autouse=True)
def _toolchain(tmp_path_factory):
    kernel = pa.from_cuda(PATH.parent / "kernels" / "streams.cu", "copy")
    try:
        pa.predict(kernel, pa.Launch(64, 256, {"n": 16384}), "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def path(tmp_path):
    for name in ("streams.cu", "arithmetic.cu"):
        shutil.copy(PATH.parent / "kernels" / name, tmp_path)
    suite = tmp_path / "two.toml"
    suite.write_text(SUITE)
    return suite


@pytest.fixture
def fake(monkeypatch, path):
    """Calls with options make the GPU that the next command finds."""

    def make(**options):
        made = FakeGpu(read_suite(path), **options)
        monkeypatch.setattr(cuda_gpu, "open_gpu", lambda index: made)
        return made

    return make


def measure(path, *options):
    return main(["measure", str(path), "-o", str(path.with_suffix(".csv")), *options])


def rows(path):
    with path.with_suffix(".csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_measured_and_validated(path, fake, capsys):
    made = fake()
    assert measure(path, "--no-counters") == 0
    assert "6 measured, 0 kept" in capsys.readouterr().out
    assert made.closed
    found = rows(path)
    assert [r["kernel"] for r in found] == ["copy"] * 4 + ["chains"] * 2
    assert found[0]["device"] == "A100-SXM4-40GB"
    assert found[0]["gpu"] == "NVIDIA A100-SXM4-40GB"
    assert (found[0]["n"], found[0]["block"], found[0]["grid"]) == ("65536", "128", "")
    assert found[0]["problem"] == "copy 0"
    assert (found[0]["clock_hz"], found[0]["driver"]) == ("1200000000", "13.0")
    assert (found[0]["repetitions"], found[0]["registers"]) == ("20", "")
    assert 0 < float(found[0]["time_spread"]) < 0.1
    assert len(found[0]["date"]) == 10
    assert "NVRTC" in found[0]["compiler"].upper() or "nvcc" in found[0]["compiler"]
    assert main(["validate", str(path), "--data", str(path.parent), "--json", "--jobs", "1"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["metrics"]["time"]["median"] < 0.02


def test_what_goes_to_the_gpu(path, fake):
    made = fake()
    measure(path, "--no-counters", "--kernel", "chains")
    (first, second) = made.timed
    assert (first.grid, first.block, first.function) == ((108, 1, 1), (128, 1, 1), "chains_float")
    filled, random = first.arguments
    assert filled.size == 4 * 108 * 128
    assert filled.content.dtype == "float32"
    assert list(filled.content[:9]) == [0, 1, 2, 3, 4, 5, 6, 0, 1]
    assert random.content.min() >= 0
    assert second.memory_bytes == 2 * 4 * 432 * 128


def test_an_interrupt_and_what_follows(path, fake, capsys):
    fake(stop_after=3)
    assert measure(path, "--no-counters") == 130
    assert len(rows(path)) == 3
    assert "the same command goes on" in capsys.readouterr().err
    made = fake()
    assert measure(path, "--no-counters") == 0
    assert "3 measured, 3 kept" in capsys.readouterr().out
    assert [w.kernel for w in made.timed] == ["copy", "chains", "chains"]
    made = fake()
    assert measure(path, "--no-counters", "--again", "--kernel", "copy") == 0
    assert (len(made.timed), len(rows(path))) == (4, 6)
    assert [p.name for p in path.parent.glob(".*")] == []


def test_a_changed_source_is_measured_again(path, fake, capsys):
    fake()
    measure(path, "--no-counters")
    source = path.parent / "arithmetic.cu"
    source.write_text(source.read_text() + "// changed\n")
    made = fake()
    assert measure(path, "--no-counters") == 0
    assert [w.kernel for w in made.timed] == ["chains", "chains"]
    assert "its source has changed" in capsys.readouterr().err


def test_rows_of_other_gpus_stay(path, fake):
    fake()
    measure(path, "--no-counters")
    assert measure(path, "--no-counters", "--device", "A100-SXM4-80GB") == 0
    assert len(rows(path)) == 12


def test_one_kernel_fails(path, fake, capsys):
    fake(broken=("copy",))
    assert measure(path, "--no-counters") == 2
    error = capsys.readouterr().err
    assert "3 launches in a row failed" in error
    fake(broken=("chains",))
    assert measure(path, "--no-counters") == 2
    error = capsys.readouterr().err
    assert "chains grid=108: CUDA_ERROR_LAUNCH_FAILED" in error
    assert len(rows(path)) == 4


def test_other_processes_are_named(path, fake, capsys):
    fake(busy=("2 other processes use the GPU",))
    assert measure(path, "--no-counters", "--kernel", "copy") == 0
    assert "warning: 2 other processes use the GPU" in capsys.readouterr().err


def test_noise_is_named(path, fake, capsys):
    fake(noise=0.2)
    assert measure(path, "--no-counters", "--kernel", "copy") == 0
    assert ", spread " in capsys.readouterr().err


def test_without_memory(path, fake, capsys, monkeypatch):
    fake()
    monkeypatch.setattr("pretended_gpu.PROPERTIES", gpu_with(free_bytes=10**6))
    assert measure(path, "--no-counters", "--kernel", "copy") == 2
    assert "0.01 GB of memory; 0.00 GB are free" in capsys.readouterr().err
    assert len(rows(path)) == 2


def gpu_with(**changes):
    from dataclasses import replace

    from pretended_gpu import PROPERTIES

    return replace(PROPERTIES, **changes)


def test_counters(path, fake, capsys, monkeypatch):
    asked = []

    def profile(given, launches):
        asked.append((given[-3], launches))
        lines = "".join(f'"{i}","{1000 * (i + 1)}","{10 * (i + 1)}"\n' for i in range(launches))
        return [counters.counters(row) for row in counters.parse_raw(RAW + lines)]

    monkeypatch.setattr(run, "find_ncu", lambda: "ncu")
    monkeypatch.setattr(run, "profile_command", profile)
    fake()
    assert measure(path) == 0
    assert asked == [("0,1,2,3,4,5", 6)]
    assert [r["dram_read_bytes"] for r in rows(path)][:4] == ["1000", "2000", "3000", "4000"]
    assert rows(path)[5]["warp_instructions"] == "60"
    assert measure(path) == 0
    assert len(asked) == 1  # they are there
    assert measure(path, "--again", "--kernel", "chains") == 0
    assert asked[1:] == [("4,5", 2)]


def test_counters_that_cannot_be_had(path, fake, capsys, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    fake()
    assert measure(path) == 2
    shown = capsys.readouterr()
    assert "--no-counters" in shown.err
    assert "6 measured" in shown.out
    assert len(rows(path)) == 6


def test_counters_of_one_launch_fail(path, fake, capsys, monkeypatch):
    def profile(given, launches):
        if "4" in given[-3].split(","):
            raise MeasurementError("ncu took too long")
        return [{"registers": "16"}] * launches

    monkeypatch.setattr(run, "find_ncu", lambda: "ncu")
    monkeypatch.setattr(run, "profile_command", profile)
    fake()
    assert measure(path) == 2
    error = capsys.readouterr().err
    assert "6 launches are tried in halves" in error
    assert "chains grid=108: counters: ncu took too long" in error
    assert [r["registers"] for r in rows(path)] == ["16"] * 4 + ["", "16"]


def test_no_gpu(path, monkeypatch, capsys):
    def none(index):
        raise CalibrationError("there is no NVIDIA GPU")

    monkeypatch.setattr(cuda_gpu, "open_gpu", none)
    assert measure(path) == 2
    assert "there is no NVIDIA GPU" in capsys.readouterr().err
    assert not path.with_suffix(".csv").exists()


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('rows = [{ grid = [108, 432] }]', ""), "kernels.chains.rows: missing"),
        (('select = "kernel"', 'select = "name"'), 'has select = "kernel"'),
        (('column = "device"', 'name = "a100"'), 'must be "device"'),
        (("{ grid = [108, 432] }", "{ grid = [true] }"), "a cell is a number or a string"),
        (('kernel = "chains_float"', 'kernel = "chains_float"\nimproves = "cpoy"'), "'copy'"),
        (('kernel = "chains_float"', 'kernel = "chains_float"\nimproves = "copy"'),
         "another number of rows"),
        (('fill = "i % 7"', 'fill = "j"'), "'j'"),
        (("grid = [108", "driver = [108"), "'driver' is one that measure itself writes"),
        ((', out = { shape = "grid * 128" }', ""), "'out' of kernel 'chains_float'"),
        (('out = { shape = "grid * 128" }', "out = 3"), "needs the shape of its buffer"),
    ],
)  # fmt: skip
def test_suites_that_cannot_be_measured(path, fake, capsys, change, message):
    assert change[0] in SUITE
    fake()
    path.write_text(SUITE.replace(*change))
    assert measure(path, "--no-counters", "--kernel", "chains") == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("device,kernel\n", "its columns are not those of the suite"),
        ('"a', "not a CSV file"),
    ],
)
def test_files_that_are_something_else(path, fake, capsys, text, message):
    fake()
    path.with_suffix(".csv").write_text(text)
    assert measure(path, "--no-counters") == 2
    assert message in capsys.readouterr().err
    assert path.with_suffix(".csv").read_text() == text


def test_odd_calls(path, fake, capsys):
    fake()
    assert measure(path, "--kernel", "cpoy") == 2
    assert "did you mean 'copy'" in capsys.readouterr().err
    assert main(["measure", str(path), "-o", str(path.parent / "no/where.csv")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert measure(path, "--device", "h100", "--no-counters", "--kernel", "chains") == 2
    assert "this GPU is sm_80" in capsys.readouterr().err
    assert measure(path, "--repetitions", "0") == 2
    assert measure(path, "--warmup", "-1") == 2


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX-2080-Ti"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("NVIDIA H100 PCIe", "H100-PCIE-80GB"),
        ("NVIDIA H200", "H200"),
        ("Tesla V100-PCIE-32GB", "V100-PCIE-32GB"),
        ("NVIDIA RTX A6000", "RTX-A6000"),
    ],
)
def test_names_of_gpus(name, device):
    assert device_name(name) == device


def test_a_gpu_that_nobody_knows():
    with pytest.raises(MeasurementError, match=r"'NVIDIA B9000'.*--device"):
        device_name("NVIDIA B9000")
