"""The built wheel, installed into a fresh environment, predicts; with a compiler and without."""

import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from unittest.mock import Mock

import numpy
import pytest
import yaml
from setuptools import Distribution, Extension

from perfassert.toml.tables import loads

pytestmark = pytest.mark.exhaustive(one_in=2)

ROOT = Path(__file__).parents[2]
WITHOUT = {
    **({"compiler": {}} if os.environ.get("PERFASSERT_EXHAUSTIVE") else {}),  # takes a minute
    "no compiler": {"CC": "false", "CXX": "false"},
    "pure": {"PERFASSERT_PURE": "1"},
}
NOT_SOURCE = shutil.ignore_patterns(".*", "build", "dist", "*.so", "*.egg-info", "__pycache__")
SCRIPT = """
import perfassert as pa
assert "site-packages" in pa.__file__, pa.__file__
n = 1 << 20
fields = [pa.Field("a", shape=(n,)), pa.Field("b", shape=(n,))]
kernel = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
try:
    limiter = pa.predict(kernel, pa.Launch.cover(n, 256), "a100").limiter
except pa.PerfAssertError as error:
    limiter = "refused" if "installed without its compiled engine" in str(error) else str(error)
print(len(pa.devices()), limiter)
g = pa.InstructionGraph.builder()
g.op("x")
print(pa.simulate(g.build(), 1, 1, 1, {"x": pa.Latency(1, 7)}).engine)
"""

HEADER = """
from pathlib import Path
import pytest
Path("test_nothing.py").write_text("def test_nothing(): pass")
sys.exit(pytest.main(["-p", "no:cacheprovider", "--perf-device", "a100", "test_nothing.py"]))
"""


@pytest.fixture(scope="module", params=WITHOUT)
def wheel(request, tmp_path_factory):
    """A wheel built from a copy of the source; without a compiler it lacks the extension."""
    source = tmp_path_factory.mktemp("source") / "perfassert"
    shutil.copytree(ROOT, source, ignore=NOT_SOURCE)
    target = tmp_path_factory.mktemp("wheel")
    leave_an_earlier_build(source)
    environment = os.environ | WITHOUT[request.param]
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", target, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return request.param, next(target.glob("*.whl"))


def leave_an_earlier_build(source):
    """``build/`` as setuptools names its folders, with what the source has no more."""
    version = "".join(map(str, sys.version_info[:2]))
    for folder in ("lib", f"lib.{sysconfig.get_platform()}-cpython-{version}"):
        stale = source / "build" / folder / "perfassert" / "engines" / "pipeline"
        stale.mkdir(parents=True)
        for name in ("stale.py", "_core.abi3.so"):
            (stale / name).write_text("of an earlier build")


def test_the_source_distribution_has_every_file_that_is_compiled():
    """The distribution has the files of ``pyproject.toml``; without a header the engine would be
    missing."""
    settings = loads((ROOT / "pyproject.toml").read_text("utf-8"))
    named = set()
    for extension in settings["tool"]["setuptools"]["ext-modules"]:
        named |= {ROOT / file for file in (*extension["sources"], *extension.get("depends", ()))}
    folders = {file.parent for file in named}
    assert named == {file for folder in folders for file in folder.glob("*.[ch]pp")}


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
    assert not [n for n in names if "stale" in n]
    extensions = [n for n in names if "_core" in n and not n.endswith(".cpp")]
    if compiler != "compiler":
        assert not extensions
        assert path.name.endswith("-py3-none-any.whl")
    elif shutil.which("c++") or shutil.which("g++"):
        assert len(extensions) == 3
        free_threaded = sysconfig.get_config_var("Py_GIL_DISABLED")
        assert ("t-" if free_threaded else "-cp310-abi3-") in path.name


def test_a_fresh_environment_predicts(wheel, tmp_path):
    """Dependencies come from the running environment: the network may be absent."""
    compiler, path = wheel
    folder = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, path], check=True, capture_output=True)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(numpy.__file__).parents[1])}
    first = "import sys; sys.path.append(sys.path.pop(1))\n"  # the wheel goes first

    def said(script):
        done = subprocess.run(
            [python, "-c", first + script],
            capture_output=True, text=True, cwd=tmp_path, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    devices, limiter, engine = said(SCRIPT).split()
    assert int(devices) == len(list((ROOT / "devices").glob("*.toml")))
    assert limiter == ("dram" if engine == "compiled" else "refused")
    if compiler != "compiler":
        assert engine == "reference"
    shown = "compiled engine" if engine == "compiled" else "no compiled engine: nothing can be"
    assert f", {shown}" in said(HEADER)


def test_llvms_compiler_takes_the_place_of_microsofts(monkeypatch):
    """The engines use what the latter lacks."""
    passed: dict = {}
    monkeypatch.setattr("setuptools.setup", lambda **options: passed.update(options))
    runpy.run_path(str(ROOT / "setup.py"))
    monkeypatch.setattr(
        "setuptools.command.build_ext.build_ext.build_extensions", lambda self: None
    )
    monkeypatch.setattr("shutil.which", lambda name: f"C:/LLVM/{name}.exe")
    command = passed["cmdclass"]["build_ext"](Distribution())
    command.extensions = [Extension("a", ["a.cpp"], extra_compile_args=["-O3", "-std=c++17"])]
    command.compiler = Mock(compiler_type="msvc", cc="cl.exe")
    command.build_extensions()
    command.compiler.initialize.assert_called_once_with()
    assert command.compiler.cc == "C:/LLVM/clang-cl.exe"
    assert command.extensions[0].extra_compile_args == ["/O2", "/std:c++17", "/EHsc"]


def test_wheels_are_built_for_linux_macos_and_windows():
    """Platforms on which the engine was never compiled do not delay a release."""
    settings = loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["cibuildwheel"]
    assert {name.partition("-")[2].partition("_")[0] for name in settings["build"]} == {
        "manylinux", "macosx", "win",
    }  # fmt: skip
    for workflow in ("ci", "release"):
        text = (ROOT / f".github/workflows/{workflow}.yml").read_text("utf-8")
        job = yaml.safe_load(text)["jobs"]["wheels"]
        runners = {runner.partition("-")[0] for runner in job["strategy"]["matrix"]["runner"]}
        assert runners == {"ubuntu", "macos", "windows"}
        assert "ubuntu" in job["continue-on-error"]
