"""Predictions of many kernels as digests, to compare two states of the project.

``python benchmarks/same_predictions.py write FILE [KERNELS]`` writes a line for each prediction
of the examples, of the suites whose rows are in the repository, and of so many random kernels
(500): its name, a digest of all values but the question's and the words of assumptions, and its
time. ``compare BEFORE AFTER`` lists what differs. Exit code 1 where something does.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import perfassert as pa  # noqa: E402
from perfassert.lab.validation.build import make_kernel, make_launch, row_names  # noqa: E402
from perfassert.lab.validation.read import read_suite  # noqa: E402
from perfassert.sensitivity.examples import EXAMPLES, example  # noqa: E402
from tests.random_kernels.generator import generate  # noqa: E402
from tests.random_kernels.measure import source_of  # noqa: E402

SUITES = ("lattice_boltzmann", "matmul_a6000", "matrix_kernels", "own_kernels")
DEVICES = ("a100", "h100", "rtx-4090")
LEFT_OUT = ("question", "stalls", "advice", "timeline")
_TOGETHER = 20  # random kernels in a file


def examples() -> Iterator[tuple[str, pa.Kernel, pa.Launch, str]]:
    for name in EXAMPLES:
        case = example(name, 32)
        yield from ((f"example {name} {d}", case.kernel, case.launch, d) for d in DEVICES)


def suites() -> Iterator[tuple[str, pa.Kernel, pa.Launch, str]]:
    for name in SUITES:
        suite = read_suite(ROOT / "validation" / f"{name}.toml")
        for label, spec in suite.kernels.items():
            for number, row in enumerate(spec.rows):
                names = row_names(spec, dict(row))
                try:
                    device = pa.device(DEVICES[0])
                    kernel = make_kernel(spec, names, label)
                    launch = make_launch(spec.launch, names, kernel, device)
                except pa.PerfAssertError:
                    continue
                yield f"{name} {label} {number}", kernel, launch, DEVICES[0]


def random_kernels(count: int) -> Iterator[tuple[str, pa.Kernel, pa.Launch, str]]:
    for start in range(0, count, _TOGETHER):
        drawn = [generate(1, number)[0] for number in range(start, start + _TOGETHER)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernels.cu")
            path.write_text(source_of(drawn))
            for number, one in enumerate(drawn, start):
                launch = pa.Launch(one.grid, one.block, one.given())
                yield f"random {number}", pa.from_cuda(path, one.instance()), launch, DEVICES[0]


def digest(kernel: pa.Kernel, launch: pa.Launch, device: str) -> tuple[str, float]:
    """Return the digest and the time of a prediction; of an error, the digest of its type and 0."""
    try:
        data = pa.predict(kernel, launch, device).to_dict(diagnosis=False)
    except pa.PerfAssertError as error:
        return hashlib.sha256(type(error).__name__.encode()).hexdigest()[:16], 0.0
    kept = {key: value for key, value in data.items() if key not in LEFT_OUT}
    for assumption in (*kept["assumptions"], *kept["confidence_reasons"]):
        assumption.pop("text")
        if assumption.get("span"):  # the folder is another one
            assumption["span"][0] = Path(assumption["span"][0]).name
    text = json.dumps(kept, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16], data["time"]


def write(path: Path, count: int) -> None:
    lines = []
    for questions in (examples(), suites(), random_kernels(count)):
        for name, kernel, launch, device in questions:
            lines.append("\t".join((name, *map(str, digest(kernel, launch, device)))))
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} predictions")


def read(path: Path) -> dict[str, tuple[str, float]]:
    rows = (line.split("\t") for line in path.read_text().splitlines())
    return {name: (found, float(seconds)) for name, found, seconds in rows}


def compare(before: Path, after: Path) -> int:
    old, new = read(before), read(after)
    differ = [name for name in old if name in new and old[name][0] != new[name][0]]
    for name in differ:
        print(f"{name}: {old[name][1]:.6g} s, now {new[name][1]:.6g} s")
    print(f"{len(old.keys() & new.keys())} compared, {len(differ)} differ, "
          f"{len(old.keys() ^ new.keys())} of one side only")  # fmt: skip
    return bool(differ)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 500)
    else:
        sys.exit(compare(*map(Path, sys.argv[2:4])))
