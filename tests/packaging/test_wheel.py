"""The built wheel, installed into a fresh environment, predicts."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import perfassert as pa
assert "site-packages" in pa.__file__, pa.__file__
n = 1 << 20
fields = [pa.Field("a", shape=(n,)), pa.Field("b", shape=(n,))]
kernel = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
print(len(pa.devices()), pa.predict(kernel, pa.Launch.cover(n, 256), "a100").limiter)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", target, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(target.glob("*.whl"))


def test_contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {
        "perfassert/" + str(p.relative_to(ROOT / "src/perfassert"))
        for p in (ROOT / "src/perfassert").rglob("*.py")
    }
    devices = {f"perfassert/device_files/{p.name}" for p in (ROOT / "devices").glob("*.toml")}
    assert sources | devices | {"perfassert/py.typed"} <= names
    assert "perfassert/device_files/fits/warpspeed.toml" in names


def test_a_fresh_environment_predicts(wheel, tmp_path):
    """Dependencies come from the running environment: the network may be absent."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--system-site-packages", tmp_path / "env"], check=True
    )
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-installed", wheel]
    subprocess.run(install, check=True, capture_output=True)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": _site_packages()}
    done = subprocess.run(
        [python, "-c", SCRIPT], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.stdout.split() == ["17", "dram"], done.stderr


def _site_packages():
    import numpy

    return str(Path(numpy.__file__).parents[1])
