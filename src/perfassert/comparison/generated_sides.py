"""Kernels that modules compile, and predictions of tests, in one environment."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from perfassert.comparison.environments import last_lines, run_quietly
from perfassert.errors import KernelSourceError

_TESTS = ("test_*.py", "*_test.py", "*.perf.toml")
_COMPILED = (".cubin", ".ptx")
_PYTEST = "import sys; del sys.path[0]; import pytest; sys.exit(pytest.main())"
"""Program that runs pytest as its command does, without imports from the working directory."""
_ENDS = (0, 1)
"""Exit statuses of pytest with a complete report: passed, failed."""


@dataclass(frozen=True, slots=True)
class Generated:
    """``code``: folder of the kernels that modules compile; ``report``: predictions of tests."""

    code: Path | None
    report: Path | None


def generate(
    python: Path, paths: Sequence[str], folder: Path, arch: str | None, device: str | None
) -> Generated:
    """Run tests and modules with ``python``; what they leave is kept in ``folder``.

    A path is a test's if it is a folder, a node ID, or a file that pytest collects by its name;
    any other is a module, which is run as a program.

    Raises:
        KernelSourceError: modules compile nothing, or pytest cannot run.
    """
    tests = [path for path in paths if _is_test(path)]
    modules = [path for path in paths if path not in tests]
    code = _run_modules(python, modules, folder, arch) if modules else None
    report = _run_tests(python, tests, folder, arch, device) if tests else None
    return Generated(code, report)


def _run_modules(python: Path, modules: Sequence[str], folder: Path, arch: str | None) -> Path:
    kept, failed = folder / "kept", ""
    environment = _with_folder(kept, arch)
    for module in modules:
        done = run_quietly([str(python), module], environment)
        if done.returncode:
            failed = f"{module}: {last_lines(done.stdout)}"
    code = _gather(kept, folder / "code")
    if not any(code.iterdir()):
        raise KernelSourceError(
            failed
            or f"{', '.join(modules)}: no kernel was compiled; compile it there "
            "(triton.compile, cute.compile), or give a test that predicts it"
        )
    return code


def _run_tests(
    python: Path, tests: Sequence[str], folder: Path, arch: str | None, device: str | None
) -> Path:
    report = folder / "report.json"
    words = [str(python), "-c", _PYTEST, "-q", f"--perf-report=json:{report}", *tests]
    words += [f"--perf-device={device}"] if device else []
    done = run_quietly(words, _with_folder(folder / "kept_by_tests", arch))
    if done.returncode not in _ENDS or not report.is_file():
        raise KernelSourceError(f"pytest {' '.join(tests)}: {last_lines(done.stdout)}")
    return report


def _is_test(path: str) -> bool:
    name = os.path.basename(path)
    return "::" in path or os.path.isdir(path) or any(fnmatch(name, test) for test in _TESTS)


def _with_folder(folder: Path, arch: str | None) -> dict[str, str]:
    """Return the environment variables, with a folder for what generators compile.

    Sources: Triton's ``knobs.py`` (``TRITON_CACHE_DIR``); the CUTLASS DSL's documentation of
    debugging (``CUTE_DSL_KEEP_CUBIN``, ``_KEEP_PTX``, ``_DUMP_DIR``, ``_ARCH``); Warp's
    ``config.py`` (``WARP_CACHE_PATH``).
    """
    folder.mkdir()
    variables = {
        **os.environ,
        "TRITON_CACHE_DIR": str(folder),
        "CUTE_DSL_KEEP_CUBIN": "1",
        "CUTE_DSL_KEEP_PTX": "1",
        "CUTE_DSL_DUMP_DIR": str(folder),
        "WARP_CACHE_PATH": str(folder),
    }
    return variables | ({"CUTE_DSL_ARCH": arch} if arch else {})


def _gather(kept: Path, code: Path) -> Path:
    """Copy compiled files to names that do not depend on the generator's hashes.

    Several kernels of one name are numbered in the order in which they were compiled, which is the
    same for both versions.
    """
    code.mkdir()
    for suffix in _COMPILED:
        files = [file for file in kept.rglob(f"*{suffix}") if file.is_file()]
        counts: Counter[str] = Counter()
        for file in sorted(files, key=lambda file: (file.stat().st_mtime_ns, file.name)):
            counts[file.stem] += 1
            number = counts[file.stem]
            name = file.name if number == 1 else f"{file.stem}#{number}{suffix}"
            shutil.copyfile(file, code / name)
        if files:
            break
    return code
