import gzip
import pickle
from pathlib import Path

import pytest
from copy_suite import HEADER, ROWS, SUITE, read_shipped, write

import perfassert as pa
from perfassert.errors import SuiteError
from perfassert.hardware.occupancy import occupancy
from perfassert.kernel.integers import evaluate_integer, integer_names
from perfassert.lab.validation.build import (
    holding,
    make_device,
    make_kernel,
    make_launch,
    measured_value,
    predicted_value,
    row_names,
)
from perfassert.lab.validation.data import read_rows
from perfassert.lab.validation.read import read_suite

SUITES = sorted((Path(__file__).parents[3] / "validation").glob("*.toml"))
CONVOLUTION = SUITES[0].parents[1] / "examples" / "kernels" / "convolution.cu"


def reading(**options):
    field = pa.Field("a", shape=(1024,))
    return pa.Kernel.from_accesses("k", [field], loads=["a[x % 1024]"], **options)


def built(suite, row):
    spec = suite.kernels[suite.kernel_key(row.cells)]
    names = row_names(spec, row.cells)
    device = make_device(suite.device, row.cells)
    kernel = make_kernel(spec, names, suite.kernel_key(row.cells))
    return kernel, make_launch(spec.launch, names, kernel, device), device


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_shipped_suites_are_well_formed(path, tmp_path):
    suite = read_shipped(path, tmp_path)
    assert suite.title
    assert suite.source
    assert pickle.loads(pickle.dumps(suite)) == suite


def test_a_row_becomes_kernel_and_launch(tmp_path):
    suite = read_suite(write(tmp_path))
    rows = read_rows(suite)
    assert [row.line for row in rows] == list(range(2, 2 + len(ROWS)))
    kernel, launch, device = built(suite, rows[-1])
    assert (kernel.name, kernel.registers, device.name) == ("read", 32, "A100-SXM4-40GB")
    assert kernel.fields["b"].shape == (16_000_000,)
    assert (launch.threads, launch.block) == (16_000_000, (256, 1, 1))


def test_data_beside_the_suite_are_found_where_the_folder_of_data_has_none(tmp_path):
    (other := tmp_path / "measured").mkdir()
    suite = read_suite(write(tmp_path))
    assert len(read_rows(suite, other)) == len(ROWS)
    (other / "copies.csv").write_text(",".join(HEADER) + "\n" + ",".join(map(str, ROWS[0])) + "\n")
    assert len(read_rows(suite, other)) == 1


def test_columns_are_found_with_a_cell_each(tmp_path):
    path = write(tmp_path)
    data = tmp_path / "copies.csv"
    data.write_text("\n".join(("kernel,kernel", "a,b")))
    with pytest.raises(SuiteError, match="column 'kernel' is there twice"):
        read_rows(read_suite(path))
    data.write_text(",".join(HEADER) + "\ncopy,1,2\n")
    with pytest.raises(SuiteError, match="line 2: 3 cells, but the header has 5"):
        read_rows(read_suite(path))
    data.write_text(",".join(HEADER) + "\n")
    with pytest.raises(SuiteError, match="no rows below the header"):
        read_rows(read_suite(path))
    data.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(SuiteError, match="not a CSV file"):
        read_rows(read_suite(path))


def test_compressed_data(tmp_path):
    path = write(tmp_path, SUITE.replace("copies.csv", "copies.csv.gz"))
    packed = tmp_path / "copies.csv.gz"
    packed.write_bytes(gzip.compress((tmp_path / "copies.csv").read_bytes()))
    assert len(read_rows(read_suite(path))) == len(ROWS)
    packed.write_bytes(b"no archive")
    with pytest.raises(SuiteError, match="cannot be read"):
        read_rows(read_suite(path))


def test_where_data_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("PERFASSERT_MEASURED", raising=False)
    (tmp_path / "data").mkdir()
    path = write(tmp_path)
    (tmp_path / "copies.csv").rename(tmp_path / "data/copies.csv")
    suite = read_suite(path)
    with pytest.raises(SuiteError, match=r"no copies.csv in .*--data DIR .*PERFASSERT_MEASURED"):
        read_rows(suite)
    assert read_rows(suite, tmp_path / "data")
    monkeypatch.setenv("PERFASSERT_MEASURED", str(tmp_path / "data"))
    assert read_rows(suite)
    with pytest.raises(SuiteError, match="no copies.csv in .*nowhere"):
        read_rows(suite, tmp_path / "nowhere")  # what is named is not replaced by what is not


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ('kernel = "copy"', 6),
        ('kernel = ["copy", "read"]', 12),
        ("mega = 4", 4),
        ("mega = 4.0", 4),
        ('mega = "4"', 4),
        ("mega = [1, 16]", 8),
        ("mega = { min = 4 }", 8),
        ("mega = { max = 4 }", 8),
        ("mega = { min = 2, max = 8 }\nthreads = 128", 2),
    ],
)
def test_filters(tmp_path, condition, count):
    suite = read_suite(write(tmp_path, SUITE + f"\n[filter]\n{condition}\n"))
    assert len(read_rows(suite)) == count


