"""Compiles random kernels, predicts them, and compares each field's volumes with the count."""

import os
import resource
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import perfassert as pa
from perfassert.source import CORRECTED, DISAGREEMENT

from . import oracle
from .generator import KINDS, generate
from .program import PREAMBLE

DEVICES = {"sm_75": "RTX-2080-Ti", "sm_80": "A100-SXM4-40GB", "sm_90": "H100-SXM5-80GB",
           "sm_100": "B200"}  # fmt: skip
TOLERANCE = 0.01
QUANTITIES = ("l2_load", "l2_store", "dram_load", "dram_store")
NO_DATA = ("(spills)", "(instructions)")
_SAMPLED = "executed"


@dataclass
class Outcome:
    """Outcome of the prediction of one kernel.

    ``volumes``: (predicted, counted) by quantity and field; ``error``: what was raised; ``by_lap``:
    wrong volumes are right if the iterations of a loop over the grid share nothing, which is a
    documented simplification.
    """

    number: int
    arch: str
    kind: str
    volumes: dict = field(default_factory=dict)
    confidence: str = ""
    reasons: tuple = ()
    assumptions: tuple = ()
    error: str = ""
    seconds: float = 0.0
    by_lap: bool = False

    @property
    def wrong(self):
        """Quantities and fields of which the volume is wrong."""
        return [key for key, pair in self.volumes.items() if not _close(*pair)]

    @property
    def disagrees(self):
        return any(stands_for == DISAGREEMENT for stands_for, _, _ in self.reasons)

    @property
    def executed(self):
        """Return True if some of the volumes come from executed blocks."""
        return any(_SAMPLED in text for text in self.assumptions)

    @property
    def failure(self):
        """Return the kind of failure of the prediction; empty if there is none."""
        if self.error:
            return "raises"
        if self.wrong and self.by_lap and self.confidence != "guessed":
            return "wider grid"
        if self.wrong:
            return "wrong and guessed" if self.confidence == "guessed" else "wrong volume"
        if self.disagrees:
            return "disagreement"
        if self.confidence == "guessed":
            return "guessed"
        corrected = any(text.startswith(CORRECTED) for text in self.assumptions)
        return "corrected by execution" if corrected else ""


def _close(predicted, counted):
    return abs(predicted - counted) <= TOLERANCE * max(counted, 1)


def device_of(arch):
    """A shipped device of the architecture."""
    if arch in DEVICES:
        return pa.device(DEVICES[arch])
    return next(d for d in map(pa.device, pa.devices()) if d.arch == arch)


def predicted(prediction):
    """Bytes by (quantity, field): those parts of volumes in which nothing is fitted."""
    found = {}
    for quantity in QUANTITIES:
        for name, volume in getattr(prediction.volumes, quantity).fields.items():
            if quantity == "l2_store":
                bytes = float(volume.total)
            else:
                bytes = sum(float(volume.parts.get(p, 0.0)) for p in
                            ("compulsory", "overlap_y", "overlap_z"))  # fmt: skip
            if bytes and name not in NO_DATA:
                found[quantity, name] = bytes
    return found


def source_of(kernels):
    return PREAMBLE + "\n".join(kernel.source() for kernel in kernels)


def predict(kernel, path, device):
    launch = pa.Launch(kernel.grid, kernel.block, kernel.given())
    return pa.predict(pa.from_cuda(path, kernel.instance()), launch, device)


def measure(kernel, run, path, device):
    """Predict a kernel and compare it with the counted volumes."""
    outcome = Outcome(int(kernel.name[1:]), device.arch, kernel.kind)
    start = _cpu()
    try:
        prediction = predict(kernel, path, device)
    except Exception as error:  # whatever is raised is what is looked for
        outcome.error = f"{type(error).__name__}: {error}"
    else:
        found = predicted(prediction)
        counted = oracle.count(kernel, run, device.dram_granularity)
        keys = sorted({*found, *counted})
        if not oracle.is_one_wave(kernel, run, device.compute_units):
            keys = [key for key in keys if not key[0].startswith("dram")]
        outcome.volumes = {key: (found.get(key, 0.0), counted.get(key, 0)) for key in keys}
        laps = oracle.count(kernel, run, device.dram_granularity, by_lap=True)
        outcome.by_lap = all(_close(found.get(k, 0.0), laps.get(k, 0)) for k in outcome.wrong)
        outcome.confidence = prediction.confidence
        outcome.reasons = tuple(
            (a.stands_for, a.share, str(a)) for a in prediction.confidence_reasons
        )
        outcome.assumptions = tuple(map(str, prediction.assumptions))
    outcome.seconds = _cpu() - start
    return outcome


def measure_all(seed, numbers, arch, kinds=KINDS):
    """Outcomes of the kernels of these numbers, compiled in one file."""
    start = _cpu()
    drawn = [generate(seed, number, kinds) for number in numbers]
    device = device_of(arch)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.cu")
        path.write_text(source_of(kernel for kernel, _ in drawn))
        shared = _cpu() - start
        outcomes = [measure(kernel, run, path, device) for kernel, run in drawn]
        if outcomes and all("KernelSourceError" in o.error for o in outcomes):  # one spoils all
            outcomes = [measure_alone(*pair, folder, device) for pair in drawn]
    for outcome in outcomes:
        outcome.seconds += shared / len(outcomes)
    return outcomes


def measure_alone(kernel, run, folder, device):
    """Measure a kernel that is compiled by itself."""
    path = Path(folder) / f"{kernel.name}.cu"
    path.write_text(source_of([kernel]))
    return measure(kernel, run, path, device)


def _cpu():
    own, children = (
        resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return sum(u.ru_utime + u.ru_stime for u in (own, children))


def without_cache(folder):
    """Keep compiled code in that folder only."""
    os.environ["PERFASSERT_CACHE_DIR"] = str(folder)
