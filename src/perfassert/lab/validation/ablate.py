"""Worth of each mechanism of the time model on a suite: the error with it turned off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from perfassert.errors import SuiteError
from perfassert.lab.validation.data import DataRow
from perfassert.lab.validation.run import MetricResult, validate
from perfassert.lab.validation.suite import TIME, Suite
from perfassert.report.tables import Table, percent, table
from perfassert.system.process_pool import Submitter

_NEVER, _ALWAYS = 1e-6, 1e6  # so small or large that it does not count
MECHANISMS: Mapping[str, Mapping[str, float]] = MappingProxyType({
    "tags of the L1": {"l1_tag_cycles": _NEVER},
    "width of the L1": {"l1_bytes_per_cycle": int(_ALWAYS)},
    "least time of an L1 access": {"l1_access_cycles": 0.0},
    "fills into the L1": {"l1_fill_cycles": 0.0},
    "least time of a shared access": {"shared_access_cycles": 0.0},
    "pairs of lanes that share a load": {"shared_merged_passes": 1},
    "atomics on one address": {"l2_atomic_cycles": 0.0, "shared_atomic_cycles": 0.0},
    "memory queue": {"memory_queue_depth": 4096},
    "port of a unit to the L2": {"l2_port_bytes_per_cycle": _ALWAYS},
    "bandwidth of the L2": {"l2_bandwidth": 1e18},
    "packets to the L2": {"l2_packet_cycles": 0.0, "l2_port_packet_cycles": 0.0},
    "address translation": {"tlb_pages_per_cycle": 0.0},
    "latency grows with the load of DRAM": {"dram_latency_growth": 0.0},
    "the slowest of many lines": {"dram_latency_spread": 0.0},
    "reads or writes alone are faster": {"dram_alone_factor": 1.0},
    "DRAM takes over gradually": {"dram_knee": 1e3},
    "activation of DRAM rows": {"dram_activate": 0.0},
    "launch and drain of blocks": {"block_launch_cycles": 0.0, "block_drain_cycles": 0.0},
    "dispatch of blocks": {"block_dispatch_cycles": 0.0},
    "instructions fetched again": {
        "instruction_fetch_share": 0.0, "instruction_fetch_bytes_per_cycle": _ALWAYS,
    },
})  # fmt: skip
"""Mechanism → values of a device that disable it; see ``docs/explanation/time.md``."""


def validate_ablations(
    suite: Suite, rows: Sequence[DataRow], executor: Submitter | None = None
) -> dict[str, MetricResult]:
    """Return the errors of a suite's times, unchanged (``""``) and without each mechanism."""
    if TIME not in {spec.name for spec in suite.metrics}:
        raise SuiteError(f"{suite.path}: --ablate: the suite has no metric 'time'")
    cases: dict[str, Mapping[str, float]] = {"": {}, **MECHANISMS}
    return {
        name: validate(_with_changes(suite, off), rows, executor).metric(TIME)
        for name, off in cases.items()
    }


def _with_changes(suite: Suite, off: Mapping[str, float]) -> Suite:
    changes = {**(suite.device.changes or {}), **off}
    return replace(suite, device=replace(suite.device, changes=changes))


def text(results: Mapping[str, MetricResult]) -> Table:
    """Return a table, with the mechanism that the suite needs most first."""
    first, *rest = results.items()
    rest.sort(key=lambda item: -(item[1].summary.mean or 0.0))
    lines = [_figures(name or "nothing", result) for name, result in (first, *rest)]
    return table(("off", "median", "mean", "90th perc.", "Spearman"), lines)


def _figures(name: str, result: MetricResult) -> tuple[str, ...]:
    summary = result.summary
    errors = (summary.median, summary.mean, summary.percentile_90)
    rank = "–" if summary.spearman is None else f"{summary.spearman:.3f}"
    return (name, *("–" if e is None else percent(e, signed=False) for e in errors), rank)
