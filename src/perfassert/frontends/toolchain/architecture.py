"""Compute capabilities: which compiled code runs where, and what is compiled for a device.

The rules are those of NVIDIA's "Blackwell compatibility guide" and of nvcc's manual, section "GPU
feature list": plain code runs on later minor versions of its major version and its PTX on all later
devices; ``a`` code on its own compute capability only; ``f`` code on its family.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from perfassert.errors import KernelSourceError, in_short

_TURING = 75  # compute capability × 10; the tools of CUDA 13 support no older one
_HOPPER = 90  # the oldest architecture with an ``a`` variant


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture.

    ``number`` is the compute capability × 10. ``suffix`` is ``""``, ``"a"`` or ``"f"``.
    """

    number: int
    suffix: str = ""

    def __str__(self) -> str:
        return f"sm_{self.number}{self.suffix}"

    @property
    def virtual(self) -> str:
        """Name of the PTX target: ``"compute_90a"``."""
        return f"compute_{self.number}{self.suffix}"

    def code_runs_on(self, device: Architecture) -> bool:
        """Return True if machine code for this architecture runs on ``device``."""
        same_major = self.number // 10 == device.number // 10
        if self.suffix == "a":
            return self.number == device.number
        return same_major and self.number <= device.number

    def ptx_runs_on(self, device: Architecture) -> bool:
        """Return True if PTX for this architecture can be assembled for ``device``."""
        return self.code_runs_on(device) if self.suffix else self.number <= device.number


def architecture(text: str) -> Architecture:
    """Parse ``"sm_90a"``; :class:`KernelSourceError` for any other form."""
    form = r"(?:sm|compute)_(\d{2,4})([af]?)"
    match = re.fullmatch(form, text) if isinstance(text, str) else None
    if match is None:
        raise KernelSourceError(f"{in_short(text)} is no architecture; one looks like 'sm_80'")
    return Architecture(int(match[1]), match[2])


def number(arch: str) -> int:
    """Return the number in an architecture: 90 for ``"sm_90a"``."""
    return architecture(arch).number


def legacy(arch: str) -> bool:
    """Return True for Volta, which the tools of CUDA 13 no longer support."""
    return number(arch) < _TURING


def best_code(offered: Iterable[Architecture], device: Architecture) -> Architecture | None:
    """Return the machine code that a driver loads: nearest to ``device``, then most specific."""
    # Of sm_80, sm_86 and sm_90, a driver loads sm_86 for sm_89.
    fits = [candidate for candidate in offered if candidate.code_runs_on(device)]
    return max(
        fits,
        key=lambda candidate: (candidate.number, candidate.suffix == "a", candidate.suffix),
        default=None,
    )


def best_ptx(offered: Iterable[Architecture], device: Architecture) -> Architecture | None:
    """Return the PTX that a driver assembles if no machine code fits."""
    fits = [candidate for candidate in offered if candidate.ptx_runs_on(device)]
    return max(
        fits,
        key=lambda candidate: (candidate.number, candidate.suffix == "a", candidate.suffix),
        default=None,
    )


def own_features(device: Architecture) -> Architecture:
    """Return ``sm_90a`` for ``sm_90``; an architecture without such a variant stays as it is."""
    return Architecture(device.number, "a") if device.number >= _HOPPER else device


def assembled_for(ptx: Architecture, device: Architecture) -> Architecture:
    """Return the target for which a driver on ``device`` assembles PTX, with the PTX's suffix."""
    return Architecture(device.number, ptx.suffix)
