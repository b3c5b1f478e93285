"""``perfassert docs``."""

import os

import pytest

from perfassert.cli.main import main
from perfassert.report.performance_page import MARKER

pytestmark = pytest.mark.exhaustive(one_in=4)

TESTS = """
import pytest
import perfassert as pa

N = 1 << 20
FIELDS = [pa.Field("a", shape=(N,)), pa.Field("b", shape=(N,))]
COPY = pa.Kernel.from_accesses("copy<double, 1>", FIELDS, ["a[x]"], ["b[x]"])
SCALE = pa.Kernel.from_accesses("a_scale", FIELDS, ["a[x]"], ["b[x]"], flops=1)

def test_moves(perf):
    perf(COPY, domain=N, block=256).expect(limiter="dram | l2", dram_load="8 B/update ± 1 %")

def test_is_fast(perf):
    p = perf(COPY, domain=N, block=256)
    p.expect(time="< 20 us")
    p.expect(time="< 20 us")

def test_looks(perf):
    perf(SCALE, domain=N, block=128)

def test_sums(perf):
    graph = pa.InstructionGraph.builder()
    with graph.loop(trips=64) as body:
        graph.op("fp64", graph.op("global_load"), body.carried("sum"), name="sum")
    perf(pa.Kernel.from_graph("chain", graph.build()), grid=64, block=64).expect(limiter="!dram")

def test_gathers(perf):
    gather = pa.Kernel.from_accesses(
        "gather", [*FIELDS, pa.Field("i", "int32", (N,))], ["a[i[x]]"], ["b[x]"],
        assume={"i[x]": "x // 2"})
    perf(gather, domain=N, block=256).expect(registers=32)

@pytest.mark.xfail
def test_later(perf):
    perf(SCALE, domain=N, block=256).expect(time="< 1 us")
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    (tmp_path / "pytest.ini").write_text("[pytest]\nperf_devices = a100\n")
    (tmp_path / "test_copy.py").write_text(TESTS, "utf-8")
    return tmp_path


def test_page(project, capsys):
    assert main(["docs", "test_copy.py", "-o", "PERFORMANCE.md"]) == 0
    assert capsys.readouterr().out == "PERFORMANCE.md: 6 predictions in 6 tests\n"
    page = (project / "PERFORMANCE.md").read_text("utf-8")
    assert page.startswith(f"{MARKER}\n\n# Performance\n")
    assert "perfassert docs test_copy.py -o PERFORMANCE.md" in page
    assert page.index("## a\\_scale") < page.index("## copy\\<double, 1\\>")
    line = "| limiter | dram \\| l2 | dram |  | ok | `test_copy.py::test_moves[A100-SXM4-40GB]` |"
    assert line in page
    assert page.count("| time | < 20 us".replace("<", "\\<")) == 1
    assert page.count("### copy") == 1  # one launch, whichever tests predict it
    assert "| dram | " in page
    assert "in `test_copy.py::test_looks[A100-SXM4-40GB]`" in page
    assert "`test_copy.py::test_later[A100-SXM4-40GB]`: expected to fail" in page
    assert "Advice:\n\n1. Loop Unrolling, " in page
    assert "Assumed:\n\n- i\\[x\\] is taken to be x // 2 (loads\\[0\\])\n" in page
    assert str(project) not in page


def test_page_is_the_same_again(project):
    arguments = ["docs", "test_copy.py", "-o", "P.md", "--device", "h100", "-k", "not later"]
    assert main(arguments) == 0
    first = (project / "P.md").read_bytes()
    os.utime(project / "P.md", (0, 0))
    assert main(arguments) == 0
    assert (project / "P.md").read_bytes() == first
    assert b"H100-SXM5-80GB" in first
    assert b"test_later" not in first


def test_failing_tests_write_nothing(project, capsys):
    text = TESTS.replace("@pytest.mark.xfail", "")
    (project / "test_copy.py").write_text(text, "utf-8")
    assert main(["docs", "test_copy.py", "-o", "P.md"]) == 1
    error = capsys.readouterr().err
    assert "tests failed, so P.md was not written" in error
    assert "expected < 1 us" in error
    assert not (project / "P.md").exists()
    assert main(["docs", "test_copy.py", "-o", "P.md", "--allow-failures"]) == 0
    page = (project / "P.md").read_text("utf-8")
    assert "| FAIL |" in page
    assert "1, 1 failed" in page
    assert "test_later[A100-SXM4-40GB]`: failed" in page


def test_pages_of_others_are_left_alone(project, capsys):
    (project / "P.md").write_text("# Mine\n")
    assert main(["docs", "test_copy.py", "-o", "P.md"]) == 2
    assert "was not written by perfassert docs" in capsys.readouterr().err
    assert (project / "P.md").read_text() == "# Mine\n"
    assert main(["docs", "test_copy.py", "-o", "P.md", "--force", "-k", "looks"]) == 0
    assert (project / "P.md").read_text("utf-8").startswith(MARKER)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "there are no tests in test_other.py"),
        ("def test(): pass", "nothing was predicted by these tests"),
        ("syntax error", "pytest ended with exit code 2"),
    ],
)
def test_what_cannot_be_documented(project, capsys, text, reason):
    (project / "test_other.py").write_text(text)
    assert main(["docs", "test_other.py", "-o", "P.md"]) == 2
    assert reason in capsys.readouterr().err
    assert not (project / "P.md").exists()


def test_a_ranking_is_an_expectation(project):
    more = (
        "\ndef test_ranks(perf):\n"
        "    ranking = perf.rank([64, 256], kernel=SCALE, domain=N // 2)\n"
        "    ranking.expect(best_in=[64, 256])\n"
    )
    (project / "test_copy.py").write_text(TESTS + more, "utf-8")
    assert main(["docs", "test_copy.py", "-o", "PERFORMANCE.md"]) == 0
    page = (project / "PERFORMANCE.md").read_text("utf-8")
    part = page.partition("The best of 2 candidates in `test_copy.py::test_ranks")[2]
    assert [line.partition("×")[0] for line in part.splitlines()[4:6]] == ["| 1 | 256", "| 2 | 64"]
    silent = [line for line in page.splitlines() if line.startswith("Predicted without an exp")]
    assert "test_looks" in "".join(silent)
    assert "test_ranks" not in "".join(silent)
