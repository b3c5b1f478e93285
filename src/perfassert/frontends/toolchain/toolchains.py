"""Toolchains by CUDA release, so that code can be compiled as an earlier release did."""

from __future__ import annotations

import re

from perfassert.errors import KernelSourceError, ToolchainMissing, in_short

from . import tools

_NAMES = ("nvrtc", "nvcc", "ptxas")
Release = tuple[int, int]


def release_of(toolchain: str) -> Release:
    """Return ``"12.4"`` as numbers; :class:`~perfassert.KernelSourceError` for other texts."""
    match = re.fullmatch(r"(\d+)\.(\d+)", toolchain) if isinstance(toolchain, str) else None
    if match is None:
        raise KernelSourceError(
            f"toolchain={in_short(toolchain)} is no release of the CUDA toolkit; write it as '12.4'"
        )
    return int(match[1]), int(match[2])


def installed_toolchains() -> dict[Release, tuple[str, ...]]:
    """Return release → its compiling tools, the newest release first."""
    names: dict[Release, dict[str, None]] = {}
    for name in _NAMES:
        for tool in tools.candidates(name):
            if tool.release() > (0, 0):
                names.setdefault(tool.release(), {})[name] = None
    return {release: tuple(names[release]) for release in sorted(names, reverse=True)}


def check_installed(*toolchains: str) -> None:
    """Raise :class:`~perfassert.ToolchainMissing` if one of the releases is not installed.

    Raises :class:`~perfassert.KernelSourceError` for a text that is no release.
    """
    releases = {toolchain: release_of(toolchain) for toolchain in toolchains}
    for toolchain, release in releases.items():
        if release not in installed_toolchains():
            raise missing("a compiler", toolchain)


def find(name: str, toolchain: str | None) -> tools.Tool | None:
    """Return the tool of that release, or the preferred tool if ``toolchain`` is None."""
    if toolchain is None:
        return tools.find(name)
    wanted = release_of(toolchain)
    return next((t for t in tools.candidates(name) if t.release() == wanted), None)


def compilers(toolchain: str | None) -> tuple[tools.Tool | None, tools.Tool | None]:
    """Return NVRTC and nvcc, at least one of which is installed."""
    nvrtc, nvcc = find("nvrtc", toolchain), find("nvcc", toolchain)
    if nvrtc is None and nvcc is None:
        raise tools.missing("NVRTC") if toolchain is None else missing("NVRTC", toolchain)
    return nvrtc, nvcc


def assembler(toolchain: str | None, legacy: bool) -> tools.Tool:
    """Return ptxas of that release; for a ``legacy`` device an older one, if installed."""
    if toolchain is None:
        return (tools.find_older("ptxas", 13) if legacy else None) or tools.need("ptxas")
    tool = find("ptxas", toolchain)
    if tool is None:
        raise missing("ptxas", toolchain)
    return tool


def knows_legacy(tool: tools.Tool | None) -> bool:
    """Return True if the tool compiles for devices that CUDA 13 no longer supports."""
    return tool is not None and (0, 0) < tool.release() < (13, 0)


def missing(name: str, toolchain: str) -> ToolchainMissing:
    """Return an error that lists what is installed and how to install the rest."""
    major, _ = release_of(toolchain)
    suffix = "" if major >= 13 else f"-cu{major}"
    wheels = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvcc", "nvidia-cuda-runtime")
    line = " ".join(f"'{wheel}{suffix}=={toolchain}.*'" for wheel in wheels)
    have = ", ".join(list_toolchains()) or "none"
    return ToolchainMissing(
        f"{name} of toolchain {toolchain} is not installed; installed: {have}. Install it with: "
        f"pip install {line} (with --target DIR beside another release of the same major version, "
        f"and DIR in {tools.FOLDERS})"
    )


def list_toolchains() -> list[str]:
    """Return the installed releases with tools, newest first: ``["13.5 (nvrtc, ptxas)"]``."""
    return [
        f"{major}.{minor} ({', '.join(n)})" for (major, minor), n in installed_toolchains().items()
    ]