def test_rows_are_spread_evenly(tmp_path):
    suite = read_suite(write(tmp_path))
    assert [row.line for row in read_rows(suite, limit=4)] == [2, 5, 8, 11]
    assert len(read_rows(suite, limit=99)) == len(ROWS)


METRIC = '[[metric]]\nname = "time"\ncolumn = "time_us"\nunit = "us"'


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('title = "Copies"', "title = ", "not valid TOML"),
        ('title = "Copies"', "titel = 1", "titel: unknown key; did you mean 'title'"),
        ('title = "Copies"', "title = 3", "title: must be a string, not 3"),
        ('data = "copies.csv"\n', "", "data: missing"),
        ('select = "kernel"\n', "", "select: missing; name the column"),
        ('name = "A100-SXM4-40GB"', "", "device: give name, or column"),
        ('name = "A100-SXM4-40GB"', 'name = "A101"', "device: unknown device 'A101'; did you"),
        ('"A100-SXM4-40GB"', '"a100"\nclock_hz = -1', "device: .*clock_hz"),
        ('"A100-SXM4-40GB"', '"a100"\nclock = 1', "device.clock: unknown key; did you mean 'clock"),
        ('"mega * million"', '"mega ** 2"', "constants.n: 'mega .* 2': only"),
        ('"mega * million"', '"max(mega, 2)"', "unknown function 'max'; there is only ceil_div"),
        ('"mega * million"', '"__import__(1)"', "unknown function"),
        ('"mega * million"', '"mega.real"', "only . - . // %"),
        ('"mega * million"', '"ceil_div(mega)"', "ceil_div takes two arguments"),
        ('"mega * million"', '"mega *"', "not an expression"),
        ('"mega * million"', "1.5", "constants.n: must be an integer or an expression"),
        ('block = "threads"\n', "", "launch.block: missing"),
        ('domain = "n"\n', "", "launch: give domain"),
        ('domain = "n"', 'domain = "n"\ngrid = 1', "launch.domain: does not go with grid"),
        ('domain = "n"', 'domains = "n"', "launch.domains: unknown key; did you mean 'domain'"),
        ('domain = "n"', 'domain = "n"\nargs = 1', "launch.args: must be a table"),
        ('domain = "n"', 'domain = "n"\nargs = { p = { } }', r"launch.args.p.shape: missing; a p"),
        ('loads = ["b[x]"]\nstores', 'laods = ["b[x]"]\nstores', "laods: unknown key; did you"),
        ('{ name = "a", shape = "n" }', '{ name = "a" }', r"fields\[0\].shape: missing"),
        ("[kernels.copy.accesses]", "[kernels.copy.acesses]", "kernels.copy.acesses: unknown key"),
        ("[kernels.copy.accesses]", "[kernels.copy]", "kernels.copy.fields: unknown key"),
        ("[kernels.copy.acc", "[kernels.copy]\noptions=[]\n[kernels.copy.acc", "goes with cuda"),
        ("[kernels.copy.acc", "[kernels.none]\n[kernels.copy.acc", "kernels.none: give accesses"),
        (METRIC, "", None),
        (METRIC, METRIC + "\n" + METRIC, r"metric\[1\].name: 'time' is there twice"),
        ('name = "time"', 'name = "tyme"', r"metric\[0\].name: no metric 'tyme'; did you"),
        ('name = "time"', 'name = "limiter"', "no metric 'limiter'"),
        ('unit = "us"', 'unit = "furlong"', r"metric\[0\].unit: unknown unit 'furlong'"),
        ('unit = "us"', 'unit = "B"', r"unit: time is counted in s, not in B"),
        ('unit = "us"', 'unit = "GB/s"', r"metric\[0\].bytes: missing; a bandwidth needs"),
        ('unit = "us"', 'unit = "us"\nbytes = 8', r"metric\[0\].bytes: only a bandwidth has it"),
        ('unit = "us"', 'unit = "us"\nper = "warp"', "time does not grow with the launch"),
        ('unit = "B"', 'unit = "B"\nper = "wrap"', r"metric\[1\].per: 'wrap' is none of"),
        ('unit = "B"', 'unit = "B"\nscale = 0', r"metric\[1\].scale: must be above 0"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, old, new, reason):
    assert SUITE.count(old)
    path = write(tmp_path, SUITE.replace(old, new, 1))
    if reason is None:
        read_suite(path)
        return
    with pytest.raises(SuiteError, match=reason) as caught:
        read_suite(path)
    assert "copies.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("mega * million", "megga * million", "constants.n: copies.csv has no column 'megga'; did"),
        ('select = "kernel"', 'select = "kernal"', "select: copies.csv has no column 'kernal'"),
        ('"time_us"', '"time_ms"', r"metric\[0\].column: copies.csv has no column 'time_ms'; did"),
        ("[kernels.read.", "[kernels.reed.", r"none for 'read' \(copies.csv, line 8\); did you"),
        ('title = "Copies"', 'group = ["grup"]', "group: copies.csv has no column 'grup'"),
        ('[device]\nname = "A100-SXM4-40GB"', '[device]\ncolumn = "gpu"', "device.column: copies"),
        ("[device]", "[filter]\nmega = 5\n[device]", "filter: none of the 12 rows .* passes"),
        ("[device]", "[filter]\nmegas = 5\n[device]", "filter.megas: copies.csv has no column"),
    ],
)
def test_what_does_not_fit_the_data_is_named(tmp_path, old, new, reason):
    suite = read_suite(write(tmp_path, SUITE.replace(old, new, 1)))
    with pytest.raises(SuiteError, match=reason):
        read_rows(suite)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("true", "filter.mega: must be a value"),
        ("{ least = 1 }", "filter.mega.least: unknown key; known: min, max"),
        ("{}", "filter.mega: give min, max or both"),
        ('{ min = "a" }', "filter.mega.min: must be a number"),
    ],
)
def test_filters_are_declarative(tmp_path, table, reason):
    with pytest.raises(SuiteError, match=reason):
        read_suite(write(tmp_path, SUITE + f"\n[filter]\nmega = {table}\n"))


