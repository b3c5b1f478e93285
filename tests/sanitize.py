"""The compiled engines under address and undefined-behaviour sanitizers, against the references.

``make sanitize``: builds both in a temporary copy of the sources, with g++ on Linux, and runs the
tests that compare them; minutes.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENGINES = ("pipeline", "execution", "volume")
FLAGS = (
    "-shared -fPIC -O1 -g -std=c++17 -ffp-contract=off -fno-omit-frame-pointer "
    "-fsanitize=address,undefined -fno-sanitize-recover=undefined -DPy_LIMITED_API=0x030A0000"
).split()
TESTS = (
    "tests/engines/pipeline/test_simulate.py", "tests/engines/pipeline/test_channels.py",
    "tests/engines/execution/test_engines_agree.py", "tests/engines/volume/test_compiled.py",
)  # fmt: skip
LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so.6")


def built(copy: Path) -> None:
    """The engines of a copy of the sources; others of its extensions are left out."""
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (copy / "perfassert" / "device_files").symlink_to(ROOT / "devices")
    include = sysconfig.get_paths()["include"]
    for engine in ENGINES:
        folder = copy / "perfassert" / "engines" / engine
        made = folder / "_core.abi3.so"
        sources = map(str, sorted((folder / "core").glob("*.cpp")))
        subprocess.run(["g++", *FLAGS, f"-I{include}", *sources, "-o", str(made)], check=True)


def environment(copy: Path) -> dict[str, str]:
    """Python itself is not instrumented: the sanitizers' libraries come before it."""
    found = []
    for name in LIBRARIES:
        command = ["g++", f"-print-file-name={name}"]
        found.append(subprocess.run(command, check=True, capture_output=True, text=True))
    return {
        **os.environ,
        "LD_PRELOAD": " ".join(run.stdout.strip() for run in found),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONPATH": str(copy),
    }


def main() -> int:
    """The exit code of pytest."""
    with tempfile.TemporaryDirectory(prefix="perfassert-sanitized-") as place:
        copy = Path(place) / "src"
        built(copy)
        given = environment(copy)
        seen = "import perfassert.engines.pipeline._core as core; print(core.__file__)"
        command = [sys.executable, "-c", seen]
        told = subprocess.run(command, env=given, check=True, capture_output=True, text=True)
        if place not in told.stdout:
            sys.exit(f"another engine would be tested: {told.stdout}")
        tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
        return subprocess.run(tests, env=given, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
