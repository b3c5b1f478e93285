"""``perfassert compare``: two files in, what has become faster and slower out."""

import json
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.report.document import document, to_json
from perfassert.report.markdown_parts import LIMIT

N = 1 << 20


def predicted(dtype="float64", device="a100", block=256, name="copy"):
    fields = [pa.Field(f, dtype=dtype, shape=(N,)) for f in "ab"]
    kernel = pa.Kernel.from_accesses(name, fields, ["a[x]"], ["b[x]"])
    return pa.predict(kernel, pa.Launch.cover(N, block), device).to_dict(diagnosis=False)


def a_test(name, *predictions, line=7, sources=None):
    found = [
        {**p, "label": f"{p['kernel']}#{i}" if i > 1 else p["kernel"], "note": "", "metrics": {},
         "expectations": [], "sources": sources or {}}
        for i, p in enumerate(predictions, 1)
    ]  # fmt: skip
    return {"nodeid": f"tests/test_a.py::{name}", "file": "tests/test_a.py", "line": line,
            "device": predictions[0]["device"], "outcome": "passed", "message": None,
            "predictions": found, "rankings": [], "baselines": []}  # fmt: skip


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Writes reports of tests, or anything else, to base.json and head.json."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)

    def write(base, head):
        for name, content in (("base.json", base), ("head.json", head)):
            text = to_json(document(content)) if isinstance(content, list) else json.dumps(content)
            Path(name).write_text(text, encoding="utf-8")
        return ["compare", "base.json", "head.json"]

    return write


@pytest.fixture(scope="module")
def double():
    return predicted()


@pytest.fixture(scope="module")
def single():
    return predicted("float32")


def compared(capsys, arguments):
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_nothing_has_changed(files, double, capsys):
    arguments = files([a_test("test_a", double)], [a_test("test_a", double)])
    assert main(arguments) == 0
    assert capsys.readouterr().out == "1 same (tolerance 2 %)\n"


def test_slower_fails_and_says_why(files, double, single, capsys):
    arguments = files([a_test("test_a", single)], [a_test("test_a", double)])
    code, found = compared(capsys, arguments)
    assert code == 1
    (item,) = found["predictions"]
    assert item["status"] == "slower"
    assert item["time"]["difference"] == pytest.approx(double["time"] / single["time"] - 1)
    assert item["metrics"]["dram_load"]["difference"] == pytest.approx(1)
    names = [c["name"] for c in item["components"]]
    assert "dram_load of a: compulsory" in names
    assert (item["file"], item["line"]) == ("tests/test_a.py", 7)
    assert main(arguments) == 1
    out = capsys.readouterr().out
    assert out.startswith("1 slower (tolerance 2 %)")
    assert "dram_load of a: compulsory 4.194 MB 8.389 MB +100.0 %" in " ".join(out.split())


def test_what_a_time_that_stands_hides_is_told(files, double, capsys):
    """A guess instead of a prediction, and spills: no failure, and not unsaid."""
    none, some = ({**double["resources"], "spill_bytes": n} for n in (0, 400))
    base = {**double, "resources": none}
    head = {**double, "confidence": "guessed", "resources": some}
    arguments = files([a_test("test_a", base)], [a_test("test_a", head)])
    said = f"confidence {double['confidence']} → guessed"
    for form in ([], ["--markdown"]):
        assert main([*arguments, *form]) == 0
        out = capsys.readouterr().out
        assert "as fast as before, but:" in out.lower()
        assert said in out
        assert "0 B → 400 B" in out
    files([a_test("test_a", head)], [a_test("test_a", base)])
    assert main(arguments) == 0
    assert "spill_bytes" not in capsys.readouterr().out


def test_faster_and_new_pass_and_gone_fails_unless_allowed(files, double, single, capsys):
    base = [a_test("test_a", double), a_test("test_gone", double)]
    head = [a_test("test_a", single), a_test("test_new", double)]
    arguments = files(base, head)
    code, found = compared(capsys, arguments)
    assert code == 1
    assert found["counts"] == {"gone": 1, "faster": 1, "new": 1}
    assert [p["status"] for p in found["predictions"]] == ["gone", "faster", "new"]
    figures = found["predictions"][-1]["metrics"]
    assert figures["time"] == {"base": None, "head": double["time"], "difference": None}
    assert main(arguments) == 1
    time, registers = pa.Quantity(double["time"], "s"), double["resources"]["registers"]
    told = f"test_new: copy on A100-SXM4-40GB: time {time}, registers {registers}"
    assert f"new, compared with nothing:\n  {told}" in capsys.readouterr().out
    assert main([*arguments, "--markdown"]) == 1
    assert f"- {told}" in capsys.readouterr().out.replace("\\", "")
    assert compared(capsys, [*arguments, "--allow-gone"])[0] == 0


