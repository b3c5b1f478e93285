"""Runs tests on every promised Python that this machine has.

``python tests/packaging/interpreters.py FOLDER``, which ``make interpreters`` calls, runs
``test_interpreters.py`` on each of them, in an environment in FOLDER that has this checkout and the
dependencies that ``pyproject.toml`` declares. An environment that an earlier run has left is taken
again. Exit code 1 where a test fails, or where the machine lacks a version that
``PERFASSERT_REQUIRE_INTERPRETERS`` names ("3.10 3.13").

``python tests/packaging/interpreters.py FOLDER --lowest TEST ...``, which ``make lowest`` calls,
runs tests on the oldest Python, with the oldest versions of all dependencies that are allowed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from perfassert.toml.tables import loads

ROOT = Path(__file__).parents[2]
TESTS = ("tests/packaging/test_interpreters.py", "tests/test_imports.py")
UV = (sys.executable, "-m", "uv", "--quiet")
PROBE = """
import sys, sysconfig
print(sys.version.split()[0], sysconfig.get_config_var("Py_GIL_DISABLED") or 0)
"""
INSTALLED = """
from importlib.metadata import version
print(*(f"{name} {version(name)}" for name in ("numpy", "islpy", "pytest")), sep=", ")
"""


def promised() -> list[str]:
    """Versions of Python among the package's classifiers, oldest first."""
    project = loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    return [m[1] for m in map(pattern.fullmatch, project["classifiers"]) if m]


def candidates(version: str) -> Iterator[Path]:
    """Paths where a version may be: this interpreter, PATH, pyenv's versions, newest first."""
    yield Path(sys.executable)
    for folder in os.get_exec_path():
        yield Path(folder) / f"python{version}"
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installed = root.glob(f"versions/{version}.*/bin/python{version}")
    yield from sorted(installed, key=lambda p: list(map(int, re.findall(r"\d+", str(p)))))[::-1]


def find(version: str) -> tuple[Path, str] | None:
    """Path and full version of the first interpreter of a version that runs: a shim of pyenv is a
    file that may fail. Free-threaded ones do not load the stable ABI and are passed over."""
    for path in filter(Path.is_file, candidates(version)):
        done = subprocess.run([path, "-c", PROBE], capture_output=True, text=True, check=False)
        full, _, free_threaded = done.stdout.strip().partition(" ")
        if full.startswith(f"{version}.") and free_threaded == "0":
            return path, full
    return None


def prepare(python: Path, folder: Path, *options: str) -> Path:
    """Interpreter of an environment with the checkout and its dependencies, by options of uv.

    The compiled extensions lie in the checkout, and one build serves all versions.
    """
    environment_python = folder / "bin" / "python"
    stamp = folder / "made-for"
    settings = f"{python}\n{(ROOT / 'pyproject.toml').read_text('utf-8')}"
    if not stamp.exists() or stamp.read_text("utf-8") != settings:
        run([*UV, "venv", "--clear", "--python", python, folder])
        install = [*UV, "pip", "install", "--python", environment_python, *options]
        run([*install, "--editable", ROOT], PERFASSERT_PURE="1")
        stamp.write_text(settings, "utf-8")
    return environment_python


def run(command: Sequence[str | Path], **variables: str) -> str:
    """Return the output of a command; raise ``SystemExit`` with it if the command fails."""
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | variables, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def check(python: Path, folder: Path) -> str:
    """Libraries and outcome of the tests on an interpreter."""
    try:
        own = prepare(python, folder)
        text = run([own, "-m", "pytest", "-q", "--noconftest", "-p", "pytester",
                    "-p", "no:cacheprovider", *TESTS])  # fmt: skip
        return f"{run([own, '-c', INSTALLED]).strip()}: {text.strip().splitlines()[-1]}"
    except SystemExit as failure:
        return f"FAILED\n{failure}"


def check_all(folder: Path, required: Sequence[str]) -> int:
    """Print a line for each promised version; returns how many fail or are missing."""
    found = {version: find(version) for version in promised()}
    if unknown := set(required) - set(found):
        sys.exit(f"PERFASSERT_REQUIRE_INTERPRETERS: {', '.join(sorted(unknown))}: "
                 f"pyproject.toml promises {', '.join(found)}")  # fmt: skip
    bad = 0
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        jobs = {v: workers.submit(check, at[0], folder / v) for v, at in found.items() if at}
        for version, at in found.items():
            if at is None:
                bad += version in required
                how = "required, but" if version in required else "left out:"
                print(f"Python {version}: {how} neither on PATH nor among pyenv's", flush=True)
            else:
                outcome = jobs[version].result()
                bad += outcome.startswith("FAILED")
                print(f"Python {at[1]} ({at[0]}): {outcome}", flush=True)
    return bad


def check_lowest(folder: Path, tests: Sequence[str]) -> int:
    """Exit code of the tests with the oldest versions of all."""
    oldest = promised()[0]
    at = find(oldest)
    if at is None:
        sys.exit(f"Python {oldest} is neither on PATH nor among pyenv's")
    own = prepare(at[0], folder, "--resolution", "lowest-direct", "--group", "suite")
    print(f"Python {at[1]}:", run([*UV, "pip", "freeze", "--python", own]).replace("\n", " "))
    return subprocess.run([own, "-m", "pytest", "-q", *tests], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    home = Path(sys.argv[1]).absolute()
    if sys.argv[2:3] == ["--lowest"]:
        sys.exit(check_lowest(home, sys.argv[3:]))
    names = os.environ.get("PERFASSERT_REQUIRE_INTERPRETERS", "").split()
    sys.exit(bool(check_all(home, names)))
