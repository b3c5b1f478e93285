"""Virtual environments that replace one distribution of the current environment.

Each has one version of a distribution, such as ``triton 3.6.0``, and is kept in the cache folder.
Packages that it lacks, perfassert included, are imported from the current environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from perfassert.errors import KernelSourceError, ToolchainMissing
from perfassert.frontends.toolchain import cache
from perfassert.system.temporary import temporary_folder

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_VERSION = r"[0-9][A-Za-z0-9+!_-]*(?:\.[A-Za-z0-9+!_-]+)*"
_EXTRAS = rf"\[{_NAME}(?:,{_NAME})*\]"
_PAIR = re.compile(rf"({_NAME}(?:{_EXTRAS})?)==({_VERSION})\.\.({_VERSION})")
_KEPT = 8
"""Number of environments that are kept; the least recently used are removed."""
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
_LINES = 12  # last lines of a failed program's output that are shown


@dataclass(frozen=True, slots=True)
class VersionPair:
    """Distribution, with or without extras, and the two of its versions to compare."""

    name: str
    base: str
    head: str


def version_pair(text: str) -> VersionPair:
    """Parse a text such as ``"triton==3.6.0..3.7.1"``.

    Raises:
        KernelSourceError: the text has another form.

    Example:
        >>> version_pair("nvidia-cutlass-dsl[cu13]==4.4.2..4.5.0")
        VersionPair(name='nvidia-cutlass-dsl[cu13]', base='4.4.2', head='4.5.0')
    """
    match = _PAIR.fullmatch(text)
    if match is None:
        raise KernelSourceError(
            f"--with {text}: write a distribution and two of its versions, as triton==3.6.0..3.7.1"
        )
    return VersionPair(*match.groups())


def make_environment(name: str, version: str) -> Path:
    """Return the interpreter of an environment with this version; create it if there is none.

    Raises:
        ToolchainMissing: neither uv nor pip is installed.
        KernelSourceError: the version cannot be installed from wheels.
    """
    place = _place(name, version)
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder() as folder:
            made = folder / "environment"
            venv.EnvBuilder(symlinks=os.name == "posix").create(made)
            _install(_python(made), f"{name}=={version}")
            _add_current_packages(_python(made))
            shutil.move(made, place)
    os.utime(place)
    _remove_oldest(place.parent)
    return _python(place)


def _place(name: str, version: str) -> Path:
    """Return an environment's folder; its name depends on the current interpreter and prefix."""
    key = "\0".join((name.lower(), version, sys.version, sys.prefix))
    digest = sha256(key.encode()).hexdigest()[:12]
    return cache.folder() / "environments" / f"{name}-{version}-{digest}"


def _python(environment: Path) -> Path:
    names = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return environment.joinpath(*names)


def _install(python: Path, requirement: str) -> None:
    only_wheels = ["--only-binary", ":all:", requirement]
    if uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--quiet", "--python", str(python), *only_wheels]
    else:
        pip = [sys.executable, "-I", "-m", "pip"]
        if run_quietly([*pip, "--version"]).returncode:
            raise ToolchainMissing(f"{requirement} is installed by uv or pip; install one of them")
        quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
        command = [*pip, "--python", str(python), "install", *quiet, *only_wheels]
    done = run_quietly(command)
    if done.returncode:
        raise KernelSourceError(
            f"{requirement} cannot be installed from wheels: {last_lines(done.stdout)}"
        )


def run_quietly(
    command: Sequence[str], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; standard output and error are returned as one text."""
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", check=False,
    )  # fmt: skip


def last_lines(text: str) -> str:
    """Return the last lines of a program's output, which usually state the error."""
    return "\n".join(text.strip().splitlines()[-_LINES:]) or "it printed nothing"


def _add_current_packages(python: Path) -> None:
    """Add the current environment's packages to the import path, after those of ``python``."""
    own = [path for path in sys.path if os.path.basename(path) in _PACKAGE_FOLDERS]
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = run_quietly([str(python), "-I", "-c", asked])
    site = Path(done.stdout.strip())
    if done.returncode or not site.is_dir():
        raise ToolchainMissing(f"{python}: does not start: {last_lines(done.stdout)}")
    line = f"import site; list(map(site.addsitedir, {own!r}))\n"
    (site / "perfassert_packages.pth").write_text(line, encoding="utf-8")


def _remove_oldest(folder: Path) -> None:
    ordered = sorted(folder.iterdir(), key=lambda path: -path.stat().st_mtime)
    for path in ordered[_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)
