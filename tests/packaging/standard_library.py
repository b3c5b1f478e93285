"""Finds names and parameters of the standard library that a promised Python lacks.

``python tests/packaging/standard_library.py [PATH ...]``, which ``make lint`` calls, has mypy look
at all Python of the project, tests included, as the oldest and as the newest promised version sees
it. mypy has more to say of tests, which are not typed; what it says for one of the versions only is
printed, and the exit code is 1. Libraries are left out: they are installed for the running Python,
and the types of some (NumPy 2.5) cannot be read for an older one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from interpreters import ROOT, promised

CODE = ("src", "tests", "examples", "benchmarks", "docs", "setup.py", ".github")
OPTIONS = (
    f"--config-file={os.devnull}", "--no-site-packages", "--ignore-missing-imports",
    "--check-untyped-defs", "--explicit-package-bases", "--no-error-summary",
)  # fmt: skip


def findings(version: str, paths: Sequence[str]) -> set[str]:
    """Return the findings of mypy for a version of Python, without notes."""
    command = [sys.executable, "-m", "mypy", *OPTIONS, f"--python-version={version}",
               f"--cache-dir={ROOT / '.mypy_cache' / 'promised'}", *paths]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode > 1:
        raise SystemExit(f"mypy for Python {version} did not end:\n{done.stdout}{done.stderr}")
    return {line for line in done.stdout.splitlines() if ": error: " in line}


def main(paths: Sequence[str]) -> int:
    versions = promised()
    ends = (versions[0], versions[-1])
    with ThreadPoolExecutor() as workers:
        oldest, newest = workers.map(findings, ends, [paths] * 2)
    for version, only in zip(ends, (oldest - newest, newest - oldest), strict=True):
        for finding in sorted(only):
            print(f"Python {version}: {finding}")
    if oldest == newest:
        print(f"Python {' and '.join(ends)}: the same names in {' '.join(paths)}")
    return len(oldest ^ newest)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:] or CODE)))
