"""``perfassert explore``: what it shows is what ``predict`` says, and only its page may ask."""

import http.client
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.cli import local_server
from perfassert.cli.explore import explore_page
from perfassert.cli.explored import Explorer
from perfassert.cli.local_server import MAX_CONNECTIONS, LocalServer
from perfassert.cli.main import main
from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.exhaustive(one_in=4)

needs_tools = pytest.mark.skipif(
    tools.find("nvrtc") is None or tools.find("nvdisasm") is None,
    reason="nvrtc or nvdisasm is not installed",
)
A100 = "A100-SXM4-40GB"
FIELDS = [
    {"name": "src", "dtype": "float64", "shape": ["64", "32*2", "64"], "halo": "1"},
    {"name": "dst", "dtype": "float64", "shape": ["64", "64", "64"], "halo": "0"},
]
LOADS = ["src[z, y, x]", "src[z, y + 1, x]", "src[z, y - 1, x]", "src[z - 1, y, x]"]
ACCESSES = {
    "fields": FIELDS, "loads": LOADS, "stores": ["dst[z, y, x]"], "flops": "4", "registers": "32",
}  # fmt: skip
QUESTION = {
    "device": A100, "domain": "64, 64, 64", "block": "16,2,8", "fold": "1,1,1",
    "accesses": ACCESSES,
}  # fmt: skip
CODE = """
__global__ void scale(float* a, float f, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] *= f;
}
"""


@pytest.fixture
def explorer(tmp_path):
    devices = {name: pa.device(name) for name in (A100, "L40")}
    return Explorer(tmp_path, None, {}, devices)


def written(fold=(1, 1, 1)):
    """The same kernel, by hand."""
    x, y, z = fold
    fields = [pa.Field(n, shape=(64, 64, 64), halo=h) for n, h in (("src", 1), ("dst", 0))]
    steps = [(i, j) for i in range(y) for j in range(z)]
    offsets = {(dz + j, dy + i) for i, j in steps for dz, dy in [(0, 0), (0, 1), (0, -1), (-1, 0)]}
    return pa.Kernel.from_accesses(
        "explored", fields, [f"src[{z} * z + {dz}, {y} * y + {dy}, x]" for dz, dy in offsets],
        [f"dst[{z} * z + {j}, {y} * y + {i}, x]" for i, j in steps],
        flops=4 * x * y * z, updates_per_thread=x * y * z,
    )  # fmt: skip


