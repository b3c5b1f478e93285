"""``perfassert kernels``: every kernel of files and libraries, without a launch."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.command import add_command
from perfassert.cli.executors import positive
from perfassert.cli.sources import add_compilation, compilation_of
from perfassert.cli.terminal import Bar, progress, say
from perfassert.errors import KernelSourceError, LaunchError
from perfassert.report.tables import Text, join, table

if TYPE_CHECKING:
    from perfassert.frontends.cuda.inventory import KernelInfo
    from perfassert.hardware.model import Device

_DIGITS = 12  # of a digest in the table


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "kernels", "list the kernels of files and libraries",
        "Names, architectures, registers, shared memory and spills of every kernel in the files.",
        "libkernels.so", "kernels.cu --arch sm_90a --filter 'gemm*'",
    )  # fmt: skip
    parser.add_argument(
        "file", nargs="+", help="a cubin, object file, library, program, wheel, .cu, .ptx, folder, "
        "or compile_commands.json",
    )  # fmt: skip
    parser.add_argument("--arch", help="one architecture, as sm_90a; sources are compiled for it")
    parser.add_argument("--filter", default="*", metavar="GLOB", help="of names or mangled names")
    parser.add_argument(
        "--block", type=positive, metavar="THREADS", help="occupancy of such a block"
    )
    parser.add_argument("--device", help="whose occupancy; its architecture unless --arch is given")
    add_compilation(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=_kernels)


def _kernels(options: argparse.Namespace) -> int:
    from perfassert.hardware.load import device as load_device

    if options.block is not None and not options.device:
        raise LaunchError("--block needs --device: occupancy is of a device")
    device = load_device(options.device) if options.device else None
    arch = options.arch or (device.arch if device else None)
    given = compilation_of(options)
    pairs: list[tuple[str, KernelInfo]] = []
    for file in options.file:
        with progress(f"kernels of {file}") as bar:
            pairs += _kernels_of_path(Path(file), arch, given, bar)
    pairs = [(file, i) for file, i in pairs if _matches(i, options.filter)]
    kept = [i for _, i in pairs]
    shares = [_occupancy(i, options.block, device) for i in kept]
    if options.json:
        rows = [
            {**asdict(i), **({"occupancy": s} if options.block else {})}
            for i, s in zip(kept, shares, strict=True)
        ]
        print(json.dumps(rows))
    else:
        say(_kernel_table(kept, shares, options.block is not None, [file for file, _ in pairs]))
    return 0


def _kernels_of_path(
    path: Path, arch: str | None, given: Mapping[str, Any], bar: Bar
) -> Iterator[tuple[str, KernelInfo]]:
    """Yield each kernel with its file.

    A file that cannot be read is reported if there are others; alone it is an error.
    """
    from perfassert.comparison.sides import Reading, side

    read = side(path, Reading(arch=arch, compilation=given), progress=bar)
    left_out = (*read.broken.values(), *read.templates.values())
    if left_out and not read.kernels:
        raise KernelSourceError(read.why_empty)
    for why in left_out:
        print(f"perfassert: left out: {why}", file=sys.stderr)
    return ((placed.file or str(path), placed.info) for placed in read.kernels)


def _matches(info: KernelInfo, pattern: str) -> bool:
    return fnmatchcase(info.name, pattern) or fnmatchcase(info.mangled, pattern)


def _occupancy(info: KernelInfo, block: int | None, device: Device | None) -> float | None:
    """Return the occupancy of a block size on a device; ``None`` if unknown or no block fits."""
    from perfassert.comparison.weighing import occupancy_of

    return None if block is None or device is None else occupancy_of(info, block, device)


def _kernel_table(
    infos: Sequence[KernelInfo], shares: Sequence[float | None], block: bool, files: Sequence[str]
) -> Text:
    """Return the table of kernels; it shows ``files``, those of each, if there are several."""
    from perfassert.frontends.toolchain.labels import kernel_labels

    header = ["kernel", "arch", "registers", "spills", "stack", "shared", "barriers", "code", "mix",
              "digest", "control flow"]  # fmt: skip
    rows: list[list[object]] = []
    labels = kernel_labels([(file, i.mangled) for file, i in zip(files, infos, strict=True)])
    for label, i, share in zip(labels, infos, shares, strict=True):
        most = sorted(i.mix.items(), key=lambda item: (-item[1], item[0]))[:3]
        mix = ", ".join(f"{count} {name}" for name, count in most)
        rows.append(
            [label, i.arch, i.registers, f"{i.spill_bytes} B", f"{i.stack_bytes} B",
             f"{i.shared_bytes} B", i.barriers, f"{i.code_bytes} B", mix, i.digest[:_DIGITS],
             i.control_flow[:_DIGITS]]
        )  # fmt: skip
        if block:
            rows[-1].append("does not fit" if share is None else f"{share:.0%}")
    if block:
        header.append("occupancy")
    if len({*files}) > 1:
        header.insert(1, "file")
        for row, file in zip(rows, files, strict=True):
            row.insert(1, file)
    return join((table(header, rows), f"{len(infos)} kernel{'s' * (len(infos) != 1)}"))
