"""Damaged files by the thousand: seconds, the slowest one, peak memory here and in tools.

``python benchmarks/hostile.py FILE [COUNT [elf | container | listing | built]]``
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import mutations

DEFAULT = {".cubin": "elf", ".sass": "listing", ".ptx": "built"}


def main(name: str, count: str = "10000", reader: str = "") -> None:
    source = Path(name)
    read = getattr(mutations, reader or DEFAULT.get(source.suffix, "container"))
    content, slowest = source.read_bytes(), 0.0

    def timed(mutation: bytes, path: Path) -> None:
        nonlocal slowest
        begin = time.monotonic()
        try:
            read(mutation, path)
        finally:
            slowest = max(slowest, time.monotonic() - begin)

    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"damaged{source.suffix}")
        refused = mutations.survives(timed, content, path, int(count), source.name)
    own, tools = (
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(
        f"{source.name}: {count} mutations by {read.__name__}, {refused} refused, "
        f"{time.monotonic() - begin:.0f} s, slowest {slowest:.2f} s, "
        f"{own:.0f} MB here, {tools:.0f} MB in a tool"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