@pytest.mark.parametrize("fold", [(1, 1, 1), (1, 2, 1), (1, 2, 4)])
def test_it_shows_what_predict_says(explorer, fold):
    shown = explorer.predict({**QUESTION, "fold": ",".join(map(str, fold))})
    domain = tuple(64 // f for f in fold)
    p = pa.predict(written(fold), pa.Launch.cover(domain, (16, 2, 8)), A100)
    assert shown["time"] == pytest.approx(float(p.time), rel=1e-4)
    assert (shown["limiter"], shown["updates"]) == (p.limiter, p.updates)
    for name, (total, *_) in shown["volumes"].items():
        assert total == pytest.approx(float(getattr(p.volumes, name).total), rel=1e-4)
    layers = {layer["axis"]: layer for layer in shown["layers"]}
    for axis in "yz":  # none where one wave is all there is
        needed = p.diagnostics[f"layer_{axis}_bytes"]
        assert (axis in layers) is (needed > 0)
        assert layers.get(axis, {}).get("needed", 0) == needed
    if fold == (1, 1, 1):
        assert layers["z"]["missed"] == p.diagnostics["layer_z_miss"]
        assert layers["z"]["held"] == pa.device(A100).l2_effective_bytes


def test_the_test_that_it_offers_predicts_the_same(explorer, pytester, monkeypatch):
    shown = explorer.predict({**QUESTION, "fold": "1,2,4"})
    pytester.makefile(".perf.toml", explored=shown["test"])
    monkeypatch.delenv("CI", raising=False)
    options = ("--perf-update", "--perf-report=json:out.json", "-p", "no:cacheprovider")
    done = pytester.runpytest_subprocess(*options)
    done.assert_outcomes(passed=1)
    report = json.loads(Path("out.json").read_text("utf-8"))
    assert report["tests"][0]["predictions"][0]["time"] == pytest.approx(shown["time"], rel=1e-4)


def test_a_ranking_has_every_shape(explorer):
    found = explorer.rank(QUESTION)
    assert found["threads"] == 256
    assert len({c["candidate"] for c in found["candidates"]}) == len(found["candidates"]) > 10
    one = next(c for c in found["candidates"] if c["candidate"] == "16×2×8")
    assert one["time"] == pytest.approx(explorer.predict(QUESTION)["time"], rel=1e-4)


@needs_tools
def test_code_is_compiled_for_the_device_at_hand(tmp_path):
    explorer = Explorer(tmp_path, None, {}, {"L40": pa.device("L40")})
    asked = {"device": "L40", "cuda": CODE}
    assert explorer.kernels(asked) == {"kernels": [["scale", "f = 1.0\nn = 1048576"]]}
    launch = {"domain": "1048576", "block": "256", "args": "n = 1024 * 1024\n\nf = 2.0"}
    shown = explorer.predict({**asked, **launch, "kernel": "scale"})
    source = tmp_path / "own.cu"
    source.write_text(CODE)
    given = {"n": 1 << 20, "f": 2.0}
    launch = pa.Launch.cover(1 << 20, 256, given)
    p = pa.predict(pa.from_cuda(source), launch, "L40")
    assert shown["time"] == pytest.approx(float(p.time), rel=1e-4)
    assert 'cuda = "kernel.cu", name = "scale"' in shown["test"]


def test_details_of_expressions_are_those_of_the_prediction(explorer):
    details = explorer.details(QUESTION)
    p = pa.predict(written(), pa.Launch.cover((64, 64, 64), (16, 2, 8)), A100)
    assert details["stalls"] == pytest.approx(dict(p.stalls), rel=1e-4)
    assert details["timeline"]["warps"]
    assert details["code"] == []


@needs_tools
def test_details_of_code_say_who_waits_for_whom(explorer):
    question = {"device": A100, "cuda": CODE, "kernel": "scale", "domain": "1048576",
                "block": "256", "args": "n = 1048576\nf = 2.0"}  # fmt: skip
    details = explorer.details(question)
    code = {i["number"]: i for i in details["code"]}
    stalled = sum(i["share"] for i in code.values())
    assert stalled == pytest.approx(1 - details["stalls"]["selected"], abs=0.01)
    (product,) = (i for i in code.values() if i["text"].startswith("FMUL"))
    (number, reason, share), *_ = product["waits"]
    assert code[number]["text"].startswith("LDG")
    assert (reason, product["file"], product["line"]) == ("memory_dependency", "kernel.cu", 4)
    assert 0 < share <= product["share"]
    assert details["files"]["kernel.cu"][4].strip() == "if (i < n) a[i] *= f;"


@needs_tools
def test_an_edited_file_still_includes_its_neighbours(tmp_path):
    folder, place = tmp_path / "sent", tmp_path / "project"
    folder.mkdir()
    place.mkdir()
    (place / "factor.h").write_text("#define FACTOR 2\n")
    source = place / "own.cu"
    source.write_text(CODE)
    explorer = Explorer(folder, source, {}, {A100: pa.device(A100)})
    edited = '#include "factor.h"\n' + CODE.replace("*= f", "*= f * FACTOR")
    assert explorer.kernels({"device": A100, "cuda": edited})["kernels"][0][0] == "scale"


# --- the server -----------------------------------------------------------------------------------


@pytest.fixture
def served(explorer, tmp_path):
    answers = {"predict": explorer.predict}
    server = LocalServer(0, explore_page(None, {A100: pa.device(A100)}), answers, str(tmp_path))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def request(server, method="POST", path=None, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    content = json.dumps(QUESTION) if body is None else body
    said = {
        "Content-Type": "application/json",
        **{k.replace("_", "-"): v for k, v in headers.items()},
    }
    where = f"{server.path}predict" if path is None else path
    connection.request(method, where, content if method == "POST" else None, said)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response, text


def wait_until(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def test_the_page_and_an_answer(served):
    response, text = request(served, "GET", served.path)
    assert (response.status, response.getheader("Cache-Control")) == (200, "no-store")
    assert "connect-src 'self'" in text
    response, text = request(served, Origin=served.address.removesuffix(served.path))
    p = pa.predict(written(), pa.Launch.cover((64, 64, 64), (16, 2, 8)), A100)
    assert response.status == 200
    assert json.loads(text)["time"] == pytest.approx(float(p.time), rel=1e-4)


@pytest.mark.parametrize(
    ("status", "change"),
    [
        (404, {"path": "/predict"}),
        (404, {"path": "/guessed/predict"}),
        (404, {"path": "/../../etc/passwd", "method": "GET"}),
        (404, {"path": "/", "method": "GET"}),
        (403, {"Host": "rebound.example:80"}),
        (403, {"Origin": "http://elsewhere.example"}),
        (403, {"Origin": "null"}),
        (415, {"Content_Type": "text/plain"}),
        (400, {"body": "{"}),
        (400, {"body": "[]"}),
        (413, {"Content_Length": "99999999999"}),
        (501, {"method": "PUT"}),
    ],
)
def test_what_is_refused(served, status, change):
    assert request(served, **change)[0].status == status


def send(server, text, wait=30.0):
    """Whatever is sent, as it stands, and the status of the answer; "" where there is none."""
    with socket.create_connection(server.server_address, timeout=wait) as connection:
        connection.sendall(text.encode())
        words = connection.makefile("rb").readline().split()
    return words[1].decode() if words else ""


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        ("200", {}),
        ("403", {"Host": "{host}\r\nHost: rebound.example"}),
        ("403", {"Host": "rebound.example\r\nHost: {host}"}),
        ("403", {"Origin": "http://{host}\r\nOrigin: http://elsewhere.example"}),
        ("403", {"Sec-Fetch-Site": "cross-site"}),
        ("403", {"Sec-Fetch-Site": "same-site"}),
        ("200", {"Sec-Fetch-Site": "same-origin"}),
        ("411", {"Transfer-Encoding": "chunked"}),
        ("411", {"Content-Length": "{length}\r\nContent-Length: 5"}),
    ],
)
def test_headers_that_can_be_read_in_two_ways(served, status, headers):
    body = json.dumps(QUESTION)
    host = "{}:{}".format(*served.server_address)
    usual = {"Host": "{host}", "Content-Type": "application/json", "Content-Length": "{length}"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**usual, **headers}.items())
    head = f"POST {served.path}predict HTTP/1.1\r\n{lines}\r\n"
    assert send(served, head.format(host=host, length=len(body)) + body) == status


