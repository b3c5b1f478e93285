"""Releases of the installed wheels of NVIDIA's compiler and headers, which have to be one.

PyTorch's wheels pin the runtime headers of one release, and a compiler of another release refuses
them, or compiles CUB differently. pip resolves each package by itself and installs such a mixture.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

from .tools import wheel_version

_WHEELS = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime")
"""Wheels that compile host code together: nvcc, its own headers, its compiler for devices, and the
runtime's headers."""
_HEADERS = "nvidia-cuda-runtime"
_RELEASE = re.compile(r"\d+\.\d+")
_OWN = "perfassert"


@dataclass(frozen=True, slots=True)
class Mixture:
    """Wheels of several releases: wheel → release; ``wanted``: the release that all should have."""

    releases: Mapping[str, str]
    wanted: str

    @property
    def packages(self) -> tuple[str, ...]:
        """The requirements that make them one release: ``("nvidia-cuda-nvcc==13.0.*",)``."""
        others = (wheel for wheel, release in self.releases.items() if release != self.wanted)
        return tuple(f"{wheel}=={self.wanted}.*" for wheel in others)

    def __str__(self) -> str:
        return ", ".join(f"{wheel} {release}" for wheel, release in self.releases.items())


def find_mixture() -> Mixture | None:
    """Return the wheels that are not of one release; None where they are.

    The wanted release is that of the runtime's headers if another package needs them, since that
    package would break, else the newest.
    """
    versions = {wheel: wheel_version(wheel) for wheel in _WHEELS}
    releases = {
        wheel: match[0]
        for wheel, version in versions.items()
        if version and (match := _RELEASE.match(version))
    }
    if len({*releases.values()}) < 2:
        return None
    newest = max(releases.values(), key=lambda release: [*map(int, release.split("."))])
    pinned = _HEADERS in releases and _is_needed_by_others()
    return Mixture(releases, releases[_HEADERS] if pinned else newest)


def _is_needed_by_others() -> bool:
    """Return True if a package besides perfassert requires the runtime's headers."""
    return any(
        requirement.startswith(_HEADERS)
        for distribution in metadata.distributions()
        if distribution.metadata["Name"] != _OWN
        for requirement in distribution.requires or ()
        if "extra ==" not in requirement
    )
