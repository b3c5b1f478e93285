"""Coverage-guided fuzzing of every parser, by atheris (libFuzzer), one parser after the other.

``python tests/fuzz/guided.py SECONDS [PARSER ...]``: so many seconds of one core for each. What
each run found worth keeping stays in ``.fuzz`` and is where the next one begins. A finding is any
error but our own, more than 5 s, or more than 1 GB.
"""

import contextlib
import hashlib
import re
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".fuzz"
PATIENCE, MEMORY = 5, 1024  # seconds; MB
LONGEST = 4096  # bytes, or twice the longest seed
_RUNS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_COVERED = re.compile(r"cov: (\d+)")


def main(seconds: int, names: list[str]) -> int:
    """Prints a line for each parser; returns the number of findings."""
    listed = subprocess.run(
        [sys.executable, __file__, "--list"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    total = 0
    for name in names or listed:
        place = KEPT / name.replace(" ", "-")
        runs, covered = explore(name, place, seconds)
        findings = sorted((place / "findings").glob("*.txt"))
        total += len(findings)
        print(f"{name}: {runs} inputs, {covered} features, {len(findings)} findings", flush=True)
        for finding in findings:
            print(f"    {finding.relative_to(ROOT)}: {finding.read_text().splitlines()[-1][:150]}")
    return total


def explore(name: str, place: Path, seconds: int) -> tuple[int, int]:
    """Inputs tried and features covered; a process that is ended by a limit is started again."""
    (place / "findings").mkdir(parents=True, exist_ok=True)
    end, runs, covered = time.monotonic() + seconds, 0, 0
    while (left := int(end - time.monotonic())) > 0:
        done = subprocess.run(
            [sys.executable, __file__, "--one", name, str(place), str(left)],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False,
        ).stderr.decode(errors="replace")  # fmt: skip
        runs += sum(map(int, _RUNS.findall(done)))
        covered = max(map(int, _COVERED.findall(done)), default=covered)
        if "SUMMARY: libFuzzer" in done:  # its input lies there already
            told = done[done.index("==") :][:4000] + "\n" + done[done.index("SUMMARY") :]
            (place / "findings" / f"limit-{runs}.txt").write_text(told)
        elif not _RUNS.search(done):
            raise SystemExit(f"{name}: {done[-2000:]}")
    return runs, covered


def one(name: str, place: Path, seconds: int) -> None:
    """This process is libFuzzer from here on."""
    import atheris

    sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]
    with atheris.instrument_imports(include=["perfassert"]):
        from targets import TARGETS

    from perfassert.errors import PerfAssertError

    target, folder = TARGETS[name], Path(tempfile.mkdtemp(prefix="perfassert-"))

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
    longest = max(LONGEST, 2 * max(map(len, target.seeds)))
    options = [
        f"-max_total_time={seconds}", f"-timeout={PATIENCE}", f"-rss_limit_mb={MEMORY}",
        f"-max_len={longest}", f"-dict={words}", f"-artifact_prefix={place}/findings/",
        "-print_final_stats=1",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(corpus)], read)
    atheris.Fuzz()


def quoted(word: str) -> str:
    """As libFuzzer reads a word."""
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


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1] == "--list":
        sys.path[:0] = [str(ROOT / "tests")]
        from targets import TARGETS

        print("\n".join(TARGETS))
    else:
        sys.exit(bool(main(int(sys.argv[1]), sys.argv[2:])))
