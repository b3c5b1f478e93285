"""``examples/plugin``, found by its entry point as an installed package is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfassert.toml.tables import loads

pytestmark = pytest.mark.exhaustive(one_in=3)

EXAMPLE = Path(__file__).parents[2] / "examples/plugin"
PERFASSERT = [sys.executable, "-c", "from perfassert.cli.main import run; run()"]


@pytest.fixture
def installed(tmp_path):
    """An environment that has the package: its module, and what an installer writes beside it."""
    project = loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    (name, value), *_ = project["entry-points"]["perfassert"].items()
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (info / "entry_points.txt").write_text(f"[perfassert]\n{name} = {value}\n")
    (tmp_path / f"{value}.py").write_text((EXAMPLE / f"{value}.py").read_text("utf-8"))
    return os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONUTF8": "1"}


def run(command, environment, folder):
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, encoding="utf-8"
    )


def test_the_command_line_sees_it(installed, tmp_path):
    advise = [
        *PERFASSERT, "advise", str(EXAMPLE / "scale.cu"), "--kernel", "scale", "--device", "a100",
        "--grid", "216", "--block", "256", "--arg", "n=1048576",
    ]  # fmt: skip
    done = run(advise, installed, tmp_path)
    if "not installed" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "Vectorized Loads: " in done.stdout
    without = run(advise, installed | {"PERFASSERT_NO_PLUGINS": "vectorized-loads"}, tmp_path)
    assert without.returncode == 0, without.stderr
    assert "Vectorized Loads" not in without.stdout


def test_tests_can_expect_its_metric(installed, tmp_path):
    (tmp_path / "test_copy.py").write_text(
        "import perfassert as pa\n"
        "N = 1 << 20\n"
        "FIELDS = [pa.Field(n, 'float32', (N,)) for n in 'ab']\n"
        "COPY = pa.Kernel.from_accesses('copy', FIELDS, ['a[x]'], ['b[x]'])\n"
        "def test_copy(perf):\n"
        "    perf(COPY, domain=N, block=256).expect(sectors_per_request=4)\n"
    )
    command = [sys.executable, "-m", "pytest", "-W", "error", "--perf-device", "a100", "-q"]
    done = run(command, installed, tmp_path)
    assert done.returncode == 0, done.stdout


def test_its_own_tests_pass_where_it_is_installed(installed, tmp_path):
    for name in ("test_vectorized_loads.py", "scale.cu"):
        (tmp_path / name).write_text((EXAMPLE / name).read_text("utf-8"), "utf-8")
    command = [sys.executable, "-m", "pytest", "-W", "error", "--perf-no-toolchain=skip", "-q"]
    done = run(command, installed, tmp_path)
    if "ToolchainMissing" in done.stdout:
        pytest.skip("NVIDIA's compiler is not installed")
    assert done.returncode == 0, done.stdout
