"""Mistakes on the command line: the first one is named, in the words of the command line."""

import json
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.frontends.toolchain import tools

SOURCE = """
struct box { int low[4]; };
extern "C" __global__ void fill(float* a, int n, box b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i + b.low[1]] = 1;
}
"""


LISTING = str(Path(pa.__file__).parent / "sensitivity/saxpy.sass")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "fill.cu"
    path.write_text(SOURCE)
    return str(path)


def said(capsys, *arguments):
    assert main(arguments) == 2
    return capsys.readouterr().err.strip()


@pytest.mark.parametrize("command", ["predict", "advise", "whatif"])
def test_a_missing_file_comes_before_missing_options(capsys, tmp_path, source, command):
    near = str(tmp_path / "fil.cu")
    assert said(capsys, command, near).endswith("fil.cu: no such file; did you mean 'fill.cu'?")
    part = () if command != "predict" else ("--grid", "4")  # proposes a launch if none is given
    assert "--device is missing" in said(capsys, command, source, *part)
    wrong = said(capsys, command, source, "--device", "a1000")
    assert wrong.startswith("perfassert: unknown device 'a1000'; did you mean 'A100-SXM4-40GB'")
    assert "fil.cu: no such file" in said(capsys, command, near, "--device", "a1000")
    block = () if command != "predict" else ("--block", "64")
    assert "--grid is missing" in said(capsys, command, source, "--device", "a100", *block)
    assert "the source is missing" in said(capsys, command)


@pytest.mark.parametrize("which", ["--blocks", "--all-blocks"])
def test_rank_names_a_missing_file_and_a_wrong_device_first(capsys, tmp_path, source, which):
    words = ("--domain", "4096", which, "7,x")
    near = str(tmp_path / "fil.cu")
    assert "fil.cu: no such file" in said(capsys, "rank", near, "--device", "a1000", *words)
    assert "unknown device 'a1000'" in said(capsys, "rank", source, "--device", "a1000", *words)


def test_a_domain_takes_the_place_of_the_grid(capsys):
    where = ("predict", LISTING, "--device", "a100", "--arg", "n=1000", "--json")
    predictions = []
    for launch in (("--domain", "1000"), ("--grid", "4")):
        assert main([*where, *launch, "--block", "256"]) == 0
        predictions.append(json.loads(capsys.readouterr().out))
    assert predictions[0].pop("question") != predictions[1].pop("question")
    assert predictions[0] == predictions[1]
    assert main([*where, "--domain", "1000,6x", "--block", "32,4"]) == 2
    assert "--domain: '6x' is not an integer" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["predict", "advise", "whatif", "explain"])
