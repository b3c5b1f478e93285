"""The HTML page: one file, small, and working in a browser where there is one."""

import json
import re
import shutil
import subprocess

import pytest

import perfassert as pa
from perfassert.report.document import document
from perfassert.report.html import html, page_data
from perfassert.report.markdown import markdown
from perfassert.report.markdown_parts import LIMIT
from perfassert.report.page import page
from perfassert.report.sources import sources

pytestmark = pytest.mark.exhaustive(one_in=4)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PREDICTIONS = 1000
LARGEST = 3_000_000  # bytes


def copy(n, fields=1):
    names = [f"a{i}" for i in range(fields)]
    return pa.Kernel.from_accesses(
        "copy</script><!--",
        [*(pa.Field(name, shape=(n,)) for name in names), pa.Field("b", shape=(n,))],
        loads=[f"{name}[x]" for name in names],
        stores=["b[x]"],
    )


@pytest.fixture(scope="module")
def predicted():
    ranking = pa.rank([(16, 4), (32, 2), 64], "a100", kernel=copy(1 << 16), domain=1 << 16)
    data = []
    for fields in (1, 16):
        p = pa.predict(copy(1 << 20, fields), pa.Launch.cover(1 << 20, 256), "a100")
        data.append(
            {**p.to_dict(), "metrics": {}, "note": "", "expectations": [], "label": p.kernel}
        )
    return data, {"label": "copy", **ranking.to_dict()}


def many(predicted, count):
    data, ranking = predicted
    tests = []
    for i in range(count):
        one = json.loads(json.dumps(data[i % 2]))
        one["time"] *= 1 + i / 100
        one["volumes"]["dram_load"]["total"] *= 1 + i / 100
        one["sources"] = {
            "kernel.cu": [{"line": 2, "instructions": 1.0, "wavefronts": 2.0, "sectors": 8.0}]
        }
        outcome = "failed" if i % 50 == 0 else "passed"
        expectation = {
            "metric": "time", "expected": "< 1 us", "predicted": "2 us", "difference": 1.0,
            "slack": -1.0, "model_error": 0.25, "known_error": "model ±25 %",
            "verdict": "FAIL" if outcome == "failed" else "ok",
        }  # fmt: skip
        one["expectations"] = [expectation]
        one["timeline"] = {
            "reasons": ["selected", "memory_dependency"], "places": ["a.cu:1", "a.cu:2"],
            "warps": [{"start": w, "spans": [0, 1, 0, 1, 400, 1, 0, 1, 1]} for w in range(4)],
        }  # fmt: skip
        tests.append(
            {"nodeid": f"test_a.py::test_many[{i:04}]", "file": "test_a.py", "line": 3,
             "device": one["device"], "outcome": outcome, "predictions": [one],
             "baselines": [{"name": "default", "status": "regressed" if i % 50 == 0 else "compared",
                            "moved": "time 1 us → 2 us", "label": one["label"]}] if i % 2 else [],
             "message": "time is `2 us`, expected\n\n| a | b |" if outcome == "failed" else None,
             "rankings": [ranking] if i == 0 else []}
        )  # fmt: skip
    return document(tests)


def test_a_thousand_predictions_fit(predicted, tmp_path):
    (tmp_path / "kernel.cu").write_text("a\nb<b>\nc\nd\ne\nf\n")
    written = html(many(predicted, PREDICTIONS), tmp_path)
    assert len(written.encode()) < LARGEST
    assert not re.search(r"(src|href)=[\"']?(https?:)?//|@import|url\(", written)
    assert written.count("</script>") == 2
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', written, re.S)[1])
    assert len(data["rows"]) == PREDICTIONS
    assert data["files"]["kernel.cu"] == {"1": "a", "2": "b<b>", "3": "c", "4": "d"}
    assert len(data["shared"][data["rows"][1]["volumes"]]["dram_load"][2]) == 12


def test_no_text_breaks_the_page():
    """Ends of scripts, numbers that are none, marks that turn the direction, half characters."""
    text = "</script><!--\u202eevil\u2066\udcff & {SCRIPT}"
    written = page("report", "title", {"text": text, text: [float("nan"), float("inf")]})
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', written, re.S)[1])
    shown = "</script><!--⟨U+202E⟩evil⟨U+2066⟩? & {SCRIPT}"
    assert data == {"text": shown, shown: [None, None]}
    assert written.count("</script>") == 2
    assert "function listing(" in written


