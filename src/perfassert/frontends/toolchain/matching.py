"""Releases of the installed wheels of NVIDIA's compiler and headers, which have to be one.

The package ``cuda-toolkit`` pins the wheels of one release, and ``perfassert[cuda]`` requires the
compiler through it, as PyTorch requires the headers. Wheels that were upgraded by themselves leave
that release: the compiler refuses headers of another one, or compiles CUB differently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

from .tools import wheel_version

_TOOLKIT = "cuda-toolkit"
_PARTS = "nvcc,nvrtc,cccl"
"""Extras of ``cuda-toolkit`` that perfassert[cuda] requires; ``nvcc`` brings its headers, too."""
_PINNED = re.compile(r"(?P<wheel>[\w.-]+)==(?P<version>[\d.]+)\.\*")
_COMPILERS = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime")
"""Wheels that compile host code together: nvcc, its headers, device compiler and runtime."""
_OF_COMPILING = {*_COMPILERS, "nvidia-cuda-nvrtc", "nvidia-cuda-cccl"}


@dataclass(frozen=True, slots=True)
class Mixture:
    """Wheels of several releases, as wheel → version; ``wanted`` is the release for all."""

    versions: Mapping[str, str]
    wanted: str

    @property
    def requirement(self) -> str:
        """Requirement for pip that brings one release: ``"cuda-toolkit[nvcc,…]==13.0.*"``."""
        return f"{_TOOLKIT}[{_PARTS}]=={self.wanted}.*"

    def __str__(self) -> str:
        wheels = ", ".join(f"{wheel} {version}" for wheel, version in self.versions.items())
        return f"{wheels} beside CUDA {self.wanted}"


def find_mixture() -> Mixture | None:
    """Return the wheels that are not of one release; None if all are.

    The wanted release is that of ``cuda-toolkit`` if it is installed, since other packages require
    it. Otherwise it is the release of the newest wheel.
    """
    if toolkit := wheel_version(_TOOLKIT):
        wanted, pins = _release(toolkit), _pins_of_toolkit()
    else:
        releases = [_release(version) for version in map(wheel_version, _COMPILERS) if version]
        wanted = max(releases, key=_numbers, default="")
        pins = dict.fromkeys(_COMPILERS, wanted)
    versions = {
        wheel: installed
        for wheel, pin in pins.items()
        if (installed := wheel_version(wheel)) and not f"{installed}.".startswith(f"{pin}.")
    }
    return Mixture(versions, wanted) if versions else None


def _pins_of_toolkit() -> dict[str, str]:
    """Return wheel → version prefix that ``cuda-toolkit`` pins: ``nvidia-cuda-nvcc`` → 13.0.88."""
    matches = map(_PINNED.match, metadata.requires(_TOOLKIT) or ())
    pins = {match["wheel"]: match["version"] for match in matches if match}
    return {wheel: version for wheel, version in pins.items() if wheel in _OF_COMPILING}


def _release(version: str) -> str:
    """Return the release of a version: ``"13.0"`` for ``"13.0.88"``."""
    return ".".join(version.split(".")[:2])


def _numbers(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]