def test_no_such_suite(tmp_path):
    with pytest.raises(SuiteError, match="cannot be read"):
        read_suite(tmp_path / "none.toml")


CUDA = """
data = "copies.csv"
[device]
name = "a100"
[launch]
grid = ["ceil_div(mega, 2)", 1]
block = "threads"
args = { out = { shape = ["mega", 2], dtype = "float64" }, n = "mega", a = 0.5 }
[kernel]
cuda = "k.cu"
kernel = "copy"
defines = { BLOCK = "threads", TWO = 2 }
options = ["-use_fast_math"]
trip_counts = { "k.cu:3" = "mega + 1" }
updates_per_thread = "mega"
[[metric]]
name = "time"
column = "time_us"
unit = "us"
"""


def test_cuda_sources(tmp_path, monkeypatch):
    path = write(tmp_path, CUDA)
    with pytest.raises(SuiteError, match="kernel.cuda: there is no file .*k.cu; the path is rel"):
        read_suite(path)
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (elsewhere / "k.cu").touch()
    (source,) = read_suite(path, elsewhere).kernels.values()
    assert source.cuda.path == elsewhere / "k.cu"
    (tmp_path / "k.cu").touch()
    (source,) = read_suite(path, elsewhere).kernels.values()
    assert source.cuda.path == elsewhere / "k.cu"
    (elsewhere / "k.cu").unlink()
    (source,) = read_suite(path, elsewhere).kernels.values()  # of suites that lie beside theirs
    assert source.cuda.path == tmp_path / "k.cu"
    suite = read_suite(path)
    calls = []

    def from_cuda(source, kernel, **options):
        calls.append((source, kernel, options))
        return reading()

    monkeypatch.setattr("perfassert.frontends.cuda.kernels.from_cuda", from_cuda)
    _, launch, _ = built(suite, read_rows(suite)[2])
    assert launch.grid == (2, 1, 1)
    assert launch.args == {"out": pa.Buffer((4, 2), "float64"), "n": 4, "a": 0.5}
    source, kernel, options = calls[0]
    assert (source, kernel) == (tmp_path / "k.cu", "copy")
    assert options == {
        "defines": {"BLOCK": 128, "TWO": 2},
        "include_dirs": (),
        "options": ("-use_fast_math",),
        "updates_per_thread": 4,
        "trip_counts": {"k.cu:3": 5},
    }


def test_a_null_pointer(tmp_path, monkeypatch):
    (tmp_path / "k.cu").touch()
    suite = read_suite(write(tmp_path, CUDA.replace("a = 0.5", 'a = "null"')))
    monkeypatch.setattr("perfassert.frontends.cuda.kernels.from_cuda", lambda *a, **k: reading())
    _, launch, _ = built(suite, read_rows(suite)[2])
    assert launch.args["a"] is None


def test_kernels_complete_what_the_suite_says(tmp_path):
    own = "[kernels.read.launch]\ngrid = 7\nshared_bytes = 512\n[kernels.read.accesses]"
    text = SUITE.replace("[kernels.read.accesses]", own)
    suite = read_suite(write(tmp_path, text))
    rows = read_rows(suite)
    _, launch, _ = built(suite, rows[-1])
    assert (launch.grid, launch.shared_bytes, launch.domain) == ((7, 1, 1), 512, None)
    assert built(suite, rows[0])[1].domain == (1_000_000, 1, 1)


