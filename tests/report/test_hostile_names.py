"""Names of strangers in everything that people or machines read: they are text, and no more."""

import json
import re
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.comparison.github import annotation
from perfassert.errors import printable
from perfassert.report.document import document, to_json
from perfassert.report.html import html
from perfassert.report.markdown import markdown
from perfassert.report.markdown_parts import code, fenced_block, words
from perfassert.report.performance_page import performance_page
from perfassert.report.prediction import text
from perfassert.report.spreadsheet import csv_text
from perfassert.report.tables import table

EVIL = (
    "k\x1b[31m\u202e\x00</details></script><script>alert(1)</script>\n::add-mask::x\r\n"
    "  ::error::y @you =HYPERLINK(1) |a|`b`\u2066\ud800"
)
MEANT = re.compile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What moves a cursor, turns text around, or is no text."""
COMMAND = re.compile(r"^\s*::(?!warning |notice)", re.MULTILINE)


def harmless(shown):
    assert MEANT.search(shown) is None
    assert COMMAND.search(shown) is None
    return shown


@pytest.fixture(scope="module")
def prediction():
    kernel = pa.Kernel.from_accesses(EVIL, [pa.Field("a", shape=(4096,))], ["a[x]"])
    return pa.predict(kernel, pa.Launch.cover(4096, 64), "a100")


@pytest.fixture(scope="module")
def report(prediction):
    data = prediction.to_dict(diagnosis=False)
    told = {**data, "label": EVIL, "note": EVIL, "metrics": {}, "expectations": [], "sources": {}}
    test = {
        "nodeid": f"t.py::{EVIL}", "file": "t.py", "line": 1, "device": EVIL, "outcome": "failed",
        "message": EVIL, "predictions": [told], "rankings": [], "baselines": [],
    }  # fmt: skip
    return document([test], [EVIL])


@pytest.mark.parametrize(
    "show",
    [
        code, words, fenced_block, printable,
        lambda t: annotation(t, t, t), lambda t: str(table((t,), [(t, t)])),
        lambda t: str(pa.KernelError(t)), lambda t: str(pa.ExpectationFailed(t)),
    ],
)  # fmt: skip
def test_one_name(show):
    harmless(show(EVIL))


def test_a_prediction(prediction):
    harmless(str(text(prediction)))


def test_markdown(report):
    """Names in Markdown outside of fenced blocks are harmless."""
    shown = re.sub(r"(?s)```.*?```", "", harmless(markdown(report)))
    assert "<script" not in shown
    assert "@you" not in shown


def test_a_page(report, tmp_path):
    shown = html(report, tmp_path)
    assert MEANT.search(shown.replace("\t", "")) is None
    assert "<script>alert" not in shown


def test_comma_separated_values(report):
    harmless(csv_text(report))


def test_compared_on_a_terminal(report, tmp_path, capsys):
    base, head = tmp_path / "base.json", tmp_path / "head.json"
    for path, found in ((base, report), (head, document([]))):
        path.write_text(to_json(found), "utf-8", "surrogatepass")
    for more in ([], ["--markdown"], ["--github"]):
        assert main(["compare", str(base), str(head), *more]) == 1
        out, err = capsys.readouterr()
        harmless(out)
        harmless(err)
    assert main(["compare", str(base), str(base), "--json"]) == 0
    json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["k", "ns::f<3, int>", "a b", "é", "x: y", "1 µs ± 2 %"])
def test_usual_names_are_themselves(name):
    assert printable(name) == name


def test_lines_of_messages_stay():
    assert printable("k.cu:3: wrong\n\tx = 1;\n") == "k.cu:3: wrong\n\tx = 1;\n"
    assert printable("a\n::error::b") == "a\n\\::error::b"
    assert printable("a\nb", lines=False) == "a\\nb"


def test_a_terminal_section(pytester):
    pytester.makepyfile(
        f"import perfassert as pa\nNAME = {EVIL!a}\n"
        "def test_it(perf):\n"
        "    kernel = pa.Kernel.from_accesses(NAME, [pa.Field('a', shape=(64,))], ['a[x]'])\n"
        "    perf(kernel, domain=64, block=64).expect(time='> 1 s')\n"
    )
    result = pytester.runpytest("-q", "--perf-device", "a100", "--perf-report=md:r.md")
    result.assert_outcomes(failed=1)
    section = result.stdout.str().partition("predicted performance")[2]
    harmless(section.partition("= short test summary")[0])
    harmless(Path("r.md").read_text("utf-8"))


LEGACY = re.compile(r"##\[|##vso\[")
"""Commands that runners of GitHub and Azure take from anywhere in a line."""


@pytest.mark.parametrize("name", ["##[add-mask]x", "k ##[set-output name=a;]b", "##vso[task.x]y"])
def test_no_text_is_an_older_command(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ptx").write_text("damaged")
    assert main(["kernels", f"{name}.ptx", "--arch", "sm_80"]) == 2
    assert LEGACY.search(capsys.readouterr().err) is None
    assert LEGACY.search(annotation(name, name, name)) is None
    assert LEGACY.search(str(pa.KernelError(name))) is None
    assert LEGACY.search(str(table((name,), [(name,)]))) is None


def test_a_command_behind_many_blanks():
    harmless(str(pa.KernelError(f"{' ' * 70}::error::x.perf.toml: is wrong")))


@pytest.mark.parametrize("show", [code, words])
@pytest.mark.parametrize(
    "name", ["https://evil.example/x", "www.evil.example", "GH-12", "http://evil.example"]
)
def test_no_name_becomes_a_link(show, name):
    assert name not in show(name)


@pytest.mark.parametrize("key", ["kernel", "device"])
@pytest.mark.parametrize(
    "name", ["`<img src=x onerror=alert(1)>", "a\n\n# b", "@you", "a\x1b[31m", "\u202e"]
)
def test_a_page_of_promises(prediction, key, name):
    told = {**prediction.to_dict(diagnosis=False), "label": "k", "note": "", "metrics": {},
            "expectations": [], "sources": {}, "kernel": "k", "device": "d", key: name}  # fmt: skip
    test = {
        "nodeid": "t.py::t", "file": "t.py", "line": 1, "device": "d", "outcome": "passed",
        "message": None, "predictions": [told], "rankings": [], "baselines": [],
    }  # fmt: skip
    page = harmless(performance_page(document([test]), "perfassert docs t.py"))
    assert re.search(r"(?<!\\)<img|^# b|(?<![\w`])@you", page, re.MULTILINE) is None


@pytest.mark.parametrize("key", ["skip", "xfail"])
def test_reasons_on_a_terminal(pytester, key):
    """The reasons are those of ``*.perf.toml``, which pytest prints with -r."""
    Path("t.perf.toml").write_text(
        '[[test]]\nname = "t"\nlaunch = { domain = 64, block = 64 }\nexpect = { time = "< 1 ns" }\n'
        f'{key} = "\\u001b[31m\\n::error::x"\n'
        '[test.kernel.accesses]\nfields = [{ name = "a", shape = [64] }]\nloads = ["a[x]"]\n'
    )
    result = pytester.runpytest("-rA", "--perf-device", "a100")
    harmless(result.stdout.str())


def test_a_file_of_tests_with_lines_in_its_name(pytester):
    Path("a\n::error::b.perf.toml").write_text(
        '[[test]]\nname = "t"\nlaunch = { domain = 64, block = 64 }\nexpect = { time = "< 1 ns" }\n'
        '[test.kernel.accesses]\nfields = [{ name = "a", shape = [64] }]\nloads = ["a[x]"]\n'
    )
    harmless(pytester.runpytest("-rA", "--perf-device", "a100").stdout.str())
