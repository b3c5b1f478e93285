"""The same predictions, baselines and reports everywhere: a line of digests for each place.

``python benchmarks/same_everywhere.py [PYTHON ...]``: ``PYTHON`` is an interpreter that has
perfassert (another version of Python, or perfassert without its compiled engines); each is a line,
beside those of this one under other hash seeds, locales, time zones, workers, orders, folders and
comments. ``make matrix`` calls it. Exit code 1 where a digest differs.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

KERNELS = Path(__file__).parents[1] / "examples" / "kernels"
FORMATS = ("json", "html", "md", "csv")
DEVICES = ("A100-SXM4-40GB", "RTX-4090")
ACCESSES = """
import pytest
import perfassert as pa

FIELDS = [pa.Field("ä", shape=(512, 4096), halo=1), pa.Field("b", shape=(512, 4096))]
KERNEL = pa.Kernel.from_accesses("größe", FIELDS, ["ä[y, x + 1]", "ä[y - 1, x]"], ["b[y, x]"])


@pytest.mark.parametrize("width", [32, 64, 128, "ı"])
def test_accesses(perf, width):
    p = perf(KERNEL, domain=(4096, 512), block=(64 if width == "ı" else width, 2))
    perf.no_regression(p)


def test_ranking(perf):
    launches = [pa.Launch.cover((4096, 512), (32 * i, 2)) for i in (1, 2, 4)]
    perf.rank(launches, kernel=KERNEL)
"""
COMPILED = """
import numpy as np
import pytest
import perfassert as pa

N = 1 << 20


@pytest.mark.parametrize("name", ["saxpy", "saxpy_grid_stride"])
def test_saxpy(perf, name):
    kernel = pa.from_cuda("saxpy.cu", name)
    perf.no_regression(perf(kernel, grid=N // 256, block=256, args={"n": N}))


def test_sums(perf):
    kernel = pa.from_cuda("reduction.cu", "block_sums", defines={"BLOCK": 256})
    perf.no_regression(perf(kernel, grid=432, block=256, args={"n": N}))


def test_executed(perf):
    kernel = pa.from_cuda("histogram.cu", "histogram")
    data = pa.Buffer((N,), "uint32", fill="random(0, 64)", seed=1)
    perf.no_regression(perf(kernel, grid=432, block=256, args={"in": data, "n": N}))
"""
ORDER = """
import locale
import os

locale.setlocale(locale.LC_ALL, "")


def pytest_collection_modifyitems(items):
    if os.environ.get("REVERSED"):
        items.reverse()
"""


@dataclass(frozen=True)
class Place:
    """``report``: whether reports are the same there, too; else only what is predicted."""

    name: str
    python: str = sys.executable
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    folder: str = "checkout"
    comment: str = ""
    report: bool = True


def places(others: list[str]) -> Iterator[Place]:
    """The first one is what the others are compared with."""
    yield Place("here")
    for seed in ("1", "4242"):
        yield Place(f"hash seed {seed}", environment={"PYTHONHASHSEED": seed})
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    yield Place("locale POSIX, ASCII", environment={"LC_ALL": "POSIX", **plain})
    for name in ("tr_TR.utf8", "de_DE.utf8"):
        if not is_installed(name):
            print(f"locale {name}: not installed (localedef makes it)")
            continue
        yield Place(f"locale {name}", environment={"LC_ALL": name, "LANG": name})
    for zone in ("Pacific/Kiritimati", "America/St_Johns"):
        yield Place(f"time zone {zone}", environment={"TZ": zone})
    yield Place("three workers", options=("-n", "3"))
    yield Place("reversed", environment={"REVERSED": "1"})
    yield Place("other folder", folder="a b/ğ/checkout")
    yield Place("comments", comment="// not code: ü\n/* nor\n this */\n", report=False)
    for python in others:
        version = subprocess.run(
            [python, "-c", WHO], capture_output=True, text=True, check=True
        ).stdout.strip()  # fmt: skip
        yield Place(version, python)


def is_installed(name: str) -> bool:
    """A locale that is not would be C."""
    code = f"import locale; locale.setlocale(locale.LC_ALL, {name!r})"
    return not subprocess.run([sys.executable, "-c", code], capture_output=True).returncode


WHO = """
import sys, numpy, perfassert
from perfassert.engines.pipeline.compiled import available
print(f"Python {sys.version.split()[0]}, numpy {numpy.__version__}"
      + ("" if available() else ", not compiled"))
"""


def session(place: Place, home: Path, compiled: bool = True) -> dict[str, str]:
    """Digests by what is digested; ``compiled``: of compiled kernels, too."""
    folder = home / place.folder
    folder.mkdir(parents=True)
    (folder / "conftest.py").write_text(ORDER, "utf-8")
    (folder / "test_accesses.py").write_text(ACCESSES, "utf-8")
    if compiled:
        (folder / "test_compiled.py").write_text(COMPILED, "utf-8")
    for name in ("saxpy.cu", "reduction.cu", "histogram.cu"):
        (folder / name).write_bytes(place.comment.encode() + (KERNELS / name).read_bytes())
    reports = [f"--perf-report={form}:report.{form}" for form in FORMATS if place.report]
    command = [place.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull,
               "--rootdir=.", "--perf-update", "--perf-report-advice", *place.options, *reports,
               *(f"--perf-device={device}" for device in DEVICES)]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        command, cwd=folder, env={**environment, **place.environment}, check=False,
        capture_output=True, text=True, encoding="utf-8", errors="replace",
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{place.name}:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    kept = sorted((folder / "__perf__").iterdir())
    digests = {"baselines": digest(*kept)}
    if place.report:
        digests |= {form: digest(folder / f"report.{form}") for form in FORMATS}
    return digests


def digest(*files: Path) -> str:
    whole = hashlib.sha256()
    for file in files:
        whole.update(file.name.encode() + file.read_bytes())
    return whole.hexdigest()[:10]


def main(others: list[str]) -> int:
    """Print the digests of all places; return how many differ from those of the first line."""
    first: dict[str, str] = {}
    different = 0
    columns = ("baselines", *FORMATS)
    print(f"{'':<32}" + "".join(f"{column:>12}" for column in columns))
    for place in places(others):
        with tempfile.TemporaryDirectory() as home:
            digests = session(place, Path(home))
        first = first or digests
        marks = []
        for column in columns:
            same = column not in digests or digests[column] == first[column]
            different += not same
            marks.append(f"{digests.get(column, '')}{'' if same else '*'}")
        print(f"{place.name:<32}" + "".join(f"{mark:>12}" for mark in marks), flush=True)
    print("the same everywhere" if not different else f"{different} digests differ (*)")
    return different


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
