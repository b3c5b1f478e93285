"""Sessions of a user on the running interpreter, with the dependencies that ``pyproject.toml``
declares and no others; ``make interpreters`` runs this module on every promised Python."""

import importlib
import json
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import perfassert as pa

pytestmark = pytest.mark.exhaustive(one_in=4)

N = 1 << 20
IMPORTS = """
import importlib, pkgutil, sys
import perfassert
modules = [m.name for m in pkgutil.walk_packages(perfassert.__path__, "perfassert.")]
for name in modules:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        library = missing.name.partition(".")[0]
        assert library != "perfassert" and library not in sys.stdlib_module_names, (name, missing)
        print(name, "needs", missing.name, file=sys.stderr)
print(len(modules))
"""
FILE = """
[constants]
n = 1_048_576
[kernels.copy.accesses]
fields = [{ name = "a", shape = "{n}" }, { name = "b", shape = "{n}" }]
loads = ["a[x]"]
stores = ["b[x]"]
[[test]]
name = "described"
kernel = "copy"
launch = { domain = "{n}", block = "{BLOCK}" }
expect = { limiter = "dram", dram_load = "8 B/update ± 1 %" }
parametrize.BLOCK = [128, 256]
[[test]]
name = "compiled"
kernel = { cubin = "saxpy.sass", name = "saxpy" }
launch = { domain = "{n}", block = 256, args = { n = "{n}" } }
expect = { registers = 10, dram_load = "8 B/update ± 1 %" }
[[rank]]
name = "block shapes"
kernel = "copy"
domain = "{n}"
candidates = [256, 512, [1, 256]]
expect = { best = 256 }
"""
GATE = """
import perfassert as pa

def test_copy(perf):
    fields = [pa.Field("a", shape=({n},)), pa.Field("b", shape=({n},))]
    kernel = pa.Kernel.from_accesses("copy", fields, loads=["a[{stride}x]"], stores=["b[x]"])
    perf.no_regression(perf(kernel, domain={domain}, block=256))
"""


def run(folder, *arguments):
    """Exit status and text of a session in the folder, and the predictions of its report."""
    environment = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTHONPATH")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-c", os.devnull, "--rootdir=.", "-v",
         "-p", "no:cacheprovider", "--perf-report=json:report.json", *arguments],
        cwd=folder, env=environment, check=False, capture_output=True, text=True, encoding="utf-8",
    )  # fmt: skip
    text, report = done.stdout + done.stderr, folder / "report.json"
    assert report.exists(), text
    tests = json.loads(report.read_text("utf-8"))["tests"]
    return done.returncode, text, [p for test in tests for p in test["predictions"]]


def dram_load(prediction):
    return prediction["volumes"]["dram_load"]["total"]


def test_every_module_is_imported():
    """A module that is missing belongs to a library that only an extra names."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORTS], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    sources = list(Path(pa.__file__).parent.rglob("*.py"))
    assert int(done.stdout) >= len(sources) - 1  # the package itself is not among its modules


@pytest.mark.parametrize("engine", ["pipeline", "volume", "execution"])
def test_an_engine_that_was_built_is_loaded(engine):
    """An extension built for the stable ABI of the oldest Python is loaded by all of them."""
    folder = Path(pa.__file__).parent / "engines" / engine
    built = any((folder / f"_core{suffix}").exists() for suffix in EXTENSION_SUFFIXES)
    compiled = importlib.import_module(f"perfassert.engines.{engine}.compiled")
    assert compiled.available() == built


def test_a_described_kernel_is_predicted():
    """An element of 8 bytes is read once and written once."""
    fields = [pa.Field("a", shape=(N,)), pa.Field("b", shape=(N,))]
    kernel = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
    prediction = pa.predict(kernel, pa.Launch.cover(N, 256), "a100")
    assert prediction.limiter == "dram"
    volumes = prediction.volumes
    assert (volumes.dram_load.total, volumes.dram_store.total) == (8 * N, 8 * N)


def test_tests_in_toml(tmp_path):
    """A described and a compiled kernel, which moves as many bytes, and a ranking."""
    (tmp_path / "copy.perf.toml").write_text(FILE, "utf-8")
    listing = Path(pa.__file__).parent / "sensitivity" / "saxpy.sass"
    (tmp_path / "saxpy.sass").write_bytes(listing.read_bytes())
    status, text, predictions = run(tmp_path, "--perf-device=a100")
    assert status == 0, text
    assert sorted(p["kernel"] for p in predictions) == ["copy", "copy", "copy", "saxpy"]
    assert {dram_load(p) for p in predictions} == {8 * N}


def test_a_gate(tmp_path):
    """A gate passes with its baseline, and fails if loads have become strided."""
    path = tmp_path / "test_copy.py"
    path.write_text(GATE.format(n=N, domain=N, stride=""), "utf-8")
    status, text, _ = run(tmp_path, "--perf-device=a100", "--perf-update")
    assert status == 0, text
    status, text, (before,) = run(tmp_path, "--perf-device=a100", "--perf-strict")
    assert status == 0, text
    path.write_text(GATE.format(n=8 * N, domain=N, stride="8 * "), "utf-8")
    status, text, (after,) = run(tmp_path, "--perf-device=a100", "--perf-strict")
    assert status == 1, text
    assert "loads of a take 8 times the cycles of the L1 (uncoalesced)" in text
    assert dram_load(after) >= 4 * dram_load(before)  # a sector of 32 bytes for each element of 8
