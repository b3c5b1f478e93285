"""Predictions of many kernels as digests, to compare two states of the project.

``python benchmarks/same_predictions.py write FILE [KERNELS]`` writes a line for each prediction of
the examples, of the suites whose rows are in the repository, and of so many random kernels (500):
its name, a digest of all values but the question's, and its time. Each is asked in a process or
session that has seen no other launch of its kernel. ``compare BEFORE AFTER`` lists what differs.
Exit code 1 where something does.
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
from perfassert.lab.validation.build import make_kernel, make_launch  # noqa: E402
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
        for row in suite.rows:
            try:
                kernel, launch = make_kernel(suite, row), make_launch(suite, row)
            except pa.PerfAssertError:
                continue
            yield f"{name} {row.name}", kernel, launch, row.device


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
    """Of a prediction, or of the error that there is in its place."""
    try:
        data = pa.predict(kernel, launch, device).to_dict(diagnosis=False)
    except pa.PerfAssertError as error:
        return hashlib.sha256(type(error).__name__.encode()).hexdigest()[:16], 0.0
    kept = {key: value for key, value in data.items() if key not in LEFT_OUT}
    for assumption in (*kept["assumptions"], *kept["confidence_reasons"]):
        if assumption.get("span"):  # the folder is another one
            assumption["span"]["file"] = Path(assumption["span"]["file"]).name
    text = json.dumps(kept, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16], data["time"]
