"""Instructions that the lowering has no translation for, by architecture and opcode.

``python benchmarks/untranslated.py FOLDER [--top 40]`` reads the ``.cubin`` files in and below it.
Instructions count once for each kernel that holds or calls them. What is translated only in part,
so that some results are unknown, is marked with ``*``. Modules that cannot be read are named.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from perfassert import PerfAssertError
from perfassert.frontends.machine.lowering import lower
from perfassert.frontends.toolchain.architecture import number
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import build
from perfassert.frontends.toolchain.elf import Cubin
from perfassert.kernel.machine import Kind

_UNKNOWN = frozenset((Kind.UNKNOWN, Kind.LOST))


@dataclass
class Tally:
    """Counts for one architecture; ``places``: opcode → kernels in which it occurs."""

    modules: int = 0
    kernels: int = 0
    instructions: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    places: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--top", type=int, help="that many opcodes of each architecture")
    options = parser.parse_args()
    tallies: dict[str, Tally] = {}
    for path in sorted(options.folder.rglob("*.cubin")):
        try:
            count(path, tallies)
        except PerfAssertError as error:
            print(f"{path}: {error}")
    if not tallies:
        sys.exit(f"no .cubin in {options.folder} could be read")
    for arch in sorted(tallies, key=number):
        report(arch, tallies[arch], options.top)


def count(path: Path, tallies: dict[str, Tally]) -> None:
    """Add the kernels of a module."""
    cubin = Cubin(path.read_bytes(), str(path))
    tally = tallies.setdefault(cubin.arch, Tally())
    tally.modules += 1
    for kernel in cubin.kernels():
        listing, code = lower(build(Source(path, "cubin", kernel), cubin.arch))
        tally.kernels += 1
        tally.instructions += len(listing.instructions)
        for read, lowered in zip(listing.instructions, code.instructions, strict=True):
            kinds = {o.kind for o in lowered.operations}
            if kinds & _UNKNOWN:
                opcode = read.opcode + ("*" if kinds - _UNKNOWN else "")
                tally.missing[opcode] += 1
                tally.places[opcode].add(f"{path}:{kernel}")


def report(arch: str, tally: Tally, top: int | None) -> None:
    """Print an architecture's opcodes, the most frequent first."""
    lost = tally.missing.total()
    share = lost / tally.instructions if tally.instructions else 0
    print(
        f"{arch}: {tally.instructions} instructions of {tally.kernels} kernels in "
        f"{tally.modules} modules, {lost} ({share:.2%}) without a translation"
    )
    for opcode, times in tally.missing.most_common(top):
        print(f"  {times:7} in {len(tally.places[opcode]):4} kernels  {opcode}")


if __name__ == "__main__":
    main()
