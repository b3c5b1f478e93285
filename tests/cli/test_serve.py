"""Questions and answers as lines of JSON, and what a client may not reach."""

import inspect
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import perfassert as pa
from perfassert.cli import tools
from perfassert.cli.serve import answer, serve
from perfassert.cli.tool_calls import TOOLS, describe_tools, tool_schema
from perfassert.system.confined import FOLDER

pytestmark = pytest.mark.exhaustive(one_in=3)

LISTING = Path(__file__).parents[1] / "frontends" / "fixtures" / "saxpy.sass"


@pytest.fixture(autouse=True)
def folder(request, tmp_path, monkeypatch):
    """A folder with a kernel that needs no compiler, beside a file that is none of the client's."""
    if "toolchain" in request.fixturenames:
        request.getfixturevalue("toolchain")  # compiles a file that the client may not read
    served = tmp_path / "served"
    served.mkdir()
    (served / "saxpy.sass").write_bytes(LISTING.read_bytes())
    (tmp_path / "secret.sass").write_bytes(LISTING.read_bytes())
    monkeypatch.setenv(FOLDER, str(served))
    monkeypatch.chdir(served)
    tools.confine()
    return served


def launch(**more):
    return {
        "source": "saxpy.sass", "device": device(), "grid": 4096, "block": [256],
        "args": {"n": 1 << 20}, **more,
    }  # fmt: skip


def device():
    return "a100"


def ask(tool, **arguments):
    asked = {"id": 1, "tool": tool, "arguments": arguments}
    given = answer(json.dumps(asked).encode())
    assert given["id"] == 1
    return given


def test_a_short_answer_has_what_decides():
    result = ask("predict", **launch())["result"]
    whole = ask("predict", **launch(details=True))["result"]
    assert {"time", "confidence", "speed_of_light", "headroom", "limiter"} <= set(result)
    assert len(json.dumps(result)) < 1500 < len(json.dumps(whole))
    assert result["time"] == float(pa.Prediction.from_dict(whole).time)


def test_every_tool_has_a_valid_schema():
    for described in describe_tools():
        jsonschema.Draft202012Validator.check_schema(described["input_schema"])
    schema = tool_schema(TOOLS["predict"])
    jsonschema.validate(launch(), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(launch(grids=1), schema)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("advise", {}),
        ("explain", {}),
        ("whatif", {"changes": {"dram_bandwidth": 2}}),
        ("whatif", {"changes": {"block": [128]}, "details": True}),
        ("predict", {"measured": "12 us"}),
    ],
)
def test_a_launch(tool, arguments):
    assert "result" in ask(tool, **launch(**arguments))


def test_files_and_devices(folder):
    asked = launch(domain=1 << 20, threads=256)
    del asked["grid"], asked["block"]
    blocks = ask("rank", **asked)["result"]["blocks"]
    assert blocks[0]["place"] == 1
    assert "A40" in ask("devices")["result"]["devices"]
    assert ask("devices", name="a40")["result"]["arch"] == "sm_86"
    for name, details in (("base", {"dram_bandwidth": 1}), ("head", {"dram_bandwidth": 0.5})):
        after = ask("whatif", **launch(changes=details, details=True))["result"]["after"]
        (folder / f"{name}.json").write_text(json.dumps({**after, "sources": {}}))
    assert "text" in ask("compare", base="base.json", head="base.json")["result"]


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        (b"nonsense", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[1]", "is an object"),
        (b'{"tool": "shell"}', "unknown tool"),
        (b'{"tool": "confine"}', "unknown tool"),
        (b'{"tool": "predict", "arguments": []}', "by name"),
        (b'{"tool": "predict", "arguments": {"sources": "k.cu"}}', "unknown argument 'sources'"),
        (b'{"tool": "predict", "arguments": {"source": 3}}', "source must be a string"),
        (b'{"tool": "predict", "arguments": {"source": "k.cu"}}', "device is missing"),
        (b'{"tool": "devices", "arguments": {"details": 1}}', "details must be a boolean"),
        (b"x" * ((1 << 20) + 1), "more than"),
    ],
)
def test_what_is_wrong_is_said(asked, wrong):
    assert wrong in answer(asked)["error"]


def test_a_missing_argument_is_asked_for_as_the_tool_takes_it():
    asked = {**launch(), "args": {}}
    assert ask("predict", **asked)["error"].endswith('; give it in args, as {"n": …}')


@pytest.mark.parametrize("tool", ["predict", "explain", "advise", "rank", "kernels", "diff"])
@pytest.mark.parametrize("name", ["x" * 5000 + ".sass", "\ud800.sass", "k.cu/k.cu"])
def test_names_that_no_file_has(tool, name):
    arguments = {"kernels": {"source": name}, "diff": {"base": name, "head": name}}.get(
        tool, {**launch(), "source": name}
    )
    if tool == "rank":
        arguments = {k: v for k, v in arguments.items() if k not in ("grid", "block")}
        arguments |= {"domain": 64, "blocks": [32, 64]}
    line = json.dumps({"id": 1, "tool": tool, "arguments": arguments}).encode()
    assert "internal" not in answer(line)["error"]


OUTSIDE = "lies outside of"


