"""Toolchains by release: what was compiled then is compiled as it was then."""

from __future__ import annotations

import re

from perfassert.errors import KernelSourceError, ToolchainMissing, in_short

from . import tools

_NAMES = ("nvrtc", "nvcc", "ptxas")
Release = tuple[int, int]


def release_of(toolchain: str) -> Release:
    """``"12.4"`` as numbers; :class:`~perfassert.KernelSourceError` for what is none."""
    match = re.fullmatch(r"(\d+)\.(\d+)", toolchain) if isinstance(toolchain, str) else None
    if match is None:
        raise KernelSourceError(
            f"toolchain={in_short(toolchain)} is no release of the CUDA toolkit; write it as '12.4'"
        )
    return int(match[1]), int(match[2])


def installed_toolchains() -> dict[Release, tuple[str, ...]]:
    """Release → its tools that compile, the newest release first."""
    names: dict[Release, dict[str, None]] = {}
    for name in _NAMES:
        for tool in tools.candidates(name):
            if tool.release() > (0, 0):
                names.setdefault(tool.release(), {})[name] = None
    return {release: tuple(names[release]) for release in sorted(names, reverse=True)}


def check_installed(*toolchains: str) -> None:
    """Raises :class:`~perfassert.ToolchainMissing` where no tool of one of the releases is there,
    :class:`~perfassert.KernelSourceError` for what is no release."""
    releases = {toolchain: release_of(toolchain) for toolchain in toolchains}
    for toolchain, release in releases.items():
        if release not in installed_toolchains():
            raise missing("a compiler", toolchain)


def find(name: str, toolchain: str | None) -> tools.Tool | None:
    """The tool of that release, or the preferred one where none is asked for."""
    if toolchain is None:
        return tools.find(name)
    wanted = release_of(toolchain)
    return next((t for t in tools.candidates(name) if t.release() == wanted), None)


def compilers(toolchain: str | None) -> tuple[tools.Tool | None, tools.Tool | None]:
    """NVRTC and nvcc, of which one is there at least."""
    nvrtc, nvcc = find("nvrtc", toolchain), find("nvcc", toolchain)
    if nvrtc is None and nvcc is None:
        raise tools.missing("NVRTC") if toolchain is None else missing("NVRTC", toolchain)
    return nvrtc, nvcc


def assembler(toolchain: str | None, legacy: bool) -> tools.Tool:
    """ptxas of that release; for a ``legacy`` device one that still knows it, if there is one."""
    if toolchain is None:
        return (tools.before("ptxas", 13) if legacy else None) or tools.need("ptxas")
    tool = find("ptxas", toolchain)
    if tool is None:
        raise missing("ptxas", toolchain)
    return tool


def knows_legacy(tool: tools.Tool | None) -> bool:
    """Whether it compiles for devices that CUDA 13 has left behind."""
    return tool is not None and (0, 0) < tool.release() < (13, 0)


def missing(name: str, toolchain: str) -> ToolchainMissing:
    """Names what is installed, and the way to install what is not."""
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
    """``["13.5 (nvrtc, ptxas)"]``, the newest first."""
    return [
        f"{major}.{minor} ({', '.join(n)})" for (major, minor), n in installed_toolchains().items()
    ]
