"""Proposal of a launch for a kernel of which only the source is given."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfassert.cli.sources import arguments_of, compilation_of
from perfassert.errors import LaunchError
from perfassert.source import CUDA_SUFFIXES

if TYPE_CHECKING:
    from perfassert.frontends.cuda.inventory import KernelInfo

_DEVICE = "A100-SXM4-40GB"
_COMPILED = (*CUDA_SUFFIXES, ".ptx")


def propose_launch(options: argparse.Namespace) -> argparse.Namespace:
    """Return the options completed by a proposed device, domain, block and numbers for arguments.

    ``proposed`` of the result holds the added options as they would be typed.
    """
    from perfassert.frontends.cuda.inventory import list_kernels, parameters
    from perfassert.frontends.cuda.proposals import (
        DOMAINS,
        is_structure,
        proposed_block,
        start_value,
    )
    from perfassert.frontends.toolchain.names import demangle, fits, without_parameters
    from perfassert.hardware.load import device

    source, given, words = Path(options.source), compilation_of(options), []
    name = options.device
    if name is None:
        name = _DEVICE
        if source.suffix not in _COMPILED:
            name = next(first_devices(list_kernels(source, None, **given), source))
        words += ["--device", name]
    arch = device(name).arch
    if source.suffix in CUDA_SUFFIXES:
        given["kernel"] = options.kernel  # an instance of a template, perhaps
    known = parameters(source, arch, **given)
    chosen = fits(options.kernel, [*known]) if options.kernel else [*known]
    names = [without_parameters(demangle(mangled)) for mangled in chosen]
    infos = [i for i in list_kernels(source, arch, **given) if i.mangled in chosen]
    bounds = [i.max_threads for i in infos if i.max_threads]
    coordinates = [c for i in infos for c in i.coordinates]
    only = names[0] if len(names) == 1 else ""
    block = proposed_block(source, only, min(bounds, default=0), coordinates)
    domain = DOMAINS[len(block) - 1]
    extents = {"domain": ",".join(map(str, domain)), "block": ",".join(map(str, block))}
    words += [word for key, text in extents.items() for word in (f"--{key}", text)]
    numbers = [
        f"{p.name}={start_value(p, domain)}"
        for p in (known[chosen[0]] if len(chosen) == 1 else ())
        if not (p.pointer or is_structure(p) or p.name in arguments_of(options))
    ]
    words += [word for number in numbers for word in ("--arg", number)]
    settings = {**vars(options), "device": name, **extents}
    settings |= {"arg": [*options.arg, *numbers], "proposed": shlex.join(words)}
    return argparse.Namespace(**settings)


def first_devices(infos: Sequence[KernelInfo], source: Path) -> Iterator[str]:
    """Yield the first shipped device of each architecture that the kernels were compiled for."""
    from perfassert.hardware.load import device_of

    archs = dict.fromkeys(i.arch.rstrip("af") for i in infos)
    known = [device for device in map(device_of, archs) if device is not None]
    if not known:
        raise LaunchError(f"{source} is for {', '.join(archs)}; give --device")
    yield from (device.name for device in known)
