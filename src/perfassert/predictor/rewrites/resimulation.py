"""Effect of a change: the launch is simulated again with it, by the same clock.

Of the launch as it is all is kept: what its accesses move is estimated again only where a change
moves data, its graph is bound once, and times are compared with the one that was predicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

from perfassert.engines.advisor.case import Case, Match
from perfassert.engines.advisor.rewrites import (
    Coalesce,
    JoinAccesses,
    ResizeBlocks,
    Rewrite,
    SetSharedBytes,
    UseConstantMemory,
)
from perfassert.errors import PerfAssertError
from perfassert.hardware.occupancy import occupancy
from perfassert.kernel.description import AccessKernel, BoundKernel, Description
from perfassert.kernel.launch import Launch
from perfassert.predictor.model import BoundLaunch, Model, estimate_bound_launch
from perfassert.predictor.rewrites.bind import rewrite_kernel
from perfassert.predictor.rewrites.cost import GraphRewrites
from perfassert.predictor.rewrites.relaunching import resizable, resize_blocks, same_work
from perfassert.predictor.rewrites.rewritten_accesses import rewrite
from perfassert.predictor.rewrites.site import Site
from perfassert.predictor.rewrites.traffic import rewrite_traffic
from perfassert.predictor.rewrites.whatif import Predict, with_changes
from perfassert.predictor.rewrites.widening import widen, widening, widening_site
from perfassert.predictor.simulate.time import launch_time, least_seconds, loaded_model


@dataclass(frozen=True)
class Resimulation:
    """A launch to be simulated with changes. ``prediction``: of the launch without changes."""

    prediction: Any
    predict: Predict
    model: Model
    case: Case

    def speedup(self, match: Match, worth: float = 0.0) -> float | None:
        """Return old over new time.

        The result is None where the match does not say how the launch would change, or where the
        device cannot run the changed launch. A gain that cannot be above ``worth`` is not
        simulated, and the most that it could be is returned.
        """
        before = float(self.prediction.time)
        try:
            seconds = self._seconds(match, before / worth if worth else inf)
        except PerfAssertError:
            return None
        return None if seconds is None else before / seconds

    def _seconds(self, match: Match, enough: float) -> float | None:
        """Return the time after the change, or its lower bound if that is not below ``enough``."""
        if match.changes is not None:
            return float(self.predict(*with_changes(self.prediction, match.changes)).time)
        if not match.rewrites:
            return None
        times = (
            self._time_of_rewrites(way, enough) for way in (match.rewrites, *match.alternatives)
        )
        return min((t for t in times if t is not None), default=None)

    def _time_of_rewrites(self, rewrites: Sequence[Rewrite], enough: float) -> float | None:
        """The same of rewrites, by the stages from the first one that they change."""
        resized = [r.threads for r in rewrites if isinstance(r, ResizeBlocks)]
        if resized:
            return self._time_of_relaunch(resized[-1])
        if rewritten := self._with_other_accesses(rewrites):
            return float(self.predict(rewritten, *self.prediction.origin[1:]).time)
        if any(isinstance(r, JoinAccesses) for r in rewrites):
            return self._time_of_wider_accesses()
        bound_launch, launch = self._changed_launch(rewrites)
        edit = GraphRewrites(rewrites, self.site)
        model = loaded_model(bound_launch, launch, bound_launch.device, edit)
        least = least_seconds(model)
        return least if least > enough else launch_time(model).seconds

    @cached_property
    def site(self) -> Site:
        """The launch as rewrites see it."""
        return Site(self.model, self.case)

    def _with_other_accesses(self, rewrites: Iterable[Rewrite]) -> AccessKernel | None:
        """A kernel by address expressions with other ones; None where they stay."""
        kernel, launch, _ = self.prediction.origin
        kinds = (Coalesce, JoinAccesses, UseConstantMemory)
        chosen = [
            frozenset(i for r in rewrites if isinstance(r, kind) for i in r.instructions)
            for kind in kinds
        ]
        if not isinstance(kernel, AccessKernel) or not any(chosen):
            return None
        changed = rewrite(kernel, launch, *map(self.site.touched_accesses, chosen))
        return changed if changed is not kernel else None

    def _time_of_wider_accesses(self) -> float | None:
        """Accesses of compiled code as wide as they can be."""
        device, narrow = self.model.device, widening_site(self.model)
        how = narrow and widening(narrow, device.compute_units)
        wider = narrow and how and widen(narrow, how)
        if not wider:
            return None
        bound_launch = estimate_bound_launch(wider.kernel, wider.effective, wider.launch, device)
        return launch_time(loaded_model(bound_launch, wider.launch, device)).seconds

    def _time_of_relaunch(self, threads: int) -> float | None:
        """Return the launch with blocks of so many threads that covers the same threads.

        The blocks keep their shape as far as possible. The result is None for code that would have
        to be rewritten for them.
        """
        if not resizable(self.model.bound_launch.kernel):
            return None
        if any(len(set(loop.each)) > 1 for loop in self.model.graph.loops):
            # Which warps would meet in a block is not known: no gain is claimed.
            return float(self.prediction.time)
        kernel, launch, _ = self.prediction.origin
        changes = resize_blocks(launch, _resize_block(launch.block, threads), kernel)
        after = self.predict(*with_changes(self.prediction, changes))
        return float(after.time) if same_work(self.prediction, after) else None

    def _changed_launch(self, rewrites: Sequence[Rewrite]) -> tuple[BoundLaunch, Launch]:
        """Return the bound launch, with its volumes, and the launch after the rewrites."""
        launch, bound_launch = self.prediction.origin[1], self.model.bound_launch
        if any(change.stage == "bind" for change in rewrites):
            kernel = bound_launch.kernel
            for change in rewrites:
                kernel = rewrite_kernel(change, kernel, launch, self.site)
                if isinstance(change, SetSharedBytes):
                    launch = replace(launch, shared_bytes=min(launch.shared_bytes, change.size))
            bound_launch = self._estimate(kernel, launch)
        for change in rewrites:
            bound_launch = rewrite_traffic(change, bound_launch, self.site)
        return bound_launch, launch

    def _estimate(self, kernel: Description, launch: Launch) -> BoundLaunch:
        """The estimate stays where nothing that it is made of has changed."""
        before, device = self.model.bound_launch, self.prediction.origin[2]
        shared = kernel.shared_bytes + launch.shared_bytes
        unit_occupancy = occupancy(device, launch.threads_per_block, kernel.registers, shared)
        if (
            _traffic_parts(kernel) != _traffic_parts(before.kernel)
            or unit_occupancy != before.occupancy
            or shared != before.shared_bytes
        ):
            return estimate_bound_launch(kernel, before.effective_launch, launch, device)
        return replace(before, kernel=kernel)


def _traffic_parts(kernel: Description) -> tuple[object, ...]:
    """The parts of a kernel that decide what it moves, besides what resides."""
    if not isinstance(kernel, BoundKernel):
        return ()
    return kernel.bound, kernel.spill_bytes, kernel.code_bytes


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