def test_a_page_that_a_file_leads_to(served):
    """A browser calls that a request of another site."""
    response, _ = request(served, "GET", served.path, Sec_Fetch_Site="cross-site")
    assert response.status == 200


def test_clients_that_send_a_byte_now_and_then(served, monkeypatch):
    """A request has one time limit, not one for each byte that arrives."""
    monkeypatch.setattr(local_server, "_REQUEST_TIMEOUT", 0.5)
    with socket.create_connection(served.server_address, timeout=30) as connection:
        ended = False
        for byte in b"GET /" + bytes(1000):
            try:
                connection.sendall(bytes([byte]))
                connection.settimeout(0.05)
                ended = connection.recv(100) == b""
            except TimeoutError:
                continue
            except OSError:
                ended = True
            if ended:
                break
        assert ended
    assert request(served)[0].status == 200


def test_many_clients(served):
    """More than it answers at once are turned away, and take neither threads nor files."""
    waiting = [socket.create_connection(served.server_address) for _ in range(300)]
    try:
        wait_until(lambda: served.connections == MAX_CONNECTIONS)
        before = threading.active_count()
        for _ in range(50):
            assert send(served, "") == ""
        assert threading.active_count() <= before
    finally:
        for connection in waiting:
            connection.close()
    wait_until(lambda: served.connections == 0)
    assert request(served)[0].status == 200


def test_a_client_that_leaves(served, capfd):
    with socket.create_connection(served.server_address) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(f"GET {served.path} HTTP/1.1\r\nHost: ".encode())
    wait_until(lambda: served.connections == 0)
    assert request(served)[0].status == 200
    assert capfd.readouterr().err == ""


def test_text_that_no_file_can_hold(served):
    body = json.dumps({"device": A100, "domain": "64", "block": "32", "cuda": "// \ud800"})
    response, text = request(served, body=body)
    assert response.status == 200
    assert json.loads(text)["error"] == "cuda: has characters that no text can have"


def test_the_file_of_a_word_that_is_known_is_not_served(served):
    for name in ("report.css", "..%2f..%2fetc%2fpasswd", "../explore.js", "unknown"):
        assert request(served, path=f"{served.path}{name}")[0].status == 404
        assert request(served, "GET", f"{served.path}{name}")[0].status == 404


