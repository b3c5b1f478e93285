"""What drops into the autotuners of others: they measure less, by predictions without a GPU.

Each keeps a share of the configurations, fastest first, and those that are not decided to be slower
than the first; it logs how many it dropped, to the logger ``perfassert.tuning``.
"""

from perfassert.tuning.helion import helion_autotuner
from perfassert.tuning.kernel_tuner import kernel_tuner_objective
from perfassert.tuning.triton import triton_prune

__all__ = ["helion_autotuner", "kernel_tuner_objective", "triton_prune"]
