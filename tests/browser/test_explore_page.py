"""The page of ``perfassert explore``, moved by mouse, keyboard and files."""

import threading

import pytest

import perfassert as pa
from perfassert.cli.explore import explore_page
from perfassert.cli.explored import Explorer
from perfassert.cli.local_server import LocalServer
from perfassert.frontends.toolchain import tools

A100 = "A100-SXM4-40GB"
WIDTHS = (1280, 400)
CODE = "__global__ void twice(float* a, int n) { a[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }\n"


@pytest.fixture
def address(tmp_path):
    devices = {name: pa.device(name) for name in (A100, "L40")}
    explorer = Explorer(tmp_path, None, {}, devices)
    answers = {name: getattr(explorer, name) for name in ("predict", "details", "rank", "kernels")}
    with LocalServer(0, explore_page(None, devices), answers, str(tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.address
        server.shutdown()
        thread.join()


def time_of(page):
    return page.inner_text("#headline .big").split(" limited")[0]


def changed(page, before):
    page.wait_for_function(
        "t => !document.querySelector('#headline .big').innerText.startsWith(t)", arg=before
    )
    return time_of(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_is_sound(address, visit, sound, width, scheme):
    page = visit(address, width, scheme)
    page.wait_for_selector("#more:not(.stale) svg.whole")
    page.click("#keep summary")
    page.click("#rank")
    page.wait_for_selector("#ranked .map")
    sound(page)


def test_sliders_move_what_is_shown(address, visit):
    page = visit(address)
    page.wait_for_selector("#answer .bars")
    first = time_of(page)
    page.focus("#block-x")
    page.keyboard.press("Home")  # blocks one thread wide
    slow = changed(page, first)
    shape = pa.Launch.cover((512, 512, 256), (1, 4, 2))
    assert slow == str(pa.predict(seven_points(), shape, A100).time)
    assert "%" in page.inner_text("#answer table tbody tr:first-child td:last-child")
    assert page.locator("#tried tbody tr").count() == 2
    page.select_option("#device", "L40")
    changed(page, slow)
    before = time_of(page)
    width = page.locator("#fold-z").bounding_box()["width"]
    page.click("#fold-z", position={"x": width - 2, "y": 5})
    changed(page, before)
    assert page.inner_text("#fold-z + output") == "8"


def seven_points():
    fields = [
        pa.Field("src", shape=(256, 512, 512), halo=1),
        pa.Field("dst", shape=(256, 512, 512)),
    ]
    loads = ["src[z, y, x]"]
    for axis in "xyz":
        for step in "-+":
            at = ", ".join(f"{a} {step} 1" if a == axis else a for a in "zyx")
            loads.append(f"src[{at}]")
    return pa.Kernel.from_accesses("k", fields, loads, ["dst[z, y, x]"], flops=8)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_result_stays_in_sight(address, visit, width):
    page = visit(address, width)
    page.wait_for_selector("#answer .bars")
    before = time_of(page)
    page.locator("#fold-z").scroll_into_view_if_needed()
    page.focus("#fold-z")
    page.keyboard.press("End")
    changed(page, before)
    seen = page.locator("#headline .big").bounding_box()
    assert 0 <= seen["y"] < 200
    top = "([x, y]) => document.elementFromPoint(x, y).closest('#pinned') !== null"
    assert page.evaluate(top, [seen["x"] + 5, seen["y"] + seen["height"] / 2])


def test_stalls_and_timeline_follow_the_launch(address, visit):
    page = visit(address)
    page.wait_for_selector("#more:not(.stale) svg.whole")
    before = page.inner_text("#more .bars")
    page.focus("#block-x")
    page.keyboard.press("Home")
    page.wait_for_function("t => document.querySelector('#more .bars').innerText !== t", arg=before)
    page.wait_for_selector("#more:not(.stale)")
    assert "100 %" in page.inner_text("#more h3")


def compiled(page):
    page.wait_for_selector("#answer .bars")
    page.select_option("#way", "cuda")
    page.wait_for_function("document.querySelector('#kernel').value === 'axpy'")
    page.wait_for_selector("#more:not(.stale) .beside")


def test_source_that_is_typed_is_compiled(address, visit, sound):
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        pytest.skip("nvrtc or nvdisasm is not installed")
    page = visit(address)
    compiled(page)
    assert "last launch" not in page.inner_text("#headline")  # that was of another kernel
    before = page.locator(".beside tr[data-number]").count()
    text = page.input_value("#code")
    page.fill("#args", "n = 524288\na = 1.0")
    page.fill("#code", text.replace("y[i] += a * x[i]", "y[i] += a * x[i] / (x[i] + 1)"))
    page.wait_for_function(
        "n => document.querySelectorAll('.beside tr[data-number]').length > n", arg=before
    )
    assert page.input_value("#args") == "n = 524288\na = 1.0"
    sound(page)
    page.fill("#code", text.replace(";", ""))
    page.wait_for_function("document.querySelector('#error').innerText")


def test_an_instruction_names_what_it_waits_for(address, visit):
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        pytest.skip("nvrtc or nvdisasm is not installed")
    page = visit(address)
    compiled(page)
    use = page.locator(".beside tr[data-number]:has(td:text-matches('^FFMA'))").first
    use.hover()
    culprits = page.locator(".beside tr.culprit")
    assert "LDG" in " ".join(culprits.all_inner_texts())
    assert "waits for" in page.inner_text(".beside + p")
    assert page.locator(".beside tr.same:not([data-number])").inner_text().split()[0] == "3"
    line = page.locator(".beside tr[data-key$=':3']:not([data-number])")
    line.focus()
    assert page.locator(".beside tr.same[data-number]").count() > 3
    page.locator(".beside tr[data-number]").first.focus()
    for _ in range(page.locator(".beside tr[data-number]").count()):
        page.keyboard.press("ArrowDown")
        if page.evaluate("document.activeElement.innerText").find("FFMA") >= 0:
            break
    assert culprits.count() > 0


def test_a_bad_expression_is_marked_and_the_next_good_one_mends_it(address, visit):
    page = visit(address)
    page.wait_for_selector("#answer .bars")
    with page.expect_response("**/predict"):
        page.fill("#stores", "dst[z, y, x * x]")
    page.wait_for_function("document.querySelector('#error').innerText")
    assert page.inner_text("#error").splitlines() == [
        "stores[0]: a product of two coordinates is not affine",
        "  dst[z, y, x * x]",
        "                ^",
    ]
    page.fill("#stores", "dst[z, y, x]")
    page.wait_for_function("!document.querySelector('#error').innerText")


def test_a_file_is_compiled_and_shown(address, visit, sound, tmp_path):
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        pytest.skip("nvrtc or nvdisasm is not installed")
    source = tmp_path / "sent.cu"
    source.write_text(CODE)
    page = visit(address)
    page.wait_for_selector("#answer .bars")
    before = time_of(page)
    page.select_option("#way", "cuda")
    page.set_input_files("#source", source)
    page.wait_for_function("document.querySelector('#kernel').value === 'twice'")
    assert page.input_value("#args") == "n = 1048576"
    assert page.inner_text("#block-x + output") == "256"
    changed(page, before)
    assert 'cuda = "kernel.cu", name = "twice"' in page.text_content("#test")
    sound(page)
