"""Adapters for autotuners: predictions without a GPU reduce the configurations to be measured.

Each adapter keeps a fraction of the configurations, those that are predicted to be fastest. It also
keeps configurations that are not decided to be slower than the first. It logs the number of dropped
configurations to the logger ``perfassert.tuning``.
"""

from perfassert.tuning.helion import helion_autotuner
from perfassert.tuning.kernel_tuner import kernel_tuner_objective
from perfassert.tuning.triton import triton_prune

__all__ = ["helion_autotuner", "kernel_tuner_objective", "triton_prune"]
