"""A launch to start from, for a kernel of which only the source is given."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.sources import arguments_of, compilation_of
from perfassert.errors import LaunchError

if TYPE_CHECKING:
    from perfassert.frontends.cuda.inventory import KernelInfo

DOMAIN, BLOCK = 1 << 20, 256
"""Threads of a launch and of a block to start from; whoever knows the kernel replaces them."""
_DEVICE = "A100-SXM4-40GB"
_COMPILED = (".cu", ".ptx")
_REAL = ("float", "double", "__half", "half", "__nv_bfloat16")


def propose_launch(options: argparse.Namespace) -> argparse.Namespace:
    """The options with the device, domain, block and numbers for arguments that are not given;
    ``proposed`` has what was added, as it is typed."""
    from perfassert.frontends.cuda.inventory import kernels, parameters
    from perfassert.frontends.toolchain.names import fits
    from perfassert.hardware.load import device

    source, given, words = Path(options.source), compilation_of(options), []
    name = options.device
    if name is None:
        name = _DEVICE
        if source.suffix not in _COMPILED:
            name = next(first_devices(kernels(source, None, **given), source))
        words += ["--device", name]
    words += ["--domain", str(DOMAIN), "--block", str(BLOCK)]
    known = parameters(source, device(name).arch, **given)
    chosen = fits(options.kernel, [*known]) if options.kernel else [*known]
    numbers = [
        f"{p.name}={start_value(p)}"
        for p in (known[chosen[0]] if len(chosen) == 1 else ())
        if not (p.pointer or is_structure(p) or p.name in arguments_of(options))
    ]
    words += [word for number in numbers for word in ("--arg", number)]
    settings = {**vars(options), "device": name, "domain": str(DOMAIN), "block": str(BLOCK)}
    settings |= {"arg": [*options.arg, *numbers], "proposed": shlex.join(words)}
    return argparse.Namespace(**settings)


def first_devices(infos: Sequence[KernelInfo], source: Path) -> Iterator[str]:
    """The first shipped device of each architecture of compiled kernels."""
    from perfassert.hardware.load import device, devices

    by_arch: dict[str, str] = {}
    for name in devices():
        by_arch.setdefault(device(name).arch, name)
    archs = dict.fromkeys(i.arch.rstrip("af") for i in infos)
    if not any(arch in by_arch for arch in archs):
        raise LaunchError(f"{source} is for {', '.join(archs)}; give --device")
    yield from (by_arch[arch] for arch in archs if arch in by_arch)


def is_structure(parameter: Any) -> bool:
    """Whether it has members, which only its author knows."""
    return bool(parameter.members) or parameter.size > 8


def start_value(parameter: Any) -> int | float:
    """A number to start from; a length is the most likely integer."""
    if parameter.dtype in _REAL:
        return 1.0
    return 1 if parameter.size == 1 else DOMAIN
