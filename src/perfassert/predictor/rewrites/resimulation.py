"""What a change would bring: the launch simulated again with it, by the one clock.

Of the launch as it is all is kept: what its accesses move is estimated again only where a change
moves data, its graph is bound once, and times are compared with the one that was predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from perfassert.engines.advisor.case import Case, Match
from perfassert.engines.advisor.change import Change
from perfassert.errors import PerfAssertError
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import occupancy
from perfassert.kernel.description import AccessKernel, BoundKernel, Description, Kernel
from perfassert.kernel.launch import Launch
from perfassert.prediction.prediction import Prediction
from perfassert.predictor.model import BoundLaunch, Model, estimate_bound_launch
from perfassert.predictor.rewrites.changed_accesses import coalesce
from perfassert.predictor.rewrites.changed_costs import changed_estimate
from perfassert.predictor.rewrites.code_change import CodeChange
from perfassert.predictor.rewrites.relaunching import resizable, same_work
from perfassert.predictor.rewrites.rewritten_accesses import rewrite
from perfassert.predictor.rewrites.whatif import with_changes
from perfassert.predictor.simulate.time import launch_time, least_seconds, loaded_model

Predict = Callable[[Kernel, Launch, Device], Prediction]
"""What predicts again; handed in, as predictions hand over to their diagnosis."""
_FLOATING = ("fp32", "fp64", "fp16")


@dataclass(frozen=True)
class Resimulation:
    """One launch, to be simulated with changes. ``prediction``: of the launch as it is."""

    prediction: Any
    predict: Predict
    model: Model
    case: Case

    def speedup(self, match: Match, worth: float = 0.0) -> float | None:
        """Old over new time; None where the match says of nothing how it would change, or where
        the changed launch is none that the device can run. What cannot be above ``worth`` is not
        simulated, and the most that it could be is returned."""
        before = float(self.prediction.time)
        try:
            seconds = self._seconds(match, before / worth if worth else inf)
        except PerfAssertError:
            return None
        return None if seconds is None else before / seconds

    def _seconds(self, match: Match, enough: float) -> float | None:
        """The time after the change, or what it cannot fall below, if that is not below
        ``enough``."""
        if match.changes is not None:
            return float(self.predict(*with_changes(self.prediction, match.changes)).time)
        change = match.change
        if change is None:
            return None
        if change.threads is not None:
            return self._time_of_relaunch(change.threads)
        if change.balanced:
            others = (Change(alone=True), Change(early=True))
            return min(self._seconds_of_edit(c, enough) for c in (change, *others))
        return self._seconds_of_edit(change, enough)

    def _seconds_of_edit(self, change: Change, enough: float) -> float:
        edit = CodeChange(change, self.model, self.case)
        if rewritten := self._rewrite(edit):
            return float(self.predict(rewritten, *self.prediction.origin[1:]).time)
        bound_launch, launch = self._changed_launch(change, edit)
        model = loaded_model(bound_launch, launch, bound_launch.device, edit)
        least = least_seconds(model)
        return least if least > enough else launch_time(model).seconds

    def _rewrite(self, edit: CodeChange) -> AccessKernel | None:
        """A kernel by address expressions with other ones; None where they stay."""
        kernel, launch, _ = self.prediction.origin
        chosen = (edit.change.coalesced, edit.change.joined, edit.change.constant)
        if not isinstance(kernel, AccessKernel) or not any(chosen):
            return None
        changed = rewrite(kernel, launch, *map(edit.touched_accesses, chosen))
        return changed if changed is not kernel else None

    def _time_of_relaunch(self, threads: int) -> float | None:
        """Blocks of so many threads, of the same shape as far as that goes, and as many of them as
        cover the same threads; None for code that would have to be written for them."""
        if not resizable(self.model.bound_launch.kernel):
            return None
        if any(len(set(loop.each)) > 1 for loop in self.model.graph.loops):
            # Which warps would meet in a block is not known: no gain is claimed.
            return float(self.prediction.time)
        launch = self.prediction.origin[1]
        block = _resize_block(launch.block, threads)
        changes: dict[str, object] = {"block": block}
        if launch.domain is None and not isinstance(self.prediction.origin[0], AccessKernel):
            changes["grid"] = tuple(
                -(-g * b // n) for g, b, n in zip(launch.grid, launch.block, block, strict=True)
            )
        after = self.predict(*with_changes(self.prediction, changes))
        return float(after.time) if same_work(self.prediction, after) else None

    def _changed_launch(self, change: Change, edit: CodeChange) -> tuple[BoundLaunch, Launch]:
        """What accesses cost and move after the change."""
        launch, described = self.prediction.origin[1], self.model.bound_launch.kernel
        accessed = described
        if isinstance(accessed, BoundKernel):
            accessed = _with_changed_accesses(accessed, change, edit, launch)
            described = _with_changed_arithmetic(accessed, change)
        registers = edit.registers()
        if registers != described.registers:
            described = replace(described, registers=registers)
        if change.shared_bytes is not None:
            dynamic = min(launch.shared_bytes, change.shared_bytes)
            described = replace(described, shared_bytes=change.shared_bytes - dynamic)
            launch = replace(launch, shared_bytes=dynamic)
        bound_launch = self._estimate(
            described, launch, accessed is not self.model.bound_launch.kernel
        )
        return replace(
            bound_launch, estimate=changed_estimate(bound_launch, change, edit.copies)
        ), launch

    def _estimate(self, described: Description, launch: Launch, moved: bool) -> BoundLaunch:
        """The estimate stays where neither accesses nor the blocks that reside have changed."""
        before, device = self.model.bound_launch, self.prediction.origin[2]
        shared = described.shared_bytes + launch.shared_bytes
        unit_occupancy = occupancy(device, launch.threads_per_block, described.registers, shared)
        if moved or unit_occupancy != before.occupancy or shared != before.shared_bytes:
            return estimate_bound_launch(described, before.effective_launch, launch, device)
        return replace(before, kernel=described)


def _with_changed_accesses(
    kernel: BoundKernel, change: Change, edit: CodeChange, launch: Launch
) -> BoundKernel:
    """The kernel with other accesses."""
    if change.coalesced:
        kernel = coalesce(kernel, edit.touched_accesses(change.coalesced), launch)
    spaces = dict.fromkeys(edit.touched_accesses(change.constant), "constant")
    if change.unspilled:
        spaces |= {n: "register" for n, a in enumerate(kernel.bound) if a.space == "local"}
        kernel = replace(kernel, spill_bytes=0)
    if change.code_bytes is not None:
        kernel = replace(kernel, code_bytes=min(kernel.code_bytes, change.code_bytes))
    if spaces:
        bound = tuple(
            replace(a, space=spaces[n]) if n in spaces else a for n, a in enumerate(kernel.bound)
        )
        kernel = replace(kernel, bound=bound)
    return kernel


def _with_changed_arithmetic(kernel: BoundKernel, change: Change) -> BoundKernel:
    """The kernel with the flops that are left, and in the type of most of them."""
    if not change.removed and not change.classes:
        return kernel
    graph = kernel.graph
    before = after = 0.0
    for node in graph.nodes:
        if node.operation in _FLOATING:
            times = graph.times(node)
            before += times
            after += times * (node.instruction not in change.removed)
    narrower = "fp32" in change.classes.values()
    return replace(
        kernel,
        flops=kernel.flops * after / before if before else kernel.flops,
        arithmetic="fp32" if narrower else kernel.arithmetic,
    )


def _resize_block(block: tuple[int, int, int], threads: int) -> tuple[int, int, int]:
    """A block of so many threads: the last extents above 1 shrink first, the first one grows."""
    sides = list(block)
    for axis in (2, 1, 0):
        while sides[axis] > 1 and sides[0] * sides[1] * sides[2] > threads:
            sides[axis] = -(-sides[axis] // 2)
    whole = sides[0] * sides[1] * sides[2]
    if whole != threads and block[1] == block[2] == 1:
        return threads, 1, 1
    sides[0] *= max(1, threads // whole)
    return sides[0], sides[1], sides[2]
