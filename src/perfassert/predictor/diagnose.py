"""Stalls and advice of a prediction, from a profile of its simulation."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

from perfassert.engines.pipeline.simulate import run_bounded
from perfassert.kernel.samples import Samples
from perfassert.prediction.prediction import Diagnosis
from perfassert.predictor.model import Model, estimated, make_model
from perfassert.predictor.sampling import samples

_LIMIT = 400_000  # simulated instructions: shares settle long before


def diagnose(prediction: Any) -> Diagnosis:
    """Simulate once more, with a profile."""
    kernel, launch, device = prediction.origin
    model = make_model(estimated(kernel, launch, device), launch, device)
    alone = prediction.diagnostics["simulated_cycles"]
    found = simulated_samples(model, float(prediction.cycles) / alone if alone else 1.0)
    total = found.total.all
    stalls: dict[str, float] = {}
    for (_, reason), count in found.counts.items():
        stalls[reason] = stalls.get(reason, 0.0) + count.all / total
    return Diagnosis(MappingProxyType(stalls), None)


def simulated_samples(model: Model, slower: float) -> Samples:
    """Of a launch that takes so many times as long as its simulation."""
    unit = replace(model.unit, profile=True)
    totals = run_bounded(unit, _LIMIT)
    assert totals.profile is not None
    return samples(totals.profile, unit, model.graph, model.launch_nodes, slower)
