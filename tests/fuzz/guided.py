"""Coverage-guided fuzzing of every parser, by atheris (libFuzzer), one parser after the other.

``python tests/fuzz/guided.py SECONDS [PARSER ...]``: so many seconds of the clock for each, those
first of which fewest inputs were tried. ``--until N``: in turns of ``SECONDS``, until each has N.

What a run found worth keeping stays in ``.fuzz`` and is where the next one begins, together with
``corpus``, which ``corpora.py`` chooses. ``.fuzz/PARSER/inputs`` has a line for each run: when, of
which code, and how many libFuzzer counted. A finding is any error but our own, more than 5 s, or
more than 1 GB.
"""

import argparse
import contextlib
import gc
import hashlib
import re
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "perfassert"
CORPORA = Path(__file__).parent / "corpus"
KEPT = ROOT / ".fuzz"
MEMORY_FILES = Path("/dev/shm")
PATIENCE, MEMORY = 5, 1024  # seconds; MB
LONGEST = 512  # bytes, or twice the longest seed
_RUNS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_COVERED = re.compile(r"cov: (\d+)")


def main(seconds: int, names: list[str], until: int | None) -> int:
    """Prints a line for each turn; returns the number of findings."""
    names = names or asked("--list").splitlines()
    waiting = sorted(names, key=tried)
    while waiting:
        for name in waiting:
            left = None if until is None else until - tried(name)
            if left is None or left > 0:
                turn(name, seconds, left)
        enough = until is None
        waiting = [] if enough else sorted((n for n in names if tried(n) < until), key=tried)
    return sum(len(findings(name)) for name in names)


def turn(name: str, seconds: int, most: int | None) -> None:
    """Fuzz one parser for a number of seconds or of inputs."""
    runs, covered = explore(name, seconds, most)
    found = findings(name)
    print(
        f"{name}: {runs:,} inputs, {tried(name):,} in all runs, {covered} features, "
        f"{len(found)} findings",
        flush=True,
    )
    for finding in found:
        print(f"    {finding.relative_to(ROOT)}: {finding.read_text().splitlines()[-1][:150]}")


def place_of(name: str) -> Path:
    return KEPT / name.replace(" ", "-")


def findings(name: str) -> list[Path]:
    return sorted((place_of(name) / "findings").glob("*.txt"))


def tried(name: str) -> int:
    """Inputs of all runs."""
    log = place_of(name) / "inputs"
    lines = log.read_text().splitlines() if log.exists() else []
    return sum(int(line.split()[-1]) for line in lines)


def asked(*words: str) -> str:
    """Return the output of this file in another process."""
    run = [sys.executable, __file__, *words]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout


def explore(name: str, seconds: int, most: int | None) -> tuple[int, int]:
    """Inputs tried and features covered; a process that is ended by a limit is started again."""
    place = place_of(name)
    (place / "findings").mkdir(parents=True, exist_ok=True)
    end, runs, covered = time.monotonic() + seconds, 0, 0
    while (left := int(end - time.monotonic())) > 0 and (most is None or runs < most):
        done = process(name, place, left, -1 if most is None else most - runs)
        counted = sum(map(int, _RUNS.findall(done)))
        runs += counted
        covered = max(map(int, _COVERED.findall(done)), default=covered)
        note(place / "inputs", counted)
        if "SUMMARY: libFuzzer" in done:  # its input lies there already
            told = done[done.index("==") :][:4000] + "\n" + done[done.index("SUMMARY") :]
            (place / "findings" / f"limit-{runs}.txt").write_text(told)
        elif not counted:
            raise SystemExit(f"{name}: {done[-2000:]}")
    return runs, covered


def process(name: str, place: Path, seconds: int, most: int) -> str:
    """Return the output of libFuzzer in another process, whose files lie in memory."""
    memory = MEMORY_FILES if MEMORY_FILES.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="perfassert-", dir=memory) as folder:
        run = [sys.executable, __file__, "--one", name, str(place), str(seconds), str(most), folder]
        done = subprocess.run(run, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False)
    return done.stderr.decode(errors="replace")


