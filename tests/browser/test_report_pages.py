"""Report and history in a browser: sorted, filtered, opened and zoomed by real events."""

import os
import subprocess
import sys

import pytest

import perfassert as pa
from perfassert.baseline.entry import DEFAULT_NAME, BaselineKey, entry_of
from perfassert.baseline.text import format_file
from perfassert.cli.main import main
from perfassert.frontends.toolchain import tools

WIDTHS = (1280, 400)
SOURCE = """\
__device__ __forceinline__ float weight(const float* w, int i) {
  return w[i] * w[i + 1];
}
__global__ void smooth(float* out, const float* in, const float* w, int n) {
  __shared__ float s[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  s[threadIdx.x] = in[i];
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 8; ++k) sum += s[(threadIdx.x * 2 + k) % 256] * weight(w, i + k);
  out[i] = sum;
}
"""
TESTS = """\
import os
from pathlib import Path

import pytest

import perfassert as pa

N = 1 << 20


def copy(n):
    fields = [pa.Field(name, shape=(n,)) for name in ("first_of_two", "second")]
    return pa.Kernel.from_accesses("copy", fields, ["first_of_two[x]"], ["second[x]"])


@pytest.mark.parametrize("block", [32, 64, 128, 256, 512])
def test_copy(perf, block):
    p = perf(copy(N), domain=N, block=block)
    p.expect(limiter="dram | latency | l1 | parallelism | issue")
    perf.no_regression(p)


def test_rank(perf):
    field = pa.Field("a", shape=(512, 512))
    kernel = pa.Kernel.from_accesses("k", [field], ["a[y, x]"], ["a[y, x]"])
    perf.rank([(32, 8), (256, 1), (8, 32), (1, 256)], kernel=kernel, domain=(512, 512))


def test_wider(perf):
    n = int(os.environ["WIDER"])
    perf.no_regression(perf(copy(n), domain=n, block=256))


def test_smooth(perf):
    kernel = pa.from_cuda(Path(__file__).parent / "smooth.cu")
    args = {"n": N, **{name: pa.Buffer(N + 16, "float32") for name in ("out", "in", "w")}}
    perf(kernel, domain=N, block=256, args=args).expect(time="< 1 us")
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The address of a report that has all there is, and what its session predicted."""
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        pytest.skip("nvrtc or nvdisasm is not installed")
    place = tmp_path_factory.mktemp("project")
    (place / "smooth.cu").write_text(SOURCE)
    (place / "test_all.py").write_text(TESTS)
    options = "--perf-device a100 --perf-update=new --perf-update-in-ci --perf-report-advice"
    run = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options.split()]
    run.append("--perf-report=html:out.html")
    for size in ("1048576", "2097152"):  # the second run has a baseline that differs
        told = {**os.environ, "WIDER": size}
        done = subprocess.run(run, cwd=place, capture_output=True, text=True, env=told)
        assert done.returncode == 1, done.stdout + done.stderr
    return (place / "out.html").as_uri()


def opened(page):
    """Everything that opens is open."""
    for button in page.locator("button.open").all():
        if button.get_attribute("aria-expanded") == "false":
            button.click()
    for summary in page.locator("main summary").all():
        if summary.is_visible():
            summary.click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_report_is_sound(report, visit, sound, width, scheme):
    page = visit(report, width, scheme)
    sound(page)
    opened(page)
    assert page.locator(".bars").count() > 6
    assert page.locator(".map").count() == 1
    sound(page)


def test_a_failure_is_told_from_its_cause_on(report, visit):
    page = visit(report)
    opened(page)
    detail = page.locator("tr:has(button:text('test_smooth')) + tr.detail")
    titles = detail.locator("h3").all_inner_texts()
    order = ["Cause", "smooth.cu: what one", "Advice", "Expectations", "Time of each", "Facts"]
    places = [next(i for i, t in enumerate(titles) if t.startswith(word)) for word in order]
    assert places == sorted(places)
    reason = detail.locator(".reason").inner_text()
    assert reason.startswith("smooth on A100-SXM4-40GB: time is ")
    assert "smooth.cu:11" in reason
    assert "for (int k" in detail.locator("tr.blamed").inner_text()
    assert "would do" in detail.locator("tr.note").first.inner_text()
    spread = detail.locator(".facts div:has(dt:text('start-phase spread'))").inner_text()
    assert "no error bar" in spread
    assert "±" not in spread


def test_a_regression_has_its_baseline_behind_it(report, visit):
    page = visit(report)
    opened(page)
    detail = page.locator("tr:has(button:text('test_wider')) + tr.detail")
    assert detail.locator(".over b").count() > 1
    assert detail.locator("circle.was").count() == 2
    assert "was " in detail.locator(".bars").first.inner_text()
    table = detail.locator("section:has(h3:text('What differs')) table")
    assert table.locator("th").all_inner_texts() == [
        "component", "baseline", "predicted", "difference",
    ]  # fmt: skip
    assert "MB" in table.inner_text()


