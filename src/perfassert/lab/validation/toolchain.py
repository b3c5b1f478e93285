"""Toolchain that a suite names: the one that compiled the measured kernels."""

from __future__ import annotations

from dataclasses import replace

from perfassert.frontends.toolchain.toolchains import find, list_toolchains
from perfassert.lab.validation.suite import KernelSpec, Suite

TOOLCHAIN = "toolchain"


def as_installed(suite: Suite) -> tuple[Suite, str]:
    """Return the suite, and a note if another toolchain compiles its kernels.

    A suite remains useful without its original compiler, but registers may differ then.
    """
    asked = suite.toolchain
    if not asked or any(find(name, asked) for name in ("nvrtc", "nvcc")):
        return suite, ""
    have = ", ".join(list_toolchains()) or "none"
    notice = (
        f"toolchain {asked} is not installed ({have}): compiled by the preferred one, "
        "so that code and registers may differ from the measured"
    )
    kernels = {name: _without_toolchain(spec) for name, spec in suite.kernels.items()}
    return replace(suite, kernels=kernels, toolchain=""), notice


def _without_toolchain(spec: KernelSpec) -> KernelSpec:
    if spec.cuda is None:
        return spec
    extra = {key: value for key, value in spec.cuda.extra.items() if key != TOOLCHAIN}
    return replace(spec, cuda=replace(spec.cuda, extra=extra))