def test_what_is_broken_says_why(files, double, capsys):
    base = [a_test(f"test_{name}", double) for name in ("a", "b", "c")]
    failed = {**a_test("test_a", double), "outcome": "failed", "message": "k.cu(3): error"}
    arguments = files(base, [])
    report = document([{**failed, "predictions": []}], ["tests/test_a.py::test_b"])
    Path("head.json").write_text(to_json(report), encoding="utf-8")
    code, found = compared(capsys, arguments)
    assert code == 1
    assert found["counts"] == {"broken": 2, "gone": 1}
    reasons = {p["test"].rpartition("::")[2]: p["reason"] for p in found["predictions"]}
    assert reasons == {
        "test_a": "k.cu(3): error",
        "test_b": "it could not be collected or set up",
        "test_c": "",
    }
    assert compared(capsys, [*arguments, "--allow-gone"])[0] == 0
    assert main([*arguments, "--github"]) == 1
    assert "::warning title=copy is broken::" in capsys.readouterr().out


def test_lines_that_cost_more(files, double, single, capsys):
    def sources(*costs):
        keys = ("line", "instructions", "wavefronts", "sectors")
        return {"a|b.cu": [dict(zip(keys, cost, strict=True)) for cost in costs]}

    base = a_test("test_a", single, sources=sources((3, 5.0, 0.0, 0.0), (4, 4.0, 1.0, 4.0)))
    head = a_test("test_a", double, sources=sources((5, 5.0, 0.0, 0.0), (6, 4.0, 2.0, 8.0)))
    arguments = files([base], [head])
    _, found = compared(capsys, arguments)
    (line,) = found["predictions"][0]["lines"]
    assert (line["file"], line["base"], line["head"]) == ("a|b.cu", 4, 6)
    assert line["sectors"] == {"base": 4.0, "head": 8.0}
    assert main(arguments) == 1
    assert "a|b.cu:4 → 6  4 → 8      1 → 2         4" in capsys.readouterr().out
    assert main([*arguments, "--markdown"]) == 1
    assert "4 → 8" in capsys.readouterr().out


def test_a_module_that_cannot_be_collected(files, double, capsys):
    arguments = files([a_test("test_a", double)], [])
    Path("head.json").write_text(to_json(document([], ["tests/test_a.py"])), encoding="utf-8")
    code, found = compared(capsys, arguments)
    assert (code, found["counts"]) == (1, {"broken": 1})


@pytest.mark.parametrize(
    ("tolerance", "code", "status"),
    [("2 %", 1, "slower"), ("10 %", 0, "within tolerance"), ("1 % or 1 us", 0, "within tolerance")],
)
def test_tolerances(files, double, capsys, tolerance, code, status):
    slower = {**double, "time": double["time"] * 1.05, "question": "of other arguments"}
    arguments = files([a_test("test_a", double)], [a_test("test_a", slower)])
    found = compared(capsys, [*arguments, "--tolerance", tolerance])
    assert (found[0], found[1]["predictions"][0]["status"]) == (code, status)


def test_predictions_outside_of_tests(files, double, single, capsys):
    assert compared(capsys, files(single, double))[0] == 1
    code, found = compared(capsys, files(double, {**single, "kernel": "other"}))
    assert code == 0
    assert found["predictions"][0]["status"] == "faster"
    other = predicted(device="L40")
    assert main(files(double, other)) in (0, 1)
    assert "A100-SXM4-40GB → L40" in capsys.readouterr().out


def test_incomparable(files, double, capsys):
    other = {**double, "model_version": "0"}
    assert main(files(double, other)) == 2
    assert "incomparable" in capsys.readouterr().err
    base, head = document([a_test("test_a", double)]), document([a_test("test_a", double)])
    assert main(files({**base, "model_version": "0"}, head)) == 2
    assert "incomparable" in capsys.readouterr().err
    changed = {**double, "device_digest": "0" * 16}
    code, found = compared(capsys, files([a_test("a", double)], [a_test("a", changed)]))
    assert code == 2
    assert "device file" in found["predictions"][0]["reason"]
    assert main(files(double, [a_test("test_a", double)])) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "neither a report"),
        (3, "neither a report"),
        ({"format": "other"}, "is a 'other'"),
        ({"format": "perfassert report", "schema": 99}, "schema 99"),
        ({"format": "perfassert report", "schema": 2, "model_version": "2"}, "damaged"),
        ({"time": 1.0}, "damaged"),
        (
            {"format": "perfassert report", "schema": 2, "model_version": "2", "tests": [3]},
            "damaged",
        ),
    ],
)
def test_not_such_a_file(files, double, capsys, content, message):
    assert main(files(double, content)) == 2
    assert message in capsys.readouterr().err


def test_unreadable(files, double, tmp_path, capsys):
    arguments = files(double, double)
    assert main([*arguments[:2], "nowhere.json"]) == 2
    Path("head.json").write_bytes(b"\xff\xfe{")
    assert main(arguments) == 2
    assert main([*arguments[:2], str(tmp_path)]) == 2
    assert main([*arguments, "--tolerance", "two"]) == 2
    assert "internal" not in capsys.readouterr().err


