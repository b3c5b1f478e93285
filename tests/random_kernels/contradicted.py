"""Random kernels whose closed forms are contradicted by executed blocks, and launches of them.

``python -m tests.random_kernels.contradicted KINDS SEED FIRST COUNT`` searches among the kernels of
a seed and prints the numbers of those that are contradicted on an A100, with their kind. KINDS is a
key of :data:`KINDS`: kernels of ``any`` kind seldom are, those of ``wrapping`` often.
``contradicted.toml`` keeps some numbers, no number twice: all of the kernels fit into one file.
"""

import sys
import tempfile
from pathlib import Path

import perfassert as pa
from perfassert.source import CORRECTED
from perfassert.toml.tables import loads

from . import generator, wrapping
from .generator import generate
from .measure import device_of, source_of

KEPT = Path(__file__).with_name("contradicted.toml")
KINDS = {"any": generator.KINDS, "wrapping": wrapping.KINDS}
_TOGETHER = 20  # kernels in a file


def kept():
    """Contradicted kernels."""
    table = loads(KEPT.read_text("utf-8"))
    return [
        generate(int(seed), number, KINDS[kinds])[0]
        for kinds, seeds in table.items()
        for seed, numbers in seeds.items()
        for number in numbers
    ]


def is_contradicted(prediction):
    """Return True if executed blocks stand in for a closed form."""
    return any(a.text.startswith(CORRECTED) for a in prediction.assumptions)


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


def search(kinds, seed, first, count):
    """Yield number and kernel of those that are contradicted among ``count`` kernels of a seed."""
    device = device_of("sm_80")
    for start in range(first, first + count, _TOGETHER):
        numbers = range(start, min(start + _TOGETHER, first + count))
        kernels = [generate(seed, n, KINDS[kinds])[0] for n in numbers]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernels.cu")
            path.write_text(source_of(kernels))
            for number, kernel in zip(numbers, kernels, strict=True):
                try:
                    compiled = pa.from_cuda(path, kernel.instance())
                    prediction = pa.predict(compiled, launches(kernel)[0], device)
                except pa.PerfAssertError:
                    continue
                if is_contradicted(prediction):
                    yield number, kernel


if __name__ == "__main__":
    for number, kernel in search(sys.argv[1], *map(int, sys.argv[2:])):
        print(number, kernel.kind, flush=True)
