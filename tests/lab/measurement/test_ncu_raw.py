"""Nsight Compute's raw page: header, units, rows; and what the tool says when it cannot."""

import stat
import sys

import pytest

from perfassert.lab.measurement import counters
from perfassert.lab.measurement.counters import (
    COUNTERS,
    NoCounters,
    command,
    parse_raw,
    profile_command,
    unit_factor,
)
from perfassert.lab.measurement.gpu import MeasurementError

RAW = """\
==PROF== Connected to process 4711 (/usr/bin/python3.11)
a line of the program
==PROF== Profiling "copy" - 0: 0%....50%....100% - 8 passes
==PROF== Disconnected from process 4711
"ID","Process ID","Process Name","Kernel Name","Block Size","dram__bytes_read.sum",\
"dram__bytes_write.sum","gpu__time_duration.sum","launch__registers_per_thread",\
"lts__t_sectors_srcunit_tex_op_read.sum","smsp__inst_executed.sum"
"","","","","","Mbyte","byte","usecond","register/thread","sector","inst"
"0","4711","python3.11","copy","(256, 1, 1)","4.194304","2,097,152","6.5","16","131,072","327680"
"1","4711","python3.11","copy, too","(256, 1, 1)","67.11","n/a","98,304.25","16","2.1e6","0"
"""


def test_rows_are_in_base_units():
    first, second = parse_raw(RAW)
    assert first["dram__bytes_read.sum"] == 4194304
    assert first["dram__bytes_write.sum"] == 2097152
    assert first["gpu__time_duration.sum"] == pytest.approx(6.5e-6)
    assert first["launch__registers_per_thread"] == 16
    assert first["lts__t_sectors_srcunit_tex_op_read.sum"] == 131072
    assert first["Block Size"] == "(256, 1, 1)"
    assert second["Kernel Name"] == "copy, too"
    assert second["dram__bytes_write.sum"] == ""
    assert second["gpu__time_duration.sum"] == pytest.approx(98304.25e-6)
    assert second["smsp__inst_executed.sum"] == 0


def test_cells_by_column():
    cells = counters.counters(parse_raw(RAW)[1])
    assert set(cells) == set(COUNTERS)
    assert cells["dram_read_bytes"] == "67110000"
    assert (cells["dram_write_bytes"], cells["shared_load_wavefronts"]) == ("", "")
    assert cells["warp_instructions"] == "0"


@pytest.mark.parametrize(
    ("unit", "number"),
    [("byte", 1), ("Kbyte", 1e3), ("Gbyte", 1e9), ("nsecond", 1e-9), ("us", 1e-6), ("ms", 1e-3),
     ("s", 1), ("sector", 1), ("Ksector", 1e3), ("inst", 1), ("Minst", 1e6), ("Ghz", 1e9), ("%", 1),
     ("register/thread", 1), ("", 1), ("cycle", 1), ("Kbyte/block", 1e3), ("warp", 1)],
)  # fmt: skip
def test_units(unit, number):
    assert unit_factor(unit) == number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no raw page"),
        ("==PROF== nothing\n", "no raw page"),
        ('"ID","a"\n', "no row of units"),
        ('"ID","a"\n"0","1"\n', "no row of units"),
        ('"ID","a"\n"","byte"\n"0"\n', "1 cells below 2 columns"),
        ('"ID","a"\n"","byte"\n"0","1\n', "damaged"),
    ],
)
def test_what_is_no_raw_page(text, message):
    with pytest.raises(MeasurementError, match=message):
        parse_raw(text)


def tool(folder, text, status=0):
    """A program that prints ``text``; its path."""
    path = folder / "ncu"
    path.write_text(f"#!{sys.executable}\nimport sys\nprint({text!r})\nsys.exit({status})\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_profile(tmp_path):
    ncu = tool(tmp_path, RAW)
    given = command(ncu, tmp_path / "s.toml", [0, 2], ["copy", "_Z3addPf", "copy"], "a100", 1)
    assert given[-4:] == [str(tmp_path / "s.toml"), "0,2", "a100", "1"]
    assert "from perfassert.lab.measurement.replay import main" in given[-5]
    assert given[given.index("--kernel-name") + 1] == "regex:^(_Z3addPf|copy)$"
    assert [cells["registers"] for cells in profile_command(given, 2)] == ["16", "16"]
    with pytest.raises(MeasurementError, match="2 launches, not 3"):
        profile_command(given, 3)


@pytest.mark.parametrize(
    ("text", "status", "error", "message"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", 1, NoCounters,
         "NVreg_RestrictProfilingToAdminUsers=0"),
        ("==ERROR== Failed to find metric x", 0, MeasurementError, "Failed to find metric x"),
        ("", 9, MeasurementError, "status 9"),
    ],
)  # fmt: skip
def test_a_tool_that_fails(tmp_path, text, status, error, message):
    with pytest.raises(error, match=message):
        profile_command([tool(tmp_path, text, status)], 1)


def test_no_tool(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoCounters, match="--no-counters"):
        counters.find_ncu()
    with pytest.raises(NoCounters, match="does not run"):
        profile_command([str(tmp_path / "ncu")], 1)
