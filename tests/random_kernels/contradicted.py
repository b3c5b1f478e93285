"""Random kernels whose closed forms are contradicted by executed blocks, and launches of them.

``python -m tests.random_kernels.contradicted SEED FIRST COUNT`` searches among the kernels of a
seed and prints the numbers of those that are contradicted on an A100. ``contradicted.toml`` keeps
what was found.
"""

import sys
import tempfile
from pathlib import Path

import perfassert as pa
from perfassert.source import CORRECTED
from perfassert.toml.tables import loads

from .generator import generate
from .measure import device_of, source_of

KEPT = Path(__file__).with_name("contradicted.toml")
_TOGETHER = 20  # kernels in a file


def kept():
    """Pairs of seed and number of contradicted kernels."""
    table = loads(KEPT.read_text("utf-8"))
    return [(int(seed), number) for seed, numbers in table["numbers"].items() for number in numbers]


def launches(kernel):
    """Four launches: as drawn, with each integer argument 0, larger by one, and a wider grid."""
    given = kernel.given()

    def changed(change):
        return {n: change(v) if type(v) is int else v for n, v in given.items()}

    wide = (kernel.grid[0] * 2, *kernel.grid[1:])
    return [
        pa.Launch(kernel.grid, kernel.block, given),
        pa.Launch(kernel.grid, kernel.block, changed(lambda v: 0)),
        pa.Launch(kernel.grid, kernel.block, changed(lambda v: v + 1)),
        pa.Launch(wide, kernel.block, given),
    ]


def search(seed, first, count):
    """Yield the numbers of contradicted kernels among ``count`` kernels of a seed."""
    device = device_of("sm_80")
    for start in range(first, first + count, _TOGETHER):
        kernels = [generate(seed, n)[0] for n in range(start, start + _TOGETHER)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernels.cu")
            path.write_text(source_of(kernels))
            for number, kernel in enumerate(kernels, start):
                try:
                    made = pa.from_cuda(path, kernel.instance())
                    found = pa.predict(made, launches(kernel)[0], device)
                except pa.PerfAssertError:
                    continue
                if any(a.text.startswith(CORRECTED) for a in found.assumptions):
                    yield number


if __name__ == "__main__":
    for found in search(*map(int, sys.argv[1:])):
        print(found, flush=True)
