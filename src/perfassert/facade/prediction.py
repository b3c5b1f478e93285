"""The prediction of the public contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from perfassert.predictor.answer import Answer


@dataclass(frozen=True, eq=False)
class Prediction(Answer):
    """Predicted time, data volumes and bottlenecks of one launch of one kernel on one device.

    Made by :func:`perfassert.predict`. Immutable; the same on every machine and in every process.

    Attributes:
        kernel, device: their names.
        kernel_kind: ``"compiled"``, ``"described"`` by address expressions, or a ``"graph"`` of
            instructions.
        device_digest, model_version: identify the content of the device file, and the model.
        grid, block: extents in (x, y, z).
        threads: unmasked threads of the launch.
        updates: results that they make.
        warps, blocks: all of the grid.
        time: of the launch, in seconds, from the simulation fed with the predicted volumes.
        cycles: the same in cycles of an SM, without the launch overhead.
        spread: range of the time over a few fixed start phases, as a fraction of it.
        limiter: what decides the time: ``dram``, ``l2``, ``l1``, ``shared``, ``atomics``,
            ``compute``, ``issue``, ``latency`` or ``parallelism``.
        bounds: limiter → its own time, in seconds.
        roofline_time, roofline_limiter: of the slowest of DRAM, L2, L1 and floating point.
        volumes: of the whole launch: ``l1_wavefronts``, ``l1_cycles``, ``shared_wavefronts``
            (counts), ``l2_load``, ``l2_store``, ``dram_load``, ``dram_store`` (bytes). Each has
            ``total``, ``per_thread``, ``per_update``, ``parts`` that sum to the total, and
            ``fields``.
        occupancy: ``fraction``, ``resident_blocks`` and ``warps_per_unit`` of an SM, ``limited_by``
            (``warps``, ``blocks``, ``registers`` or ``shared``).
        resources: ``registers`` and ``spill_bytes`` of a thread, ``shared_bytes`` of a block,
            ``instructions`` of the launch.
        assumptions: what the model had to assume; each has ``text`` and ``span``.
        exact: names of metrics that are facts of the binary or the launch, and no estimates.
        error_bands: metric → what is known of its error.
        confidence: ``"measured"``, ``"extrapolated"`` (from another device or kind of kernel) or
            ``"guessed"``.
        confidence_reasons: assumed values that replace facts of the kernel, the heaviest first,
            each with ``share``, the fraction of instructions or bytes that rests on it.
        speed_of_light: least time on the device, in seconds: for the launch's compulsory DRAM
            bytes, each once, at the nominal bandwidth, and for its floating-point and matrix
            operations at the peak rate; 0 where it has none of them, or it is not known.
        diagnostics: what volumes and time rest on; keys in ``docs/explanation/model.md``.
        question: digest of all that the prediction depends on: the kernel's content, launch,
            device and overrides; empty for data of earlier versions.
        asked: the question itself, where it was made in this process.
        on_expect: called with the outcomes of every :meth:`expect`.
        seal: digest of the values that the predictor made; empty for what was read from data.

    Example:
        >>> import perfassert as pa
        >>> fields = [pa.Field("a", shape=1 << 24), pa.Field("b", shape=1 << 24)]
        >>> copy = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
        >>> p = pa.predict(copy, pa.Launch.cover(1 << 24, block=256), "a100")
        >>> p.limiter, p.volumes.dram_load.per_thread, p.occupancy.fraction
        ('dram', 8 B/thread, 1.0)

    Source:
        Volumes and roofline: Ernst et al., Warpspeed, arXiv 2204.14242. Time: Cornelis and Lemeire,
        *The Pipeline Performance Model*. Stalls and advice: Zhou et al., GPA, CGO 2021.
    """

    on_expect: Callable[[Any], object] | None = field(default=None, repr=False, kw_only=True)

    def probability_faster(self, other: Prediction) -> float | None:
        """Probability that this launch is faster than another on the same device.

        Predicted times of one kernel err in common, so that an order is known better than a time.
        The probability is calibrated on pairs of measured launches, by what limits both, whether
        they are of one kernel, and how far their predicted times lie apart.

        Args:
            other: another prediction for the same device.

        Returns:
            A probability; None where what differs between the two is guessed, or they are of two
            versions of the model.

        Raises:
            RankingError: the two are of different devices, or the other is no prediction.

        Example:
            >>> import perfassert as pa
            >>> fields = [pa.Field("a", shape=(4096, 4096)), pa.Field("b", shape=(4096, 4096))]
            >>> copy = pa.Kernel.from_accesses("copy", fields, ["a[y, x]"], ["b[y, x]"])
            >>> wide, tall = (
            ...     pa.predict(copy, pa.Launch.cover((4096, 4096), block), "a100")
            ...     for block in ((256, 1), (1, 256))
            ... )
            >>> wide.probability_faster(tall) > 0.95
            True

        Source:
            ``devices/fits/pair-error.toml``; ``docs/results/decisions.md`` tests it.
        """
        from perfassert.predictor.judge.pairs import probability_faster

        return probability_faster(self, other)

    def expect(self, *, undecided: str = "fail", **conditions: object) -> Prediction:
        """Check conditions on metrics, and fail with a table if one does not hold.

        Args:
            undecided: what becomes of ``limiter``, if another bound lies within the model's error
                of the largest, and the condition holds for one of them only: ``"fail"`` (default)
                or ``"allow"``.
            **conditions: metric → condition. A number means equality, in base units; text has an
                operator and a quantity (``"< 60 us"``), a tolerance (``"10 B/update ± 5 %"``,
                ``"8 B -0 % +3 %"``), a range (``"50 .. 60 us"``), or names (``"dram | l2"``,
                ``"!latency"``, of advice also ``"in top 3: Loop Unrolling"``). Metrics: ``time
                cycles roofline_time limiter roofline_limiter dram_load dram_store dram_volume
                l2_load l2_store l2_volume l1_wavefronts l1_cycles shared_wavefronts occupancy
                registers spill_bytes load_width store_width bank_conflicts instructions
                speed_of_light headroom confidence advice advice_speedup``, and those of plug-ins.
                Units after a slash: ``/thread /update /warp /block``.

        Returns:
            The prediction itself.

        Raises:
            ExpectationFailed: at least one condition does not hold; one error for all of them.
            ExpectationError: an unknown metric or unit, a malformed condition, or a metric that
                this kernel cannot have.

        Example:
            >>> import perfassert as pa
            >>> fields = [pa.Field("a", shape=1 << 24), pa.Field("b", shape=1 << 24)]
            >>> copy = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
            >>> p = pa.predict(copy, pa.Launch.cover(1 << 24, block=256), "a100")
            >>> p.expect(time="< 400 us", limiter="dram", dram_load="8 B/thread ± 1 %") is p
            True
        """
        __tracebackhide__ = True
        from perfassert.expect.check import check

        check(self, conditions, undecided, self.on_expect)
        return self
