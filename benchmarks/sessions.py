"""Cold and warm ``pytest``: 20 compiled kernels on 3 devices, with a fresh cache, then again.

``python benchmarks/sessions.py [RUNS]``: seconds of CPU (tools included) and of the clock, and how
often each tool was started, as the log of the session says. ``--stages``: seconds of CPU of each
tool in a cold session that compiles nothing ahead, so that one tool runs at a time.
"""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

KERNELS = Path(__file__).parents[1] / "examples" / "kernels"
DEVICES = ("A100-SXM4-40GB", "H100-SXM5-80GB", "RTX-4090")
TESTS = """
from pathlib import Path

import pytest

import perfassert as pa

KERNELS = Path({folder!r})
N = 1 << 22
LINE = pa.Launch(N // 256, 256, {{"n": N}})
STRIDE = pa.Launch(432, 256, {{"n": N}})
MATRIX = pa.Launch((64, 64), (32, 8), {{"rows": 2048, "columns": 2048}})
BOX = pa.Launch.cover((640, 512, 256), (16, 2, 8), {{"nx": 640, "ny": 512, "nz": 256}})
FAST = ("-use_fast_math",)


def square(tile):
    return pa.Launch((1024 // tile, 1024 // tile), (tile, tile), {{"n": 1024}})


def filtered(tile, padding):
    names = {{"tile_size_x": tile, "tile_size_y": tile, "use_padding": padding, "read_only": 0}}
    names |= {{"block_size_x": 32, "block_size_y": 8}}
    launch = pa.Launch((128 // tile, 512 // tile), (32, 8))
    return "convolution", "convolution", launch, names, ()


CASES = (
    ("saxpy", "saxpy", LINE, {{}}, ()),
    ("saxpy", "saxpy", LINE, {{}}, FAST),
    ("saxpy", "saxpy_grid_stride", STRIDE, {{}}, ()),
    ("star3d25pt", "star3d25pt", BOX, {{}}, ()),
    ("star3d25pt", "star3d25pt", BOX, {{}}, ("-maxrregcount=32",)),
    ("transpose", "transpose_naive", MATRIX, {{}}, ()),
    ("transpose", "transpose_tiled", MATRIX, {{}}, ()),
    ("transpose", "transpose_padded", MATRIX, {{}}, ()),
    ("matmul", "matmul", square(8), {{"TILE": 8}}, ()),
    ("matmul", "matmul", square(16), {{"TILE": 16}}, ()),
    ("matmul", "matmul", square(32), {{"TILE": 32}}, ()),
    ("reduction", "block_sums", STRIDE, {{"BLOCK": 256}}, ()),
    ("reduction", "block_sums", pa.Launch(432, 512, {{"n": N}}), {{"BLOCK": 512}}, ()),
    ("histogram", "histogram", STRIDE, {{}}, ()),
    ("histogram", "histogram", STRIDE, {{}}, FAST),
    ("gather", "gather", LINE, {{}}, ()),
    filtered(1, 0),
    filtered(1, 1),
    filtered(2, 0),
    filtered(2, 1),
)


@pytest.mark.parametrize("case", CASES, ids=[f"{{c[1]}}-{{i}}" for i, c in enumerate(CASES)])
def test_kernel(perf, case):
    file, name, launch, defines, options = case
    kernel = pa.from_cuda(KERNELS / f"{{file}}.cu", name, defines=defines, options=options)
    perf(kernel, launch, allow_guesses=True).expect(time="< 1 s")
"""
STARTED = re.compile(r"\brun (\w+):")
STAGES = """
import atexit, json, os, pathlib
from collections import Counter
from perfassert.frontends.toolchain import tools

real, seconds = tools.run_tool, Counter()

def timed(name, *args, **more):
    before = os.times()
    try:
        return real(name, *args, **more)
    finally:
        now = os.times()
        seconds[name] += now.children_user + now.children_system
        seconds[name] -= before.children_user + before.children_system

tools.run_tool = timed
try:
    from perfassert.frontends.toolchain.ahead import Ahead
    Ahead.start = lambda self, wanted: None
except ImportError:  # a checkout that compiles nothing ahead
    pass
file = pathlib.Path(__file__).with_name("stages.json")
atexit.register(lambda: file.write_text(json.dumps(seconds)))
"""


def main(runs: str = "1") -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if runs == "--stages":
            (folder / "conftest.py").write_text(STAGES)
            print(session(folder))
            stages = json.loads((folder / "stages.json").read_text())
            print(", ".join(f"{tool} {seconds:.1f} s" for tool, seconds in stages.items()))
            return
        for what in ("cold", *["warm"] * int(runs)):
            print(f"{what}: {session(folder)}")


def session(folder: Path) -> str:
    """Run pytest once, and return the result as text."""
    passed, spent_seconds, clock, tools = run_session(folder)
    started = ", ".join(f"{count} {tool}" for tool, count in sorted(tools.items()))
    return (
        f"{passed}, {spent_seconds:.1f} s of CPU, {clock:.1f} s, "
        f"{tools.total()} tools started{f' ({started})' if started else ''}"
    )


def run_session(folder: Path) -> tuple[str, float, float, Counter[str]]:
    """Run pytest; return its result, seconds of CPU and clock, and the tools that it started."""
    (folder / "test_kernels.py").write_text(TESTS.format(folder=str(KERNELS)))
    log = folder / "session.log"
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"--log-file={log}", "--log-file-level=DEBUG"]
    command += [f"--perf-device={device}" for device in DEVICES]
    environment = environment_with(PERFASSERT_CACHE_DIR=str(folder / "cache"))
    before, begin = spent(), time.monotonic()
    run = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    seconds, clock = spent() - before, time.monotonic() - begin
    if run.returncode:
        raise SystemExit(run.stdout[-3000:])
    passed = re.search(r"\d+ passed", run.stdout)
    tools = Counter(STARTED.findall(log.read_text()))
    return passed[0] if passed else run.stdout, seconds, clock, tools


def environment_with(**more: str) -> dict[str, str]:
    """Return an environment in which Python caches compiled modules, as it does for users."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **more}


def spent() -> float:
    """Return the seconds of CPU of finished child processes, their children included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(*sys.argv[1:])