def test_the_time_has_its_confidence_beside_it(report, visit):
    page = visit(report)
    header = page.locator("#predictions > thead th").all_inner_texts()
    assert header.index("confidence") == header.index("time") + 1
    cells = page.locator("#predictions td[data-name=confidence]").all_inner_texts()
    words = {cell.split()[0] for cell in cells}
    assert words <= {"measured", "extrapolated", "guessed"}


def test_block_shapes_have_one_cell_each_and_one_best(report, visit):
    page = visit(report)
    opened(page)
    cells = page.locator(".map tbody td:not(.none)")
    assert cells.count() == 4
    texts = cells.all_inner_texts()
    assert texts.count("best") == 1
    assert page.locator(".map tbody tr").count() == len({8, 1, 32, 256})


def test_a_report_is_sorted_and_filtered(report, visit):
    page = visit(report)
    column = "#predictions > tbody > tr:not(.detail) > td[data-name=block]"

    def shown():
        texts = page.locator(column).all_inner_texts()
        return [int(t.split("×")[0]) * int(t.split("×")[1]) for t in texts]

    page.get_by_role("button", name="block").click()
    ascending = shown()
    assert ascending == sorted(ascending)
    page.get_by_role("button", name="block").click()
    assert shown() == ascending[::-1]
    assert page.get_attribute("th:has-text('block')", "aria-sort") == "descending"
    page.fill("#search", "test_copy 64")
    assert shown() == [64]
    assert page.inner_text("#count").startswith("1 of ")
    page.fill("#search", "")
    page.select_option("#outcome", "failed")
    assert page.locator(column).count() == 2


def test_narrow_pages_sort_by_a_list(report, visit):
    page = visit(report, 400)
    assert not page.locator("#predictions > thead").is_visible()
    page.select_option("#sort", label="block ▼")
    cells = page.locator("#predictions > tbody > tr:not(.detail) > td[data-name=block]")
    first = cells.first.inner_text()
    assert "512" in first


def test_the_source_has_arrows_and_call_sites(report, visit):
    page = visit(report)
    table = page.locator("table.source")
    assert table.locator(".blame svg g").count() > 2
    svg, rows = (table.locator(what).bounding_box() for what in (".blame svg", "tbody"))
    assert abs(svg["height"] - rows["height"]) < 3  # so that arrows meet their lines
    assert "(+" in table.locator("tr:has-text('weight(w, i + k)')").inner_text()
    assert "Longest waits: line " in page.inner_text("#predictions")


def test_a_time_line_zooms(report, visit):
    page = visit(report)
    bars = page.locator("svg.whole rect")
    everything = bars.count()
    assert everything > 50
    slider = page.get_by_label("to cycle").first
    slider.focus()
    for _ in range(9):
        page.keyboard.press("PageDown")
    assert 0 < bars.count() < everything
    page.keyboard.press("End")
    assert bars.count() == everything


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Twelve commits, one slower, one faster again."""
    place = tmp_path_factory.mktemp("repository")
    fields = [pa.Field(name, shape=(1 << 20,)) for name in "ab"]
    kernel = pa.Kernel.from_accesses("copy", fields, ["a[x]"], ["b[x]"])
    entry = entry_of(pa.predict(kernel, pa.Launch.cover(1 << 20, 256), "a100"))
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], cwd=place, check=True)
    file = place / "__perf__" / "test_copy.toml"
    file.parent.mkdir()
    for number in range(12):
        scale = 1.5 if 4 <= number < 9 else 1.0 + number / 100
        moved = {**entry, "time": entry["time"] * scale}
        keys = {
            name: BaselineKey(name, DEFAULT_NAME, "A100-SXM4-40GB") for name in ("test_a", "test_b")
        }
        file.write_text(
            format_file({keys["test_a"]: moved, keys["test_b"]: entry}) + f"# {number}\n"
        )
        subprocess.run([*git, "add", "."], cwd=place, check=True)
        subprocess.run([*git, "commit", "-qm", f"change {number}"], cwd=place, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main(["history", "--html", "history.html"]) == 0
    return (place / "history.html").as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_history_is_sound(history, visit, sound, width, scheme):
    page = visit(history, width, scheme)
    opened(page)
    sound(page)


def test_a_history_zooms_and_changes_its_metric(history, visit):
    page = visit(history)
    page.get_by_role("button", name="test_a").click()
    marks = page.locator("svg.whole circle")
    everything = marks.count()
    assert everything > 1
    page.get_by_label("from commit").focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    assert 0 < marks.count() < everything
    page.select_option("#which", "moved")
    assert page.locator("#baselines > tbody > tr:not(.detail)").count() == 1
    page.select_option("#metric", label="registers")
    assert page.inner_text("#count").startswith("0 of ")  # which never moved
    page.select_option("#which", "")
    last = page.locator("#baselines > tbody > tr > td[data-name=last]")
    assert last.all_inner_texts() == ["32", "32"]
