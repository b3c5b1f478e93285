"""Profiles become launches files: both pages of Nsight Compute, databases of Nsight Systems."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.frontends.profiles.launch import ProfiledLaunches, Shape
from perfassert.frontends.profiles.match import matching
from perfassert.frontends.profiles.read import read_profile
from perfassert.frontends.toolchain import tools
from perfassert.perf_toml.launches import launches

SOURCE = """
template <typename T> __global__ void axpy(T a, const T* x, T* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] += a * x[i];
}
template __global__ void axpy<float>(float, const float*, float*, int);
__global__ void zero(float* y) { y[blockIdx.x * blockDim.x + threadIdx.x] = 0; }
"""
AXPY, ZERO = "_Z4axpyIfEvT_PKS0_PS0_i", "_Z4zeroPf"
HEAD = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
HEAD += '"Grid Size","Device","CC"'
FIRST = '"{id}","7","app","host","void axpy<float>(T1, const T1 *, T1 *, int)","1","7",'
FIRST += '"(256, 1, 1)","(1,024, 1, 1)","0","8.0"'
SECOND = '"{id}","7","app","host","zero(float *)","1","7","(128, 2, 1)","(16, 1, 1)","0","8.0"'
ALIKE = ProfiledLaunches(
    Shape("void axpy<float>(T1, const T1 *, T1 *, int)", (1024, 1, 1), (256, 1, 1), 2048),
    2, (4e-6, 5e-6),
)  # fmt: skip


def details(shared="2,048", unit="byte/block"):
    """The default page, after what the profiler says meanwhile."""
    lines = [
        "==PROF== Connected",
        f'{HEAD},"Section Name","Metric Name","Metric Unit","Metric Value"',
    ]
    for number, time in ((0, "4.00"), (1, "5.00")):
        first = FIRST.format(id=number)
        lines.append(f'{first},"SpeedOfLight","Duration","us","{time}"')
        lines.append(f'{first},"Launch","Dynamic Shared Memory Per Block","{unit}","{shared}"')
    lines.append(f'{SECOND.format(id=2)},"SpeedOfLight","Duration","us","1,205.00"')
    return "\n".join([*lines, "==PROF== Disconnected"])


def raw():
    names = (
        '"gpu__time_duration.sum","launch__shared_mem_per_block_dynamic","launch__cluster_dim_x"'
    )
    names += ',"launch__cluster_dim_y","launch__cluster_dim_z"'
    units = ",".join(['""'] * 11) + ',"nsecond","byte/block","","",""'
    rows = [f'{FIRST.format(id=n)},"{n + 4},000","2,048","0","0","0"' for n in (0, 1)]
    return "\n".join(
        [f"{HEAD},{names}", units, *rows, f'{SECOND.format(id=2)},"900","0","2","1","1"']
    )


def test_both_pages_of_nsight_compute(tmp_path):
    place = tmp_path / "ncu.csv"
    place.write_text(details())
    found = read_profile(place).launches
    other = Shape("zero(float *)", (16, 1, 1), (128, 2, 1), None)
    assert found[0] == ALIKE
    assert found[1] == ProfiledLaunches(other, 1, (pytest.approx(1.205e-3),))
    place.write_text(raw())
    found = read_profile(place).launches
    assert found[0] == ALIKE
    clusters = Shape("zero(float *)", (16, 1, 1), (128, 2, 1), 0, (2, 1, 1))
    assert found[1] == ProfiledLaunches(clusters, 1, (pytest.approx(9e-7),))


def database(place, columns, rows, device="NVIDIA A100-SXM4-40GB"):
    with closing(sqlite3.connect(place)) as made, made:
        made.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        names = enumerate((AXPY, "zero(float *)"), 1)
        made.executemany("INSERT INTO StringIds VALUES (?, ?)", names)
        made.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT)")
        made.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?)", (device,))
        made.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        made.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})", rows)


COLUMNS = (
    "start", '"end"', "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "demangledName",
    "mangledName", "dynamicSharedMemory", "clusterX", "clusterY", "clusterZ",
)  # fmt: skip
ROWS = [
    (9000, 10000, 16, 1, 1, 128, 2, 1, 2, None, 0, 0, 0, 0),
    (1000, 5000, 1024, 1, 1, 256, 1, 1, 2, 1, 2048, 0, 0, 0),
    (6000, 8000, 1024, 1, 1, 256, 1, 1, 2, 1, 2048, 0, 0, 0),
]


def test_nsight_systems_by_the_columns_it_has(tmp_path):
    database(tmp_path / "a.sqlite", COLUMNS, ROWS)
    found = read_profile(tmp_path / "a.sqlite")
    first, second = found.launches
    assert found.device == "NVIDIA A100-SXM4-40GB"
    assert first.shape == Shape(AXPY, (1024, 1, 1), (256, 1, 1), 2048)
    assert first.seconds == (pytest.approx(4e-6), pytest.approx(2e-6))
    assert second.shape == Shape("zero(float *)", (16, 1, 1), (128, 2, 1), 0)
    few = COLUMNS[:9]
    database(tmp_path / "b.sqlite", few, [row[:9] for row in ROWS])
    assert read_profile(tmp_path / "b.sqlite").launches[0].shape.shared_bytes is None
    database(tmp_path / "c.sqlite", COLUMNS[:6], [])
    with pytest.raises(pa.RecordError, match="lacks blockY, blockZ"):
        read_profile(tmp_path / "c.sqlite")


def test_a_database_that_was_damaged(tmp_path):
    place = tmp_path / "a.sqlite"
    database(place, COLUMNS, [(None, None, *ROWS[0][2:])])
    with pytest.raises(pa.RecordError, match="no integers: {'start': None"):
        read_profile(place)
    with closing(sqlite3.connect(place)) as made, made:
        made.execute("DROP TABLE StringIds")
    with pytest.raises(pa.RecordError, match="no table StringIds"):
        read_profile(place)


def test_a_view_is_not_computed(tmp_path):
    """A view is rejected, since its computation might not end."""
    place = tmp_path / "a.sqlite"
    database(place, COLUMNS, ROWS)
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x, x FROM n"
    with closing(sqlite3.connect(place)) as made, made:
        made.execute("DROP TABLE StringIds")
        made.execute(f"CREATE VIEW StringIds (id, value) AS {endless}")
    with pytest.raises(pa.RecordError, match="no table StringIds"):
        read_profile(place)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is neither a CSV of Nsight Compute nor a database; write it with: ncu"),
        ("a,b\n1,2\n", "is neither a CSV"),
        (HEAD.replace('"Grid Size"', '"Grid"'), ":1: has no column 'Grid Size'"),
        (HEAD, "has no launch"),
        (details().replace("(256, 1, 1)", "()"), "launch 0: Block Size is '()'"),
        (details("2.05", "Kbyte/block"), "2.05 Kbyte/block, which is no count or rounded"),
        (details("inf"), "which is no count"),
        (details("-64"), "which is no count"),
        (details().replace("256", "9" * 5000), "launch 0: Block Size is"),
        (details().replace('"Metric Value"', '"Value"'), "has no column 'Metric Value'"),
        (details().replace("axpy", "a" * 200_000), "is no CSV: field larger than field limit"),
    ],
)
def test_what_is_no_profile(tmp_path, text, message):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(pa.RecordError) as caught:
        read_profile(tmp_path / "x.csv")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        (AXPY, [AXPY]),
        ("void axpy<float>(T1, const T1 *, T1 *, int)", [AXPY]),
        ("axpy", [AXPY]),
        ("zero(float*)", [ZERO]),
        ("zero", [ZERO, "_ZN2ns4zeroEPd"]),
        ("ns::zero(double *)", ["_ZN2ns4zeroEPd"]),
        ("zer", []),
    ],
)
def test_names_as_profilers_show_them(shown, found):
    if shown == "zero":
        found = [ZERO]  # the one without namespaces is stricter
    assert matching(shown, (AXPY, ZERO, "_ZN2ns4zeroEPd")) == found


def test_import_then_predict(tmp_path, monkeypatch, capsys):
    for name in ("nvrtc", "nvdisasm"):
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.cu").write_text(SOURCE)
    (tmp_path / "ncu.csv").write_text(details())
    command = ["launches", "import", "ncu.csv", "--code", "kernels.cu", "-D", "UNUSED=1"]
    assert main(command) == 2
    assert "give --device" in capsys.readouterr().err
    assert main([*command, "--device", "a100"]) == 0
    assert "3 launches of 2 kernels, 2 distinct" in capsys.readouterr().out
    text = (tmp_path / "launches.toml").read_text()
    assert "# measured: 4.5 us, median of 2" in text
    assert "of which the profile says nothing" in text
    assert 'defines = { UNUSED = "1" }' in text
    filled = text.replace("# n = 0 # int", "n = 1048576").replace(
        "# [launch.args]", "[launch.args]", 1
    )
    (tmp_path / "launches.toml").write_text(filled)
    axpy, zero = launches("launches.toml")
    assert (axpy.count, axpy.launch.grid, axpy.launch.shared_bytes) == (2, (1024, 1, 1), 2048)
    assert pa.predict(axpy.kernel, axpy.launch, axpy.device).updates >= 1024 * 256
    assert zero.launch.block == (128, 2, 1)
    assert main([*command, "--device", "a100"]) == 2
    assert "--force replaces it" in capsys.readouterr().err

    database(tmp_path / "nsys.sqlite", COLUMNS, ROWS)
    database_row = ["launches", "import", "nsys.sqlite", "--code", "kernels.cu", "--force"]
    assert main(database_row) == 0
    capsys.readouterr()
    assert main([*database_row, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["file"], said["device"]) == ("launches.toml", "A100-SXM4-40GB")
    assert said["launches"] >= said["distinct"] >= said["kernels"] >= 1
    assert said["left_out"] == []
    assert launches("launches.toml")[0].device == "A100-SXM4-40GB"

    (tmp_path / "other.cu").write_text("__global__ void other(int* a) { *a = 1; }")
    assert main(["launches", "import", "nsys.sqlite", "--code", "other.cu", "--force"]) == 2
    said = capsys.readouterr().err
    assert "left out: zero(float *): no kernel is called so" in said
    assert "no kernel of it is in other.cu" in said