def test_files_outside_of_the_project_are_called_by_their_end(predicted, tmp_path):
    report = many(predicted, 1)
    one = report["tests"][0]["predictions"][0]
    cost = [{"line": 1, "instructions": 1.0, "wavefronts": 0.0, "sectors": 0.0}]
    one["sources"] = {f"/opt/{v}/include/cub/block.cuh": cost for v in ("a", "b")} | {"k.cu": cost}
    span = ["/opt/a/include/cub/block.cuh", 7, 1]
    one["assumptions"] = [{"text": "guessed", "span": span, "stands_for": "", "share": 0.5}]
    data = page_data(report, tmp_path)
    row = data["rows"][0]
    names = {f"…/{v}/include/cub/block.cuh" for v in ("a", "b")}
    assert set(data["shared"][row["sources"]]) == {*names, "k.cu"}
    assert data["shared"][row["assumptions"]][0]["span"][0] == "…/a/include/cub/block.cuh"
    assert "/opt" not in html(report, tmp_path)


def test_a_row_has_its_own_baseline(predicted, tmp_path):
    report = many(predicted, 2)
    first, second = report["tests"]
    said = {"name": "default", "status": "regressed", "moved": "time 1 us → 2 us (+100.0 %)"}
    first["baselines"] = [{**said, "label": first["predictions"][0]["label"]}]
    second["baselines"] = [{**said, "label": "another"}]
    rows = page_data(report, tmp_path)["rows"]
    assert rows[0]["baseline"]["moved"].startswith("time ")
    assert "baseline" not in rows[1]


def test_markdown_fits_into_a_comment(predicted):
    text = markdown(many(predicted, PREDICTIONS))
    assert len(text) <= LIMIT
    assert "\n… and " in text
    assert "````" not in text
    assert len(markdown(many(predicted, 3))) < 20_000


def test_compiled_code_has_costs_by_line(tmp_path):
    source = tmp_path / "copy.cu"
    source.write_text(
        "__global__ void copy(float* b, const float* a)\n{\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    b[i] = a[i];\n}\n"
    )
    try:
        p = pa.predict(pa.from_cuda(source), pa.Launch(4096, 256), "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    found = sources(p, tmp_path)
    (line,) = (entry for entry in found["copy.cu"] if entry["line"] == 4)
    assert line["sectors"] == 8  # four to load, four to store
    assert line["wavefronts"] == 2
    assert line["instructions"] >= 2
    assert not sources(pa.Prediction.from_dict(p.to_dict(diagnosis=False)), tmp_path)


def test_lines_of_executed_code_tell_what_warps_did(tmp_path):
    source = tmp_path / "gather.cu"
    source.write_text(
        "__global__ void gather(float* out, const float* in, const int* index)\n{\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i % 2)\n        out[i] = in[index[i]];\n}\n"
    )
    n = 1 << 12
    args = {"out": pa.Buffer(n), "in": pa.Buffer(64 * n),
            "index": pa.Buffer(n, fill="arange % 4096")}  # fmt: skip
    try:
        p = pa.predict(pa.from_cuda(source), pa.Launch(n // 128, 128, args=args), "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    (line,) = (entry for entry in sources(p, tmp_path)["gather.cu"] if entry["line"] == 5)
    assert line["executed"] == (
        "executed 1/1/1 times by a warp, with 16/16/16 active lanes and 4/4/4 sectors each time "
        "(fewest/median/most)"
    )


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [1280, 500])
@pytest.mark.parametrize("count", [0, 60, PREDICTIONS])
def test_in_a_browser(predicted, tmp_path, width, count):
    (tmp_path / "kernel.cu").write_text("a\nb\nc\n")
    place = tmp_path / "page.html"
    place.write_text(html(many(predicted, count), tmp_path), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
               f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900"]  # fmt: skip
    done = subprocess.run(
        [CHROMIUM, *options, "--dump-dom", f"{place.as_uri()}#selftest"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    root = re.search(r"<html[^>]*>", done.stdout)[0]
    assert 'data-selftest="passed"' in root, root
    assert int(re.search(r'data-ready="(\d+)"', root)[1]) < 2000
    assert "CONSOLE" not in done.stderr
