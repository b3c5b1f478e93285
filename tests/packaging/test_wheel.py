"""The built wheel, installed into a fresh environment, predicts; with a compiler and without."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).parents[2]
NOT_SOURCE = shutil.ignore_patterns(".*", "build", "dist", "*.so", "*.egg-info", "__pycache__")
SCRIPT = """
import perfassert as pa
assert "site-packages" in pa.__file__, pa.__file__
n = 1 << 20
fields = [pa.Field("a", shape=(n,)), pa.Field("b", shape=(n,))]
kernel = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
print(len(pa.devices()), pa.predict(kernel, pa.Launch.cover(n, 256), "a100").limiter)
g = pa.InstructionGraph.builder()
g.op("x")
print(pa.simulate(g.build(), 1, 1, 1, {"x": pa.Latency(1, 7)}).engine)
"""


@pytest.fixture(scope="module", params=["compiler", "no compiler"])
def wheel(request, tmp_path_factory):
    """A wheel built from a copy of the source; without a compiler it lacks the extension."""
    source = tmp_path_factory.mktemp("source") / "perfassert"
    shutil.copytree(ROOT, source, ignore=NOT_SOURCE)
    target = tmp_path_factory.mktemp("wheel")
    environment = dict(os.environ)
    if request.param == "no compiler":
        environment |= {"CC": "false", "CXX": "false"}
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", target, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return request.param, next(target.glob("*.whl"))


def test_contents(wheel):
    compiler, path = wheel
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    sources = {
        "perfassert/" + str(p.relative_to(ROOT / "src/perfassert"))
        for p in (ROOT / "src/perfassert").rglob("*.py")
    }
    devices = {f"perfassert/device_files/{p.name}" for p in (ROOT / "devices").glob("*.toml")}
    assert sources | devices | {"perfassert/py.typed"} <= names
    assert "perfassert/device_files/fits/warpspeed.toml" in names
    assert {f"perfassert/report/assets/report.{e}" for e in ("css", "html", "js")} <= names
    extensions = [n for n in names if "_core" in n and not n.endswith(".cpp")]
    if compiler == "no compiler":
        assert not extensions
    elif shutil.which("c++") or shutil.which("g++"):
        assert extensions


def test_a_fresh_environment_predicts(wheel, tmp_path):
    """Dependencies come from the running environment: the network may be absent."""
    compiler, path = wheel
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", path]
    subprocess.run(install, check=True, capture_output=True)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(numpy.__file__).parents[1])}
    script = f"import sys; sys.path.append(sys.path.pop(1))\n{SCRIPT}"  # the wheel goes first
    done = subprocess.run(
        [python, "-c", script], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.stdout.split()[:2] == ["17", "dram"], done.stderr
    if compiler == "no compiler":
        assert done.stdout.split()[2] == "reference"