def note(log: Path, counted: int) -> None:
    """Append the time, the commit and the number of inputs to the log."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True,
        check=False,
    ).stdout.strip()  # fmt: skip
    with log.open("a") as file:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%MZ")
        file.write(f"{now} {commit or 'unknown'} {counted}\n")


def one(name: str, place: Path, options: list[str], folder: Path) -> None:
    """Run libFuzzer, which takes over this process."""
    import atheris

    others = {str(path) for path in SOURCES.rglob("*.py")} - set(asked("--files", name).split("\n"))
    with atheris.instrument_imports(include=["perfassert"], exclude=list(map(module, others))):
        from targets import TARGETS

    from perfassert.errors import PerfAssertError

    target = TARGETS[name]

    def read(content: bytes) -> None:
        try:
            target.read(content, folder)
        except PerfAssertError:
            pass
        except Exception:
            finding(place / "findings", content)

    corpus = place / "corpus"
    corpus.mkdir(exist_ok=True)
    for seed in target.seeds:
        (corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    words = place / "words"
    words.write_text("".join(f"{quoted(word)}\n" for word in target.words if word.strip()))
    limits = [
        f"-timeout={PATIENCE}", f"-rss_limit_mb={MEMORY}", f"-dict={words}",
        f"-max_len={max(LONGEST, 2 * max(map(len, target.seeds)))}",
        f"-artifact_prefix={place}/findings/", "-print_final_stats=1",
    ]  # fmt: skip
    held = CORPORA / place.name
    begins = [str(corpus), *([str(held)] if held.is_dir() else [])]
    gc.freeze()  # modules are not looked through again and again
    atheris.Setup([sys.argv[0], *limits, *options, *begins], read)
    atheris.Fuzz()


def module(file: str) -> str:
    """Return the name under which a file is imported."""
    parts = Path(file).relative_to(SOURCES.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files(name: str) -> set[str]:
    """Return the files of the package that run when seeds and corpora are read.

    To instrument all files would take ten seconds each time, and libFuzzer would look through
    counters that never change.
    """
    from targets import TARGETS

    target, found = TARGETS[name], set()
    held = (CORPORA / place_of(name).name, place_of(name) / "corpus")
    inputs = [*target.seeds, *(f.read_bytes() for place in held for f in place.glob("*"))]

    def called(frame: FrameType, what: str, _: object) -> None:
        if what == "call":
            found.add(frame.f_code.co_filename)

    with tempfile.TemporaryDirectory() as folder:
        sys.setprofile(called)
        for content in inputs:
            with contextlib.suppress(Exception):
                target.read(content, Path(folder))
        sys.setprofile(None)
    return {file for file in found if file.startswith(str(SOURCES))}


def quoted(word: str) -> str:
    """Return a word in the syntax of libFuzzer."""
    return '"' + "".join(f"\\x{b:02X}" for b in word.encode("utf-8", "surrogatepass")) + '"'


def finding(place: Path, content: bytes) -> None:
    """The first input that ends in an error of this kind at this place."""
    told = traceback.format_exc()
    places = re.findall(r'File "[^"]*/src/(.*?)", line (\d+)', told)
    kind = f"{type(sys.exc_info()[1]).__name__}-{places[-1] if places else ''}"
    name = re.sub(r"[^\w.-]+", "_", kind)
    with contextlib.suppress(FileExistsError), open(place / name, "xb") as file:
        file.write(content)
        (place / f"{name}.txt").write_text(told)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seconds", type=int)
    parser.add_argument("parsers", nargs="*", metavar="PARSER")
    parser.add_argument("--until", type=int, metavar="N")
    return parser.parse_intermixed_args()  # options between them, too


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]
    if sys.argv[1] == "--one":
        name, place, seconds, most, folder = sys.argv[2:]
        one(name, Path(place), [f"-max_total_time={seconds}", f"-runs={most}"], Path(folder))
    elif sys.argv[1] == "--files":
        print("\n".join(files(sys.argv[2])))
    elif sys.argv[1] == "--list":
        from targets import TARGETS

        print("\n".join(TARGETS))
    else:
        given = arguments()
        sys.exit(bool(main(given.seconds, given.parsers, given.until)))
