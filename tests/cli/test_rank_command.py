"""``perfassert rank``."""

import json
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import perfassert as pa
from perfassert import plugins
from perfassert.cli import rank as command
from perfassert.cli.main import main
from perfassert.ranking.plot import plot

DOMAIN = (640, 512, 512)


def star(path, kernel):
    """A front end, so that no compiler is needed; the file says reach and registers."""
    (reach, registers), halo = map(int, path.read_text().split()), 4
    shape = DOMAIN[::-1]
    fields = [pa.Field("src", shape=shape, halo=halo), pa.Field("dst", shape=shape, halo=halo)]
    offsets = [d for d in range(-reach, reach + 1) if d]
    loads = ["src[z, y, x]", *(f"src[z, y, x + {d}]" for d in offsets)]
    loads += [f"src[z, y + {d}, x]" for d in offsets] + [f"src[z + {d}, y, x]" for d in offsets]
    return pa.Kernel.from_accesses("star", fields, loads, ["dst[z, y, x]"], registers=registers)


@pytest.fixture
def source(tmp_path):
    hook = plugins.hookimpl(lambda: {".star": star})
    plugins.register(SimpleNamespace(perfassert_frontends=hook), "star")
    path = tmp_path / "k.star"
    path.write_text("4 32")
    yield str(path)
    plugins.unregister("star")


def rank(source, *options):
    """Run ``perfassert rank`` in this process, since other processes do not know the front end."""
    where = ["--device", "a100", "--domain", "640,512,512", "--jobs", "1"]
    return main(["rank", source, *where, *options])


def test_table_marks_ties(source, capsys):
    assert rank(source, "--blocks", "16,2,8; 256,1,2;16x2x16;8,8,16;") == 0
    out = capsys.readouterr().out
    ranking = pa.rank(
        [(16, 2, 8), (256, 1, 2), (16, 2, 16), (8, 8, 16)],
        "a100",
        kernel=star_kernel(source),
        domain=DOMAIN,
    )
    assert ranking.table() in out
    assert "star on A100-SXM4-40GB: 4 blocks" in out
    tied = len(ranking.tied_with_best()) - 1
    assert len(re.findall(r"^\d+ =", out, re.M)) == tied
    assert "= tied with the best: less than 90.0 % sure that the best is faster" in out


def star_kernel(source):
    return star(Path(source), None)


def test_json_of_all_shapes(source, capsys):
    assert rank(source, "--all-blocks", "64,128", "--json", "--top", "3") == 0
    data = json.loads(capsys.readouterr().out)
    assert [b["place"] for b in data["blocks"]] == [1, 2, 3]
    assert data["blocks"][0]["tied"] is True
    times = [b["time"] for b in data["blocks"]]
    assert times == sorted(times)
    assert data["device"] == "A100-SXM4-40GB"
    assert data["left_out"] == []


def test_shapes_that_the_device_cannot_run_are_left_out(source, capsys):
    Path(source).write_text("1 255")
    assert rank(source, "--all-blocks", "256,512", "--top", "1") == 0
    out = capsys.readouterr().out
    assert "left out:\n- 512×1×1: " in out
    assert "registers" in out
    assert rank(source, "--all-blocks", "512") == 2
    assert "block 512×1×1: " in capsys.readouterr().err


def test_curve(source, tmp_path):
    path = tmp_path / "curve.png"
    assert rank(source, "--blocks", "16,2,8;256,1,2", "--plot", str(path)) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_curve_that_cannot_be_written(source, tmp_path, capsys):
    path = tmp_path / "no" / "curve.png"
    assert rank(source, "--blocks", "16,2,8;256,1,2", "--plot", str(path)) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_curve_without_matplotlib(source, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    ranking = pa.rank([(16, 2, 8)], "a100", kernel=star_kernel(source), domain=DOMAIN)
    with pytest.raises(pa.PerfAssertError, match=r"perfassert\[plot\]"):
        plot(ranking, "x.png")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--blocks", "16,2,8; 16,2,8"], "block 16×2×8 occurs twice"),
        (["--blocks", " ; "], "no block to rank"),
        (["--blocks", "16,a"], "--blocks: 'a' is not an integer"),
        (["--blocks", "16,0"], "at least 1"),
        (["--blocks", "16,2,128"], "block 16×2×128: "),
        (["--all-blocks", "100"], "100 is no power of two"),
        (["--all-blocks", "2048"], "A100-SXM4-40GB allows 1024 threads, not 2048"),
        (["--all-blocks", "64", "--top", "0"], "--top: 0 is below 1"),
        (["--all-blocks", "64", "--jobs", "-1"], "--jobs: -1 is below 1"),
    ],
)
def test_senseless_candidates(source, capsys, options, reason):
    assert rank(source, *options) == 2
    assert reason in capsys.readouterr().err


def test_blocks_or_all_blocks(source, capsys):
    assert rank(source) == 2
    assert rank(source, "--blocks", "1", "--all-blocks", "64") == 2


def test_shapes_cover_every_factorization_once():
    device = pa.device("a100")
    found = list(command.shapes(256, (1 << 20, 1 << 20, 1 << 20), device))
    assert len(found) == len(set(found)) == 9 * 10 // 2 - 3  # less those over 64 threads deep
    assert all(x * y * z == 256 and z <= 64 for x, y, z in found)


def test_shapes_are_no_wider_than_the_domain_needs():
    found = set(command.shapes(256, (100, 1, 3), pa.device("a100")))
    assert found == {(128, 1, 2), (64, 1, 4)}


def test_many_launches_are_predicted_by_several_processes(source, monkeypatch, capsys):
    """Launches that are left after a while go to other processes; the result is the same."""
    handed = []

    class Pool:
        def submit(self, function, *args):
            handed.append(args[1])
            value = function(*args)
            return SimpleNamespace(result=lambda: value)

    @contextmanager
    def pool(jobs):
        yield Pool() if jobs == 2 else None

    assert rank(source, "--all-blocks", "64") == 0
    alone = capsys.readouterr().out
    monkeypatch.setattr("perfassert.system.process_pool.process_pool", pool)
    monkeypatch.setattr(command, "_SERIAL_SECONDS", 0.0)
    for jobs in "12":
        assert rank(source, "--all-blocks", "64", "--jobs", jobs) == 0
        assert capsys.readouterr().out == alone
    assert sum(map(len, handed)) > 20


def test_dask(source, capsys):
    distributed = pytest.importorskip("distributed")
    assert rank(source, "--all-blocks", "64") == 0
    alone = capsys.readouterr().out
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
    ) as cluster:
        assert rank(source, "--all-blocks", "64", "--dask", cluster.scheduler_address) == 0
    assert capsys.readouterr().out == alone


def test_compiled_code_in_real_processes(capsys, monkeypatch, tmp_path):
    source = tmp_path / "scale.cu"
    source.write_text(
        'extern "C" __global__ void scale(int n, const float* a, float* b)\n'
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) b[i] = 2 * a[i]; }\n"
    )
    monkeypatch.setattr(command, "_SERIAL_SECONDS", 0.0)
    arguments = [
        "rank", str(source), "--device", "a100", "--domain", "1048576", "--blocks",
        "32;64;128;256;512;1024", "--arg", "n=1048576", "--jobs", "2", "--json",
    ]  # fmt: skip
    try:
        pa.predict(pa.from_cuda(source), pa.Launch(64, 64, args={"n": 4096}), "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    assert main(arguments) == 0
    data = json.loads(capsys.readouterr().out)
    assert len(data["blocks"]) == 6
    assert data["blocks"][-1]["block"] == [32, 1, 1]