def test_devices_by_column_and_changed(tmp_path):
    text = SUITE.replace('name = "A100-SXM4-40GB"', 'column = "gpu"\nclock_hz = 765e6')
    rows = [(*row, "L40") for row in ROWS]
    suite = read_suite(write(tmp_path, text, rows, (*HEADER, "gpu")))
    device = make_device(suite.device, read_rows(suite)[0].cells)
    assert (device.name, device.clock_hz) == ("L40", 765e6)


@pytest.mark.parametrize("name", ["a100", "V100-PCIE-32GB", "RTX-2080-Ti", "H100-PCIE-80GB"])
@pytest.mark.parametrize(("blocks", "threads"), [(1, 16), (1, 512), (2, 32), (2, 512), (4, 128)])
def test_shared_memory_holds_occupancy_down(name, blocks, threads):
    device = pa.device(name)
    kernel = reading(registers=16, shared_bytes=100)
    dynamic = holding(blocks, pa.Launch(1, threads), kernel, device)

    def resident(shared):
        return occupancy(device, threads, 16, 100 + shared).resident_blocks

    assert resident(dynamic) == blocks
    assert dynamic == 0 or resident(dynamic - 1) > blocks


def test_no_shared_memory_holds_more_than_fit():
    kernel = reading()
    with pytest.raises(SuiteError, match="limits .* to 4 blocks .*; the nearest number is 2"):
        holding(4, pa.Launch(1, 1024), kernel, pa.device("a100"))


def test_metrics_of_a_row(tmp_path):
    extra = """
[[metric]]
name = "bandwidth"
column = "time_us"
unit = "us"
bytes = "8 * n"
[[metric]]
name = "l1_wavefronts"
column = ["threads", "mega"]
scale = 0.5
per = "warp_memory_instruction"
[[metric]]
name = "l2_load"
column = "load_bytes"
unit = "B/thread"
"""
    text = SUITE.replace('unit = "us"', 'unit = "GB/s"\nbytes = "8 * n"', 1) + extra
    suite = read_suite(write(tmp_path, text))
    row = read_rows(suite)[-1]
    names = row_names(suite.kernels["read"], row.cells)
    kernel, launch, device = built(suite, row)
    prediction = pa.predict(kernel, launch, device)
    column = float(row.cells["time_us"])
    time, _, bandwidth, wavefronts, l2 = suite.metrics
    assert measured_value(time, row.cells, names) == pytest.approx(128e6 / column / 1e9)
    assert predicted_value(time, prediction, names) == float(prediction.time)
    assert measured_value(bandwidth, row.cells, names) == pytest.approx(128e6 / column / 1e-6)
    assert predicted_value(bandwidth, prediction, names) == 128e6 / float(prediction.time)
    assert measured_value(wavefronts, row.cells, names) == (256 + 16) / 2
    assert predicted_value(wavefronts, prediction, names) == 2
    assert predicted_value(l2, prediction, names) == pytest.approx(8)
    assert bandwidth.higher_is_better
    assert not time.higher_is_better


def test_cells_that_hold_no_measurement(tmp_path):
    suite = read_suite(write(tmp_path))
    for cell, reason in (
        ("", "column 'time_us': is empty"),
        ("fast", "'fast' is not a number"),
        ("0", "measured 0; an error in percent"),
        ("nan", "measured nan"),
        ("-3", "measured -3"),
    ):
        with pytest.raises(SuiteError, match=reason):
            measured_value(suite.metrics[0], {"time_us": cell}, {})


def test_cells_in_expressions():
    suite = read_suite(SUITES[0].parent / "stream_occupancy_v100.toml")
    spec = suite.kernels["scale"]
    names = row_names(spec, {"a": "16", "b": "16.0", "c": "1e3", "d": "1.5", "e": "", "f": "inf"})
    assert {k: names[k] for k in names if len(k) == 1 and k != "n"} == {"a": 16, "b": 16, "c": 1000}
    with pytest.raises(SuiteError, match="column 'blocks_per_sm' has no integer in this row"):
        make_launch(spec.launch, names, None, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [("ceil_div(7, 2)", 4), ("ceil_div(8, n)", 2), ("-ceil_div(n - 5, 2)", 0), ("n % 3 * 2", 2)],
)
def test_integer_expressions(text, value):
    assert evaluate_integer(text, {"n": 4}, SuiteError) == value


def test_names_of_an_expression():
    assert integer_names("ceil_div(a, b) + c // (2 - a)", SuiteError) == {"a", "b", "c"}
    with pytest.raises(SuiteError, match="division by zero"):
        evaluate_integer("ceil_div(1, a)", {"a": 0}, SuiteError)
