"""A repository with three kernels, and what happens to its pull requests.

    python examples/story/story.py [WORD]     # only commits whose title has the word

Three commits make a kernel slower: each is caught, at its line and with the reason. A change of
comments and a renamed variable are not: they leave the machine code as it was.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
ENVIRONMENT = ["-p", "no:cacheprovider", "-o", "perf_devices=A100-SXM4-40GB", "-q", "--no-header"]


@dataclass(frozen=True)
class Commit:
    """One edit: ``old`` becomes ``new`` in a file; ``says``: what the failure must contain, if it
    is to fail."""

    title: str
    file: str
    old: str
    new: str
    says: tuple[str, ...] = ()


COMMITS = (
    Commit(
        "transpose: no padding, it wastes shared memory",
        "kernels/transpose.cu",
        "PITCH = TILE + 1",
        "PITCH = TILE",
        ("test_transpose", "the wavefronts of shared memory"),
    ),
    Commit(
        "polynomial: four more terms",
        "kernels/polynomial.cu",
        "COEFFICIENTS 52",
        "COEFFICIENTS 56",
        ("test_polynomial", "registers 63 → 67 let 3 instead of 4 blocks reside"),
    ),
    Commit(
        "smooth: smaller blocks",
        "test_kernels.py",
        "block=(32, 8)",
        "block=(32, 1)",
        ("test_smooth", "blocks of 32×1×1 instead of 32×8×1 threads, occupancy 100 % → 50 %"),
    ),
    Commit(
        "transpose: better comment",
        "kernels/transpose.cu",
        "// Transposes through a padded tile: rows and columns of it meet no bank conflict.",
        "// Transposes through a tile whose rows are padded by one element,\n"
        "// so that neither rows nor columns of it meet a bank conflict.",
    ),
    Commit("smooth: rename", "kernels/smooth.cu", "int x = ", "int column = "),
)


def play(folder: Path, word: str = "") -> list[tuple[Commit, int, str]]:
    """Commits on their own, on top of the accepted state: exit code and output of pytest.

    With a word: those whose title has it, and the tests of their kernels, which titles begin with.
    """
    chosen = [commit for commit in COMMITS if word in commit.title]
    if not chosen:
        titles = "\n".join(commit.title for commit in COMMITS)
        raise SystemExit(f"no commit has {word!r} in its title:\n{titles}")
    kernels = {commit.title.partition(":")[0] for commit in chosen}
    shutil.copytree(HERE / "kernels", folder / "kernels")
    shutil.copy(HERE / "gate.py", folder / "test_kernels.py")
    tests = ["-k", " or ".join(sorted(kernels))]
    accepted = pytest(folder, "--perf-update", "--perf-update-in-ci", *tests)
    assert accepted[0] == 0, accepted[1]
    results = []
    for commit in chosen:
        path = folder / commit.file
        before = path.read_text("utf-8")
        assert commit.old in before, commit.title
        changed = before.replace(commit.old, commit.new)
        if commit.title == "smooth: rename":
            changed = renamed(changed)
        path.write_text(changed, "utf-8")
        results.append((commit, *pytest(folder, *tests)))
        path.write_text(before, "utf-8")
    return results


def renamed(text: str) -> str:
    """``x`` is called ``column`` everywhere."""
    for old, new in (
        ("(x < ", "(column < "),
        ("x >= nx", "column >= nx"),
        ("nx + x", "nx + column"),
    ):
        text = text.replace(old, new)
    return text


def pytest(folder: Path, *options: str) -> tuple[int, str]:
    """Exit code and output."""
    command = [sys.executable, "-m", "pytest", *ENVIRONMENT, *options, str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8")
    return done.returncode, done.stdout + done.stderr


def main(word: str = "") -> None:
    with TemporaryDirectory() as folder:
        for commit, code, output in play(Path(folder), word):
            print(f"{commit.title}: {'stopped' if code else 'passes'}")
            found = (line.removeprefix("E   ").strip() for line in output.splitlines())
            for line in dict.fromkeys(found):
                if line.startswith("time ") and "reverting this removes" in line:
                    print(f"    {line}")


if __name__ == "__main__":
    main(*sys.argv[1:])
