"""Damaged files by the thousand: seconds, the slowest one, peak memory here and in tools.

``python benchmarks/hostile.py FILE [COUNT [elf | container | listing | built]]``

``built`` runs all tools on each. A case that takes more than 10 s, memory above 1 GB, or ends in an
error that is not ours, is a finding.
"""

import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import mutations

DEFAULT = {".cubin": "elf", ".sass": "listing", ".ptx": "built"}
PATIENCE = 10  # seconds, of one case
MEMORY = 1024  # MB


def main(name: str, count: str = "10000", asked: str = "") -> None:
    source = Path(name)
    reader = asked or DEFAULT.get(source.suffix, "container")
    read, content = getattr(mutations, reader), source.read_bytes()
    slowest, peaks = 0.0, Peaks()

    def time_mutation(mutation: bytes, path: Path) -> None:
        nonlocal slowest
        begin = time.monotonic()
        signal.alarm(PATIENCE)
        try:
            read(mutation, path)
        finally:
            signal.alarm(0)
            slowest = max(slowest, time.monotonic() - begin)
            peaks.check()

    signal.signal(signal.SIGALRM, late)
    begin, refused, crashes = time.monotonic(), 0, []
    text = reader == "listing" or source.suffix == ".ptx"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"damaged{source.suffix}")
        for number in range(int(count)):
            try:
                seed = f"{source.name}-{number}"
                refused += mutations.refused(time_mutation, content, path, seed, text)
            except AssertionError as finding:
                crashes.append(str(finding))
    own, tools = map(peak, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(
        f"{source.name}: {count} mutations by {reader}, {refused} refused, "
        f"{time.monotonic() - begin:.0f} s, slowest {slowest:.2f} s, "
        f"{own:.0f} MB here, {tools:.0f} MB in a tool, {len(crashes)} findings"
    )
    print("\n".join(crashes))


def late(*_: object) -> None:
    raise TimeoutError(f"more than {PATIENCE} s")


def peak(who: int) -> float:
    """MB."""
    return resource.getrusage(who).ru_maxrss / 1024


class Peaks:
    """The peak never falls again, so the case in which it rises above the limit is to blame."""

    def __init__(self) -> None:
        self.seen = dict.fromkeys((resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN), 0.0)

    def check(self) -> None:
        for who, before in self.seen.items():
            self.seen[who] = peak(who)
            if self.seen[who] > max(before, MEMORY):
                raise MemoryError(f"{self.seen[who]:.0f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