@pytest.mark.parametrize(
    "arguments",
    [
        {"source": "../secret.sass"},
        {"source": "/etc/passwd"},
        {"source": "link.sass"},
        {"source": "linked/secret.sass"},
        {"source": "k.cu", "include_dirs": ["/etc"]},
        {"source": "k.cu", "include_dirs": ["linked"]},
        {"args": {"n": "@/etc/passwd"}},
        {"args": {"n": "@../secret.sass"}},
        {"device": "../a.toml"},
        {"device": "/etc/a.toml"},
    ],
)
def test_nothing_outside_of_the_folder_is_read(folder, arguments):
    (folder / "link.sass").symlink_to(folder.parent / "secret.sass")
    (folder / "linked").symlink_to(folder.parent)
    (folder / "k.cu").write_text("__global__ void k() {}")
    assert OUTSIDE in ask("predict", **launch(**arguments))["error"]


def test_sides_and_reports_outside(folder):
    for tool in ("diff", "compare"):
        assert OUTSIDE in ask(tool, base="../secret.sass", head="saxpy.sass")["error"]
    assert OUTSIDE in ask("kernels", source="../secret.sass")["error"]


@pytest.mark.parametrize(
    "option", ["-ccbin=/bin/sh", "-Xcompiler=-v", "-include=/etc/passwd", "--run", "-o=x"]
)
def test_options_that_are_not_known_to_be_harmless_are_refused(folder, option):
    (folder / "k.cu").write_text("__global__ void k() {}")
    asked = launch(source="k.cu", options=[option])
    assert ask("predict", **asked)["error"].startswith("option ")


@pytest.mark.parametrize("option", ["-I/etc", "-I..", "-isystem=/usr"])
def test_folders_of_options_are_inside_too(folder, option):
    (folder / "k.cu").write_text("__global__ void k() {}")
    for tool in ("predict", "kernels"):
        more = launch() if tool == "predict" else {}
        asked = ask(tool, **(more | {"source": "k.cu", "options": [option]}))
        assert OUTSIDE in asked["error"]


def test_text_is_neither_a_command_nor_code(folder, toolchain):
    mark = folder / "mark"
    (folder / "k.cu").write_text(
        "#ifndef N\n#define N 1\n#endif\n"
        "__global__ void k(int *p, int n) { p[threadIdx.x * n] = N; }"
    )
    evil = f"$(touch {mark}); __import__('os').system('touch {mark}')"
    for arguments in (
        {"defines": {"N": evil}},
        {"defines": {f"N=1 {evil}": 1}},
        {"kernel": evil},
        {"args": {"n": evil}},
        {"assume": {"p": evil}},
        {"device": evil},
    ):
        assert "error" in ask("predict", **(launch(source="k.cu", args={}) | arguments))
    assert not mark.exists()


def test_a_symbolic_link_to_a_header_outside_is_not_followed(folder, toolchain):
    (folder.parent / "secret.h").write_text("#define N 5")
    (folder / "own.h").symlink_to(folder.parent / "secret.h")
    (folder / "k.cu").write_text('#include "own.h"\n__global__ void k(int *p) { *p = N; }')
    given = ask("predict", **launch(source="k.cu", args={}))
    assert "outside" in given["error"]


def test_a_changed_file_is_compiled_again(folder, toolchain):
    def registers(body):
        (folder / "k.cu").write_text(f"__global__ void k(float *p) {{ {body} }}")
        os.utime(folder / "k.cu", ns=(1, len(body)))
        return ask("predict", **launch(source="k.cu", args={}))["result"]["resources"]["registers"]

    few, many = "p[threadIdx.x] = 1;", "".join(f"float v{i} = p[{i}];" for i in range(40))
    many += f"p[threadIdx.x] = {' * '.join(f'v{i}' for i in range(40))} + sinf(v3) / v7;"
    assert registers(few) < registers(many)


def test_many_questions_in_flight():
    """A client writes all of them before it reads the first answer."""
    count = 200
    questions = b"".join(
        json.dumps(
            {"id": i, "tool": "predict", "arguments": launch(grid=1 + i % 5)}
        ).encode() + b"\n"
        for i in range(count)
    )  # fmt: skip
    process = subprocess.run(
        [sys.executable, "-m", "perfassert", "serve"], input=questions, capture_output=True,
        check=True, timeout=100, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    answers = [json.loads(line) for line in process.stdout.splitlines()]
    assert [a["id"] for a in answers] == list(range(count))
    assert all("result" in a for a in answers)
    assert len({a["result"]["time"] for a in answers}) <= 5


def test_a_line_that_is_too_long_does_not_hide_the_next():
    answers = io.StringIO()
    serve(io.BytesIO(b"x" * (3 << 20) + b'\n{"id": 2, "tool": "devices"}\n'), answers)
    first, second = map(json.loads, answers.getvalue().splitlines())
    assert "more than" in first["error"]
    assert second["id"] == 2


def test_a_narrower_folder_stays(folder, monkeypatch):
    inner = folder / "inner"
    inner.mkdir()
    monkeypatch.setenv(FOLDER, str(inner))
    assert tools.confine() == inner
    monkeypatch.setenv(FOLDER, str(folder.parent))
    assert tools.confine() == folder


def test_every_tool_says_what_it_does():
    for tool in TOOLS.values():
        assert inspect.getdoc(tool)