@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (("--grid", "4", "--domain", "1000", "--block", "256"), "--grid and --domain both say"),
        (("--domain", "1000"), "--block is missing"),
        (("--grid", "4"), "--block is missing"),
        (("--block", "256"), "--grid is missing; give it, or --domain"),
        (("--domain", "1,70000", "--block", "1"), "needs 70000 blocks in y; CUDA launches at most"),
        (("--grid", "2147483648", "--block", "1"), "blocks in x; CUDA launches at most 2147483647"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_launch_that_is_none(capsys, command, launch, message):
    assert message in said(capsys, command, LISTING, "--device", "a100", *launch)


UNREAD = {
    "--assume index=x": ('assume = { index = "x" }', "assume: no load has the name 'index'"),
    "--assume x=3": ('assume = { x = "3" }', "what is loaded from 'x' as an integer"),
    "--trip-count saxpy.cu:1=3": ('trip_counts = { "saxpy.cu:1" = 3 }', "names no loop"),
    "--constant limit=3": ("constants = { limit = 3 }", "constants: no symbol 'limit'"),
}


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("option", UNREAD)
def test_what_nothing_in_the_kernel_reads_is_an_error(capsys, tmp_path, option):
    key, message = UNREAD[option]
    launch = ("--device", "a100", "--grid", "4", "--block", "256", "--arg", "n=1000")
    assert message in said(capsys, "predict", LISTING, *launch, *option.split())
    file = tmp_path / "k.perf.toml"
    file.write_text(
        'devices = ["a100"]\n[[test]]\nname = "t"\nexpect = { time = "> 0 s" }\n'
        "launch = { grid = 4, block = 256, args = { n = 1000 } }\n"
        f'kernel = {{ cubin = "saxpy.sass", {key} }}\n'
    )
    (tmp_path / "saxpy.sass").write_bytes(Path(LISTING).read_bytes())
    assert pytest.main(["-q", "-p", "no:cacheprovider", str(file)]) == 1
    assert message in capsys.readouterr().out


def test_init_names_a_missing_file_first(capsys, tmp_path):
    assert "nothing.cu: no such file" in said(capsys, "init", str(tmp_path / "nothing.cu"))


def test_an_extent_that_is_none_is_quoted(capsys, source):
    grid = ("--device", "a100", "--grid", "64,y", "--block", "32")
    assert said(capsys, "predict", source, *grid) == "perfassert: --grid: 'y' is not an integer"


def test_a_missing_argument_is_asked_for_as_an_option(capsys, source):
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        pytest.skip("needs a compiler")
    launch = (source, "--device", "a100", "--grid", "64", "--block", "32")
    missing = said(capsys, "predict", *launch, "--arg", "b.low[1]=1")
    assert "needs its argument 'n'" in missing
    assert "give --arg n=…" in missing
    assert "Launch.args" not in missing
    assert "give --arg b.low[1]=…" in said(capsys, "predict", *launch, "--arg", "n=5")
    assert main(["predict", *launch, "--arg", "n=5", "--arg", "b.low[1]=1"]) == 0


def test_a_value_that_is_no_number_names_its_option(capsys):
    launch = (LISTING, "--device", "a100", "--grid", "64", "--block", "32")
    assert said(capsys, "predict", *launch, "--arg", "n=foo").endswith(
        "--arg n: 'foo': unknown name 'foo'; give a number, or arithmetic as 4096*256"
    )
    change = ("--arg", "n=5", "--change", "dram_bandwidth=x")
    assert said(capsys, "whatif", *launch, *change).endswith(
        "--change dram_bandwidth: 'x': unknown name 'x'; give a number, or arithmetic as 4096*256"
    )


def test_loops_are_named_by_their_option(capsys, tmp_path):
    launch = ("--device", "a100", "--grid", "64", "--block", "32", "--arg", "n=5")
    assert said(capsys, "predict", LISTING, *launch, "--trip-count", "x=2").startswith(
        "perfassert: --trip-count x names no loop"
    )


COUNTED = """
extern "C" __global__ void sum(float* a, const int* length) {
    float s = 0;
    for (int j = 0; j < *length; j++) s += a[j];
    a[threadIdx.x] = s;
}
"""


def test_assumed_trip_counts_are_given_by_their_option(capsys, tmp_path):
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        pytest.skip("needs a compiler")
    path = tmp_path / "sum.cu"
    path.write_text(COUNTED)
    assert main(["predict", str(path), "--device", "a100", "--grid", "64", "--block", "32"]) == 0
    text = capsys.readouterr().out
    assert "say --trip-count sum.cu:4" in text
    assert "trip_counts=" not in text


TEMPLATES = """
template <typename T, int N> __global__ void scale(T* out, const T* in, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * N;
  for (int j = 0; j < N; ++j) if (i + j < n) out[i + j] = in[i + j] * T(2);
}
"""


@pytest.fixture
def templates(tmp_path):
    path = tmp_path / "templates.cu"
    path.write_text(TEMPLATES)
    return str(path)


@pytest.mark.parametrize("command", ["kernels", "survey", "init", "predict", "diff"])
def test_a_file_of_templates_says_how_to_name_an_instance(templates, command, tmp_path, capsys):
    more = {"diff": [templates], "init": ["-o", str(tmp_path / "test_it.py")]}.get(command, [])
    arch = ["--arch", "sm_80"] if command == "survey" else ["--device", "a100"]
    assert main([command, templates, *more, *arch]) == 2
    error = capsys.readouterr().err
    assert "templates need their arguments: scale<typename T, int N>" in error
    assert "template __global__ void scale<float, 4>(…);" in error


def test_a_suggested_instance_compiles(templates, capsys):
    named = ["predict", templates, "--device", "a100", "--kernel"]
    assert main([*named, "scale<double>"]) == 2
    error = capsys.readouterr().err
    suggested = error.partition("did you mean '")[2].partition("'")[0]
    assert suggested == "scale<double, 4>"
    assert main([*named, suggested]) == 0
    assert "--arg n=1048576" in capsys.readouterr().err


def test_kernels_beside_templates(templates, tmp_path, capsys):
    (tmp_path / "plain.cu").write_text("__global__ void plain(int* a) { a[threadIdx.x] = 1; }")
    assert main(["kernels", str(tmp_path), "--arch", "sm_80"]) == 0
    out, err = capsys.readouterr()
    assert "1 kernel" in out
    assert "left out: templates.cu: there is no kernel in it; templates need" in err
