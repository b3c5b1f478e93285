"""Slower code that a gate must not pass in silence: a kernel, and variants with one statement more.

``python benchmarks/slow_code.py [DEVICE ...] [--json FILE] [--before FILE]`` prints one table per
device: the time of each variant over that of the plain kernel, its confidence, and what is
announced that is not of the plain kernel. ``--json`` writes these results to a file, and
``--before`` adds those of such a file, of another version for instance, as columns. Needs the extra
``cuda``.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

import perfassert as pa

SOURCE = Path(__file__).with_name("slow_code.cu")
DEVICES = ("A100-SXM4-40GB", "RTX-3080", "H100-SXM5-80GB")
THREADS = 1 << 14
"""At most a block for each SM, so that no bandwidth hides what a statement takes."""
SLOWER = 1.02
"""Times over that of the plain kernel from which a variant counts as slower."""


@dataclass(frozen=True)
class Variant:
    """A kernel with inserted code: every thread executes a loop once, or other code 32 times.

    ``free``: the document that says that the code costs nothing. ``since``: compute capability.
    """

    kernel: str
    what: str
    free: str = ""
    since: int = 80


NO_DEPENDENT = "PTX ISA 8.8, griddepcontrol: no effect without a programmatic dependent launch"
VARIANTS = (
    Variant("sleep", "__nanosleep(1000)"),
    Variant("store_volatile", "volatile store"),
    Variant("fence_block", "__threadfence_block()"),
    Variant("fence_device", "__threadfence()"),
    Variant("fence_system", "__threadfence_system()"),
    Variant("prefetch", "prefetch.global.L2 of scattered addresses"),
    Variant("load_volatile", "volatile load"),
    Variant("load_cv", "ld.cv"),
    Variant("load_cg", "ld.cg"),
    Variant("load_acquire", "ld.acquire.gpu"),
    Variant("load_acquire_system", "ld.acquire.sys"),
    Variant("reduce", "__reduce_add_sync()"),
    Variant("ballot", "__ballot_sync()"),
    Variant("match", "__match_any_sync()"),
    Variant("shuffle", "__shfl_xor_sync()"),
    Variant("block_barrier", "__syncthreads()"),
    Variant("clock_read", "clock()"),
    Variant("trap", "trap in a branch on data"),
    Variant("add_one", "atomicAdd(float), one address"),
    Variant("add_one_int", "atomicAdd(int), one address"),
    Variant("add_one_long", "atomicAdd(unsigned long long), one address"),
    Variant("add_one_double", "atomicAdd(double), one address"),
    Variant("add_one_result", "atomicAdd(float) with result, one address"),
    Variant("exchange_one", "atomicExch(float), one address"),
    Variant("add_near", "atomicAdd(float), neighbouring addresses"),
    Variant("add_scattered", "atomicAdd(float), scattered addresses"),
    Variant("add_scattered_result", "atomicAdd(float) with result, scattered addresses"),
    Variant("loop_one", "atomicCAS() loop, one address"),
    Variant("loop_near", "atomicCAS() loop, neighbouring addresses"),
    Variant("shared_add_one", "shared atomicAdd(int), one address"),
    Variant("shared_add_near", "shared atomicAdd(int), neighbouring addresses"),
    Variant("shared_loop_one", "shared atomicAdd(float), one address"),
    Variant("grid_wait", "griddepcontrol.wait", free=NO_DEPENDENT, since=90),
    Variant("grid_launch", "griddepcontrol.launch_dependents", free=NO_DEPENDENT, since=90),
    Variant("cluster_barrier", "barrier.cluster.arrive and wait", since=90),
)


COUNTED = ("no recurrence within", "sectors of a block are counted")
"""Assumptions that say how figures were obtained, not what they leave out."""


@dataclass(frozen=True)
class Result:
    """The prediction of a variant; ``times``: its time over that of the plain kernel."""

    kernel: str
    times: float
    confidence: str
    announced: tuple[str, ...]

    def is_free_in_silence(self) -> bool:
        """Return True if the variant neither costs time nor is announced."""
        return self.times < SLOWER and not self.announced


def variants_of(device: str) -> tuple[Variant, ...]:
    """Return the variants that the device can execute."""
    capability = int(re.sub(r"\D", "", pa.device(device).arch))
    return tuple(v for v in VARIANTS if capability >= v.since)


def predict(kernel: str, device: str) -> pa.Prediction:
    """Predict a launch with a thread for each element, without contents of buffers."""
    launch = pa.Launch.cover(THREADS, 256, args={"n": THREADS})
    return pa.predict(pa.from_cuda(SOURCE, kernel), launch, device)


def compare_variants(device: str) -> Iterator[Result]:
    """Yield comparisons of the variants with the plain kernel, in the order of the list."""
    plain = predict("base", device)
    for variant in variants_of(device):
        prediction = predict(variant.kernel, device)
        times = float(prediction.time) / float(plain.time)
        announced = _announced(prediction, plain)
        yield Result(variant.kernel, times, prediction.confidence, announced)


def _announced(prediction: pa.Prediction, plain: pa.Prediction) -> tuple[str, ...]:
    """Assumptions that the plain kernel does not have, each once whatever its figures."""
    known = {_without_figures(a.text) for a in plain.assumptions}
    texts = {}
    for assumption in (*prediction.confidence_reasons, *prediction.assumptions):
        general = _without_figures(assumption.text)
        if general not in known and not any(c in assumption.text for c in COUNTED):
            texts.setdefault(general, assumption.text)
    return tuple(texts.values())


def _without_figures(text: str) -> str:
    return re.sub(r"[\d.]+", "#", text)


def table(device: str, found: Sequence[Result], before: Mapping[str, Any]) -> str:
    """Return the results as a table; ``before``: results of another version by kernel."""
    rows = []
    for variant, result in zip(variants_of(device), found, strict=True):
        row = [variant.what, f"{result.times:.2f}", result.confidence, _say(variant, result)]
        if before:
            old = before.get(variant.kernel)
            row[1:1] = [f"{old['times']:.2f}", old["confidence"]] if old else ["", ""]
        rows.append(row)
    headers = ["inserted", "times", "confidence", "announced"]
    if before:
        headers[1:1] = ["before", "confidence"]
    return tabulate(rows, headers, disable_numparse=True)


def _say(variant: Variant, result: Result) -> str:
    if result.is_free_in_silence():
        return f"free: {variant.free}" if variant.free else "FREE IN SILENCE"
    shortened = (text.partition(":")[0] for text in result.announced)
    return "; ".join(shortened) or "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("devices", nargs="*", default=DEVICES)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--before", type=Path, help="results to print beside")
    given = parser.parse_args()
    before = json.loads(given.before.read_text()) if given.before else {}
    written = {}
    for device in given.devices:
        found = tuple(compare_variants(device))
        print(f"{device}\n{table(device, found, before.get(device, {}))}\n")
        written[device] = {r.kernel: asdict(r) for r in found}
    if given.json:
        given.json.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