def test_a_comment_fits(files, double, single, capsys):
    many = [f"test_{'long_' * 12}{i:04}[| `*_x_*` @you <b>]" for i in range(400)]
    base = [a_test(name, single, double) for name in many]
    head = [a_test(name, double, single) for name in many]
    assert main([*files(base, head), "--markdown"]) == 1
    text = capsys.readouterr().out
    assert len(text) <= LIMIT
    assert "400 slower, 400 faster" in text
    assert "\n… and 770 more\n" in text
    assert "\n… and 380 more, whose causes are not shown\n" in text
    assert text.count("<details>") == text.count("</details>") == 20
    rows = [line for line in text.splitlines() if line.startswith("| 🔴")]
    assert rows
    assert all(row.count("|") == 8 for row in rows)
    assert "@you" not in text
    assert "<b>" not in text


def test_github(files, double, single, capsys, monkeypatch, tmp_path):
    costs = ("line", "instructions", "wavefronts", "sectors")
    sources = {
        "kernels/copy.cu": [
            dict(zip(costs, row, strict=True)) for row in ((4, 1, 2, 8), (9, 9, 1, 4))
        ],
        "/usr/include/x.h": [dict(zip(costs, (1, 1, 9, 99), strict=True))],
    }
    base = [a_test("test_a", single), a_test("test_b", single)]
    head = [a_test("test_a", double), a_test("test_b", double, sources=sources)]
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert main([*files(base, head), "--github"]) == 1
    lines = [x for x in capsys.readouterr().out.splitlines() if x.startswith("::")]
    assert lines[0].startswith("::warning file=tests/test_a.py,line=7,title=copy is")
    assert lines[1].startswith("::warning file=kernels/copy.cu,line=4,")
    assert "%25" in lines[0]
    assert summary.read_text("utf-8").startswith("before\n## 🔴 Predicted performance")
    many = [a_test(f"test_{i}", double) for i in range(30)]
    few = [a_test(f"test_{i}", single) for i in range(30)]
    assert main([*files(few, many), "--github"]) == 1
    lines = [x for x in capsys.readouterr().out.splitlines() if x.startswith("::")]
    assert [x.partition(" ")[0].partition("::20")[0] for x in lines] == ["::warning"] * 10 + [
        "::notice"
    ]


def test_metrics_of_plug_ins(files, double, capsys):
    base, head = a_test("test_a", double), a_test("test_a", double)
    base["predictions"][0]["metrics"] = {"energy": 1.0}
    head["predictions"][0]["metrics"] = {"energy": 2.0}
    _, found = compared(capsys, files([base], [head]))
    assert found["predictions"][0]["metrics"] == {
        "energy": {"base": 1.0, "head": 2.0, "difference": 1.0}
    }


def test_the_line_of_a_test_is_a_number(files, double, single, capsys, monkeypatch, tmp_path):
    """The line of a test must be a number, since a text could begin another GitHub annotation."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    line = "1::x\n::error::y"
    arguments = files([a_test("test_a", single, line=line)], [a_test("test_a", double, line=line)])
    main([*arguments, "--github"])
    captured = capsys.readouterr()
    assert "\n::error::" not in captured.out + captured.err


def test_a_comment_is_the_verdict_the_changed_and_their_causes(files, double, single, capsys):
    base = [a_test(f"test_{name}", single) for name in "abc"]
    head = [a_test("test_a", double), a_test("test_b", single), a_test("test_c", single)]
    link = "https://example.org/report.html"
    assert main([*files(base, head), "--markdown", "--link", link]) == 1
    verdict, table, linked, cause = capsys.readouterr().out.split("\n\n")[:4]
    assert verdict == "## 🔴 Predicted performance: 1 slower, 2 same (tolerance 2 %)"
    assert len(table.splitlines()) == 3
    assert linked == f"[The whole report]({link})"
    title = "<details><summary><code>test_a: copy on A100-SXM4-40GB</code>: time +"
    assert cause.replace("&#95;", "_").startswith(title)
    assert "(<code>tests/test_a.py" in cause.replace("&#58;", ":").replace("&#95;", "_")


@pytest.mark.parametrize("link", ["javascript:alert(1)", "https://a b", "https://a)[x](y"])
def test_a_link_is_an_address(files, double, capsys, link):
    arguments = files([a_test("test_a", double)], [a_test("test_a", double)])
    assert main([*arguments, "--markdown", "--link", link]) == 2
    assert "is not an address" in capsys.readouterr().err


def test_a_comment_links_the_run(files, double, capsys, monkeypatch, tmp_path):
    run = {"SERVER_URL": "https://github.com", "REPOSITORY": "a/b", "RUN_ID": "7"}
    for name, value in run.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    arguments = files([a_test("test_a", double)], [a_test("test_a", double)])
    assert main([*arguments, "--github"]) == 0
    assert "](https://github.com/a/b/actions/runs/7)" in summary.read_text("utf-8")


def test_a_comment_on_nothing_that_fails_has_no_tick(files, capsys):
    assert main([*files([], []), "--markdown", "--require-all"]) == 1
    assert "✅" not in capsys.readouterr().out
