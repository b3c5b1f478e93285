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
    answers = {"predict": explorer.predict, "rank": explorer.rank, "kernels": explorer.kernels}
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
    page.wait_for_selector("#answer .bars")
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
    assert "%" in page.inner_text("#headline table tbody tr:first-child td:last-child")
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
    page.fill("#domain", "1048576")
    page.select_option("#way", "cuda")
    page.set_input_files("#source", source)
    page.wait_for_function("document.querySelector('#kernel').value === 'twice'")
    assert page.input_value("#args") == "n = 1048576"
    assert page.inner_text("#block-x + output") == "256"
    changed(page, before)
    assert 'cuda = "kernel.cu", name = "twice"' in page.text_content("#test")
    sound(page)
