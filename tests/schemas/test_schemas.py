"""Tests that files of the repository match their published schemas, and that invalid ones do
not."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

import perfassert as pa
from perfassert.cli.main import main
from perfassert.cli.schema import NAMES
from perfassert.schemas.catalogue import schema, schema_file_name, to_json
from perfassert.toml.tables import loads

ROOT = Path(__file__).parents[2]
FILES = [
    *(("device", path) for path in sorted(ROOT.glob("devices/*.toml"))),
    *(("device", path) for path in sorted(ROOT.glob("validation/**/calibrated.toml"))),
    *(
        ("suite", path)
        for path in sorted(ROOT.glob("validation/**/*.toml"))
        if path.stem not in ("ruff", "calibrated")
    ),
    *(("perf-toml", path) for path in sorted(ROOT.glob("examples/**/*.perf.toml"))),
    *(
        ("launches", path)
        for path in sorted(ROOT.glob("**/*launches*.toml"))
        if ".venv" not in path.parts
    ),
]
SNIPPETS = re.findall(
    r"<!-- file: \S+\.perf\.toml -->\n```toml\n(.*?)```",
    (ROOT / "docs/reference/perf-toml.md").read_text("utf-8"),
    re.S,
)
LAUNCHES = """
schema = 1
[recorded]
by = "perfassert 0.2.0"
command = ["./app"]
device = "A100-SXM4-40GB"
[kernels.axpy]
cubin = "code/axpy.cubin"
name = "axpy"
[[launch]]
kernel = "axpy"
count = 3
grid = [4096, 1, 1]
block = 256
cluster = [2, 1, 1]
constants = { table = [1, 2.5], all = "launches.npz:c" }
[launch.args]
n = 1048576
a = 2.0
x = { shape = 1048576, dtype = "float32", data = "launches.npz:x" }
y = { alias = "x", offset = 64 }
params = { 0 = "null", out = { shape = [4, "n"] } }
"""


def validator(name: str) -> Draft7Validator:
    made = schema(name)
    Draft7Validator.check_schema(made)
    return Draft7Validator(made)


def problems(name: str, table: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(table)]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_published_is_what_the_readers_take(name, capsys):
    """`perfassert schema NAME > docs/reference/schemas/...` writes it anew."""
    assert (ROOT / "docs/reference/schemas" / schema_file_name(name)).read_text("utf-8") == to_json(
        schema(name)
    )
    assert main(["schema", name]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == schema(name)["title"]


@pytest.mark.parametrize(("name", "path"), FILES, ids=lambda value: getattr(value, "name", value))
def test_every_file_is_valid(name, path):
    assert problems(name, loads(path.read_text("utf-8"))) == []


def test_launches_and_the_pages_snippets_are_valid():
    assert problems("launches", loads(LAUNCHES)) == []
    assert len(SNIPPETS) >= 2
    texts = [text for text in SNIPPETS if "limitr" not in text]
    assert [p for text in texts for p in problems("perf-toml", loads(text))] == []
    assert any("limitr" in p for text in SNIPPETS for p in problems("perf-toml", loads(text)))


GOOD = {
    "kernels": {"copy": {"accesses": {"fields": [{"name": "a", "shape": 8}], "loads": ["a[x]"]}}},
    "test": [
        {"name": "t", "kernel": "copy", "launch": {"domain": 8, "block": 8}, "baseline": True}
    ],
}


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("test", 0, "expect"), {"tiem": "< 1 us"}),
        (("test", 0, "expect"), {"time": True}),
        (("test", 0, "expect"), {}),
        (("test", 0, "launch"), {"domain": 8}),
        (("test", 0, "launch"), {"domain": 8, "grid": 1, "block": 8}),
        (("test", 0, "launch", "args"), {"a": {"shape": 8, "dtyp": "float32"}}),
        (("test", 0, "launch", "block"), [8, 1, 1, 1]),
        (("test", 0, "kernel"), {"cuda": "a.cu", "ptx": "a.ptx"}),
        (("test", 0, "name"), 3),
        (("test", 0, "devices"), []),
        (("test", 0, "baseline"), {"dram_laod": "1 %"}),
        (("kernels", "copy", "accesses", "fields", 0), {"name": "a"}),
        (("constant",), {}),
        (("rank",), [{"name": "r", "candidates": [8], "expect": {"bset": 8}}]),
    ],
)
def test_what_the_reader_refuses_the_schema_refuses(tmp_path, where, value):
    from perfassert.perf_toml.read import _FileReader

    bad = copy.deepcopy(GOOD)
    *way, last = where
    table: Any = bad
    for key in way:
        table = table[key]
    table[last] = value
    path = tmp_path / "x.perf.toml"
    path.write_text("")
    reader = _FileReader(path, "x.perf.toml")
    reader.table = copy.deepcopy(GOOD)
    assert reader.cases()
    assert problems("perf-toml", GOOD) == []
    reader.table = bad
    with pytest.raises(pa.PerfAssertError):
        reader.cases()
    assert problems("perf-toml", bad) != []


def test_devices_that_lack_something():
    whole = loads((ROOT / "devices/A100-SXM4-40GB.toml").read_text("utf-8"))
    for change in (
        lambda t: t["values"].pop("l1_bytes"),
        lambda t: t["values"]["l1_bytes"].update(unit="parsec"),
        lambda t: t["values"]["l1_bytes"].update(grade="sure"),
        lambda t: t["values"].update(l1_bytse=1),
        lambda t: t["operations"]["fp32"].update(isue=1),
        lambda t: t["pipelines"].update(fma="device"),
    ):
        table = copy.deepcopy(whole)
        change(table)
        assert problems("device", table) != []


def test_a_report_is_valid(pytester, monkeypatch):
    pytester.makepyfile(
        """
        import os
        import pytest
        import perfassert as pa
        COPY = pa.Kernel.from_accesses("copy", [pa.Field("a", shape=4096)], loads=["a[x]"])

        def test_fails(perf):
            perf(COPY, domain=4096, block=64).expect(time="< 1 ns")

        def test_ranks(perf):
            perf.rank([64, 128], kernel=COPY, domain=4096).expect(best_in=[64, 128])

        def test_advised(perf):
            g = pa.InstructionGraph.builder()
            with g.loop(trips=64) as body:
                x = g.op("load")
                g.op("ffma", x, body.carried("s"), name="s")
            latencies = {"load": pa.Latency(4, 400, "global"), "ffma": pa.Latency(2, 4, "fma")}
            kernel = pa.Kernel.from_graph("sums", g.build(), latencies=latencies, registers=20)
            assert perf(kernel, grid=8, block=64).stalls

        def test_baseline(perf):
            perf.no_regression(perf(COPY, domain=4096, block=64))

        def test_regressed(perf):
            block = int(os.environ["BLOCK"])
            perf.no_regression(perf(COPY, domain=4096, block=block))
        """
    )
    options = ("-p", "no:cacheprovider", "--perf-device=a100", "--perf-report=json:r.json")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("BLOCK", "64")
    pytester.runpytest_inprocess(*options, "--perf-update=new", "-k", "regressed")
    monkeypatch.setenv("BLOCK", "1")
    pytester.runpytest_inprocess(*options)
    found = json.loads((pytester.path / "r.json").read_text("utf-8"))
    assert len(found["tests"]) == 5
    (regressed,) = (b for test in found["tests"] for b in test["baselines"] if "base" in b)
    assert regressed["cause"].startswith("time +")
    assert regressed["base"]["time"] > 0
    block = next(d for d in regressed["differences"] if d["component"] == "block")
    assert (block["baseline"], block["predicted"]) == ("64×1×1", "1×1×1")
    assert any(p.get("advice") for test in found["tests"] for p in test["predictions"])
    assert problems("report", found) == []
    assert problems("report", {**found, "schema": 1}) != []
