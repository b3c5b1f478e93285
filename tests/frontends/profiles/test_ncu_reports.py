"""Reports of Nsight Compute: launches, samples and measured values, through a fake of NVIDIA's
module, which runs in the same sandboxed process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from fake_ncu_report import MAGIC

import perfassert as pa
from perfassert.cli.main import main
from perfassert.frontends.profiles import ncu_report
from perfassert.frontends.profiles.launch import ProfiledLaunches, Shape
from perfassert.frontends.profiles.read import read_measurements, read_profile
from perfassert.frontends.toolchain import tools
from perfassert.lab.validation.data import read_rows
from perfassert.lab.validation.read import read_suite
from perfassert.system.processes import mechanisms

FAKE = Path(__file__).with_name("fake_ncu_report.py")
ZERO = "_Z4zeroPf"
START = 0x7F00
SASS = ("MOV R1, c[0x0][0x28]", "@P0   EXIT", "STG.E [R2.64], RZ", "EXIT", "BRA `(.L_x_0)")
STALL = "smsp__pcsamp_warps_issue_stalled_"
SOURCE = """
__global__ void zero(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 0;
}
"""


def column(*numbers):
    return {str(START + 16 * n): number for n, number in enumerate(numbers)}


def launch(name="zero(float *)", mangled=ZERO, time=2048.0, **changed):
    sizes = {"grid": (16, 1, 1), "block": (128, 2, 1)}
    metrics = {
        f"launch__{what}_dim_{axis}": [float(size), ""]
        for what, extent in sizes.items()
        for axis, size in zip("xyz", extent, strict=True)
    }
    metrics |= {
        "launch__shared_mem_per_block_dynamic": [2048.0, "byte/block"],
        "device__attribute_display_name": ["NVIDIA A100-SXM4-40GB", ""],
        "dram__bytes_write.sum": [16.5, "Kbyte"],
        "lts__t_sectors_srcunit_tex_op_write.sum": [512.0, "sector"],
        "dram__bytes_read.sum": [0.5, "Gbyte/second"],  # no amount
        "breakdown:sm": ["sm__a, sm__b", ""],
        **({} if time is None else {"gpu__time_duration.sum": [time, "ns"]}),
    }
    columns = {
        f"{STALL}long_scoreboard": column(0, 0, 9, 0, 2),
        f"{STALL}long_scoreboard_not_issued": column(0, 0, 8, 0, 1),
        f"{STALL}selected": column(4, 4, 4, 4, 0),
        f"{STALL}selected_not_issued": column(0, 0, 0, 0, 0),
        "inst_executed": column(32, 32, 32, 32),
        "launch__function_pcs": {str(START): START},
        "memory_l2_theoretical_sectors_global": {str(START + 32): 64},
    }
    own = {"name": name, "mangled": mangled, "metrics": metrics, "columns": columns}
    return {**own, "code": column(*(f"      {text}" for text in SASS)), **changed}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    folder = tmp_path / "site" / "ncu_report"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(FAKE.read_text("utf-8"), "utf-8")
    monkeypatch.syspath_prepend(folder.parent)


@pytest.fixture
def write(tmp_path, installed):
    def write(*launches):
        path = tmp_path / "app.ncu-rep"
        path.write_bytes(MAGIC + json.dumps(launches).encode())
        return path

    return write


def test_launches_and_what_was_measured(write):
    graph = launch("a graph", workload=1)
    path = write(launch(), graph, launch(time=4096.0), launch("plain", "plain", None))
    profile = read_profile(path)
    shape = Shape(ZERO, (16, 1, 1), (128, 2, 1), 2048)
    assert profile.device == "NVIDIA A100-SXM4-40GB"
    assert profile.launches[0] == ProfiledLaunches(shape, 2, (2.048e-6, 4.096e-6))
    assert profile.launches[1].shape.name == "plain"
    assert profile.launches[1].seconds == ()
    first = read_measurements(path).measurements[0]
    volumes = {"dram_store": 16500.0, "l2_store_sectors": 512.0}
    assert first.values == {"time": 2.048e-6, **volumes}
    assert first.cells["dram__bytes_write.sum"] == "16.5"
    assert "breakdown:sm" not in first.cells


def test_samples_of_each_instruction(write):
    samples = pa.read_samples(write(launch(), launch("other(int)", "_Z5otheri")), "zero")
    assert samples.kernel == "zero(float *)"
    assert [row.offset for row in samples.instructions] == [0, 16, 32, 48, 64]
    store = samples.instructions[2]
    assert store.text == "STG.E [R2.64], RZ"
    assert store.counts()["memory_dependency"].all == 9
    assert store.latency["memory_dependency"] == 8
    assert store.executed == 32
    assert store.counters["l2_theoretical_sectors_global"] == 64
    binary = [(16 * n, text) for n, text in enumerate(SASS)]
    assert samples.join_listing(binary).issued[0] == 32


def test_names_that_are_no_text(write):
    path = write(launch(None, None), launch("zero\ud8ff()", ""))
    profile = read_profile(path)
    assert [one.shape.name for one in profile.launches] == ["", "zero?()"]
    with pytest.raises(pa.SamplesError, match=r"no kernel 'other'; it holds '', 'zero\?\(\)'"):
        pa.read_samples(path, "other")


def test_instructions_that_are_shorter(write):
    short = {
        key: {str(START + 8 * n): v for n, v in enumerate(column(*values).values())}
        for key, values in {f"{STALL}wait": (1, 2), f"{STALL}wait_not_issued": (1, 0)}.items()
    }
    code = {str(START): "MOV R1, R2", str(START + 8): "EXIT"}
    samples = pa.read_samples(write(launch(columns=short, code=code)))
    assert [row.offset for row in samples.instructions] == [0, 8]


def test_the_kernel_among_the_functions_that_it_calls(write):
    called = {str(START - 64): "MUFU.RCP R0, R1", str(START - 48): "RET.REL.NODEC R2"}
    columns = launch()["columns"]
    columns["launch__function_pcs"] = {str(START - 64): START - 64, str(START): START}
    own = launch(columns=columns, code={**called, **launch()["code"]})
    assert pa.read_samples(write(own)).instructions[0].text == SASS[0]


@pytest.mark.parametrize(
    ("launches", "message"),
    [
        ([], "has no launch of a kernel: it is damaged, or nothing was profiled"),
        ([launch(workload=1)], "has no launch of a kernel"),
        ([launch(), launch()], r"choose by kernel= or launch= among 2 launches:\n  0: zero"),
        ([launch(columns={})], r"launch 0: the source page lacks stall_\*, .*export it again: ncu"),
        ([launch(code=column(*["???"] * 5))], "launch 0: this release of .* an older one may: pip"),
        (
            [launch(columns={**launch()["columns"], f"{STALL}wait": {"64": 3}})],
            "3 samples are of functions that zero.* calls",
        ),
    ],
)
def test_reports_without_samples(write, launches, message):
    with pytest.raises(pa.SamplesError, match=message):
        pa.read_samples(write(*launches))


def test_a_report_that_breaks_the_parser(write):
    path = write(launch())
    path.write_bytes(MAGIC + b"{")
    with pytest.raises(pa.RecordError, match="cannot be read by NVIDIA's ncu-report: .*Expecting"):
        read_profile(path)
    with pytest.raises(pa.SamplesError, match="a newer one may read it: pip install --upgrade"):
        pa.read_samples(path)
    grid = {"launch__grid_dim_x": ["-1", ""]}
    with pytest.raises(pa.RecordError, match="launch 0: Grid Size is '-1, , ', not three numbers"):
        read_profile(write(launch(metrics=grid)))


def test_a_report_that_is_too_large(write, monkeypatch):
    monkeypatch.setattr(ncu_report, "_MOST_BYTES", 16)
    with pytest.raises(pa.SamplesError, match="more than the 0 MiB that are read"):
        pa.read_samples(write(launch()))


@pytest.mark.skipif(len(mechanisms()) < 2, reason="the system offers no sandbox")
def test_the_parser_reads_nothing_else(write, tmp_path):
    (tmp_path / "s.env").write_text("TOKEN=hunter2")
    path = write()
    path.write_bytes(MAGIC + json.dumps(str(tmp_path / "s.env")).encode())
    with pytest.raises(pa.RecordError, match="Permission denied") as caught:
        read_profile(path)
    assert "hunter2" not in str(caught.value)


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    path = tmp_path / "app.ncu-rep"
    path.write_bytes(MAGIC)
    with pytest.raises(pa.ToolchainMissing, match=r'pip install "perfassert\[ncu\]"'):
        pa.read_samples(path)
    with pytest.raises(pa.ToolchainMissing, match=r"app\.ncu-rep: is a report of Nsight Compute"):
        read_profile(path)


def test_nvidias_own_parser_refuses_what_is_no_report(tmp_path):
    """No report can be written without a GPU: those of the public are read by hand."""
    if not tools.package_folders("ncu_report"):
        pytest.skip("ncu-report is not installed")
    path = tmp_path / "app.ncu-rep"
    path.write_bytes(MAGIC + b"\x02\x00\x00\x00")
    with pytest.raises(pa.RecordError, match="has no launch of a kernel|cannot be read by"):
        read_profile(path)


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    for name in ("nvrtc", "nvdisasm"):
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.cu").write_text(SOURCE)


PREDICT = [
    "predict", "kernels.cu", "--device", "a100", "--grid", "16", "--block", "128,2", "--arg",
    "n=4096", "--measured", "app.ncu-rep",
]  # fmt: skip


def test_commands_take_them(write, compiled, tmp_path, capsys):
    mangled = "_Z4zeroPfi"
    write(launch(mangled=mangled), launch(mangled=mangled, time=6144.0))
    assert main(["launches", "import", "app.ncu-rep", "--code", "kernels.cu"]) == 0
    assert "2 launches of 1 kernels, 1 distinct" in capsys.readouterr().out
    text = (tmp_path / "launches.toml").read_text("utf-8")
    assert "# measured: 4.096 us, median of 2" in text
    assert 'device = "A100-SXM4-40GB"' in text
    assert main([*PREDICT, "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)["measured"]
    assert judged["measured"] == 4.096e-6
    assert judged["volumes"]["l2_store"] == {"measured": 512 * 32.0, "predicted": 16384.0}
    assert main([*PREDICT, "--measured-launch", "1"]) == 0
    shown = capsys.readouterr().out
    assert "measured 6.144 us: plausible" in shown
    assert "dram_store measured 16.5 kB, predicted" in shown
    assert f"Measured: {mangled}, grid 16×1×1, block 128×2×1." in shown


def test_a_measurement_of_another_launch(write, compiled, capsys):
    write(launch("other(int)", "_Z5otheri"))
    assert main(PREDICT) == 2
    error = capsys.readouterr().err
    assert "none of its measurements is of zero, grid 16×1×1, block 128×2×1" in error
    assert "0: _Z5otheri, grid 16×1×1, block 128×2×1" in error
    assert main([*PREDICT, "--measured-launch", "7"]) == 2
    assert "has no measurement 7; choose by --measured-launch among" in capsys.readouterr().err
    write(launch(mangled="_Z4zeroPfi", time=None))
    assert main(PREDICT) == 2
    assert "has no time; with ncu, add --section SpeedOfLight" in capsys.readouterr().err
    assert main([*PREDICT[:-1], "1 us", "--measured-launch", "0"]) == 2
    assert "'1 us' is no file of measurements" in capsys.readouterr().err
    device = {"device__attribute_display_name": ["NVIDIA GeForce RTX 3080", ""]}
    elsewhere = launch(mangled="_Z4zeroPfi")
    write({**elsewhere, "metrics": {**elsewhere["metrics"], **device}})
    assert main(PREDICT) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "measured on 'NVIDIA GeForce RTX 3080', and the prediction is of A100-SXM4" in shown


def test_a_suite_reads_them(write, tmp_path):
    write(launch(), launch(time=None))
    (tmp_path / "kernels.cu").write_text(SOURCE)
    (tmp_path / "suite.toml").write_text(
        'data = "app.ncu-rep"\nselect = "kernel"\n[device]\nname = "a100"\n'
        '[[metric]]\nname = "time"\ncolumn = "gpu__time_duration.sum"\nunit = "ns"\n'
        f'[kernels.{ZERO}]\ncuda = "kernels.cu"\nkernel = "zero"\n'
        'launch.grid = "grid_x"\nlaunch.block = ["block_x", "block_y"]\n'
    )
    first, second = read_rows(read_suite(tmp_path / "suite.toml"))
    assert (first.line, first.cells["kernel"], first.cells["block_y"]) == (2, ZERO, "2")
    assert first.cells["gpu__time_duration.sum"] == "2048.0"
    assert (first.cells["time_s"], first.cells["shared_bytes"]) == ("2.048e-06", "2048")
    assert (second.cells["time_s"], second.cells["gpu__time_duration.sum"]) == ("", "")