def test_it_listens_on_this_machine_alone(served):
    assert served.server_address[0] == "127.0.0.1"
    assert len(served.path) > 30


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accesses": {**ACCESSES, "loads": ["src[z, y, x + q(1)]"]}},
         "loads[0]: only + - * // % and parentheses over integers are allowed\n"
         "  src[z, y, x + q(1)]\n                ^"),
        ({"accesses": {**ACCESSES, "loads": ["src[z, y, x + 9]"]}},
         "loads[0]: subscript 2 of 'src'"),
        ({"accesses": {**ACCESSES, "stores": ["__import__('os')"]}}, "stores[0]: an access is"),
        ({"accesses": {**ACCESSES, "fields": [{"name": "src"}]}}, "fields[0].shape: missing"),
        ({"accesses": {**ACCESSES, "registers": "many"}}, "kernel.registers: "),
        ({"block": "0,1,1"}, "block"),
        ({"fold": "1,1,3"}, "3 updates of a thread in z do not divide the domain's 64"),
        ({"device": "../secret.toml"}, "device: there is no '../secret.toml' in the list"),
        ({"color": "red"}, "color: unknown key"),
        ({"block": 7}, "block: must be a string, not 7"),
    ],
)  # fmt: skip
def test_an_error_has_its_place(served, change, message):
    response, text = request(served, body=json.dumps({**QUESTION, **change}))
    assert response.status == 200
    assert message in json.loads(text)["error"]


@needs_tools
def test_what_is_sent_is_not_called_by_a_folder(explorer, served, tmp_path):
    launch = {"device": A100, "domain": "64", "block": "32"}
    body = json.dumps({**launch, "cuda": "__global__ void k() { nonsense; }\n"})
    response, text = request(served, body=body)
    assert response.status == 200
    assert "kernel.cu" in text
    assert str(tmp_path) not in text


def test_the_command_says_its_address():
    command = [sys.executable, "-m", "perfassert", "explore", "--json", "--device", "l40"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        address = json.loads(running.stdout.readline())["address"]
        host, _, path = address.removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(host, timeout=30)
        connection.request("GET", f"/{path}")
        page = connection.getresponse().read().decode()
        running.terminate()
    assert '"devices":["L40"' in page


BROWSER = """#!{python}
import json, os, pathlib, sys, time, urllib.parse
file = pathlib.Path(urllib.parse.urlparse(sys.argv[1]).path)
modes = [oct(path.stat().st_mode & 0o777) for path in (file, file.parent)]
seen = {{"words": sys.argv[1:], "text": file.read_text(), "modes": modes, "file": str(file)}}
pathlib.Path({out!r} + ".new").write_text(json.dumps(seen))
os.replace({out!r} + ".new", {out!r})
for _ in range(3000):  # as a browser in the terminal, which ends when its user has read the page
    if not file.exists():
        break
    time.sleep(0.01)
"""


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="it chooses the browser itself")
def test_a_browser_is_told_the_address_in_a_file_of_its_user(tmp_path):
    """Words of a command line are there for every user of the machine."""
    script, out = tmp_path / "browser", tmp_path / "seen.json"
    script.write_text(BROWSER.format(python=sys.executable, out=str(out)))
    script.chmod(0o755)
    command = [sys.executable, "-m", "perfassert", "explore", "--json", "--open"]
    environment = {**os.environ, "BROWSER": str(script)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            address = json.loads(running.stdout.readline())["address"]
            wait_until(out.exists)
            seen = json.loads(out.read_text())
            secret = address.rstrip("/").rpartition("/")[2]
            assert len(secret) == 32
            assert not any(secret in word for word in seen["words"])
            assert f'content="0; url={address}"' in seen["text"]
            assert seen["modes"] == ["0o600", "0o700"]
            host, _, path = address.removeprefix("http://").partition("/")
            connection = http.client.HTTPConnection(host, timeout=30)
            connection.request("GET", f"/{path}")
            assert connection.getresponse().status == 200
            wait_until(lambda: not Path(seen["file"]).exists())
            assert running.poll() is None
        finally:
            running.terminate()


def test_what_cannot_be_opened(tmp_path, capsys):
    assert main(["explore", str(tmp_path / "none.cu")]) == 2
    assert main(["explore", "--port", "99999"]) == 2
    assert main(["explore", "--device", "l4000"]) == 2
    said = capsys.readouterr().err
    assert "there is no such file" in said
    assert "--port 99999" in said
