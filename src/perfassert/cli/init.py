"""``perfassert init``: a first test file for the kernels of a CUDA file or library."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.command import add_command
from perfassert.cli.proposals import first_devices
from perfassert.cli.sources import add_compilation, compilation_of
from perfassert.cli.terminal import progress
from perfassert.errors import KernelSourceError, LaunchError, PerfFileError, printable
from perfassert.frontends.cuda.proposals import (
    DOMAINS,
    choose_block,
    is_structure,
    start_value,
)
from perfassert.frontends.toolchain.names import short_name
from perfassert.source import CUDA_SUFFIXES
from perfassert.toml.text import format_string, format_value

if TYPE_CHECKING:
    from perfassert.frontends.cuda.inventory import KernelInfo
    from perfassert.frontends.cuda.written_launches import WrittenLaunch

_TOML = ".perf.toml"
_NAME_WIDTH = 60  # characters of a kernel's name that its test has
_FILL_IN = "fill in domain, block and arguments, then remove this line"


@dataclass(frozen=True, slots=True)
class TestedKernel:
    """Kernel to test: ``name`` selects it in its file, ``test`` is the name of its test.

    ``args``: numeric parameter → initial value. ``others``: structures, whose contents only the
    author knows. ``written``: the launch in the source that the block is taken from.
    """

    name: str
    test: str
    block: tuple[int, ...]
    args: dict[str, int | float]
    others: tuple[str, ...]
    written: str

    @property
    def domain(self) -> tuple[int, ...]:
        return DOMAINS[len(self.block) - 1]


@dataclass(frozen=True, slots=True)
class Plan:
    """Contents of the test file to write: source, front end, devices and kernels.

    ``source`` is the kernels' file as seen from the test file. ``kind`` is the front end.
    """

    source: str
    kind: str
    given: dict[str, Any]
    devices: tuple[str, ...]
    kernels: tuple[TestedKernel, ...]


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "init", "write a first test file for a CUDA file or library",
        "Writes a test for every kernel that it finds, with the launch left to fill in, or with "
        "the launches of a launches file. Nothing that exists is overwritten.",
        "kernels.cu --device a100", "libkernels.so --filter 'gemm*'",
    )  # fmt: skip
    parser.add_argument("source", type=Path, help=".cu, .ptx, cubin, object, library or program")
    parser.add_argument(
        "--device", action="append", default=[], metavar="NAME",
        help="to predict for (repeatable; default: one for each architecture of compiled code)",
    )  # fmt: skip
    parser.add_argument("--filter", default="*", metavar="GLOB", help="of names of kernels")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("test_perf.py"), metavar="FILE",
        help=f"default: test_perf.py; NAME{_TOML} for a test without Python",
    )  # fmt: skip
    add_compilation(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=_init)


def _init(options: argparse.Namespace) -> int:
    from perfassert.report.files import replace_file

    output: Path = options.output
    if output.exists() or output.is_symlink():
        raise PerfFileError(f"{output} is there already and is left alone; -o names another")
    is_toml = output.name.endswith(_TOML)
    if not is_toml and output.suffix != ".py":
        raise PerfFileError(f"{output}: name a .py file or a {_TOML} file")
    plan = _plan(options)
    replace_file(output, "\n".join(_toml(plan) if is_toml else _python(plan)) + "\n")
    if options.json:
        kernels = [k.name for k in plan.kernels]
        print(json.dumps({"file": str(output), "devices": plan.devices, "kernels": kernels}))
    else:
        count = f"{len(plan.kernels)} kernel{'s' * (len(plan.kernels) != 1)}"
        print(f"{output}: {count} on {', '.join(plan.devices)}")
        print(
            f"next: fill in domain, block and arguments in {output}, remove the lines that skip; "
            "then pytest --perf-update=new writes the baselines"
        )
    return 0


def _plan(options: argparse.Namespace) -> Plan:
    from perfassert.frontends.cuda.inventory import kernels, parameters, templates_alone
    from perfassert.frontends.cuda.written_launches import written_launches
    from perfassert.frontends.files import frontend_of
    from perfassert.frontends.toolchain.source_settings import check_source_file
    from perfassert.hardware.load import device

    source: Path = options.source
    check_source_file(source)
    named = [device(name) for name in options.device]
    given = compilation_of(options)
    if source.suffix in (*CUDA_SUFFIXES, ".ptx") and not named:
        raise LaunchError(f"{source} is compiled for a device: give --device, as in --device a100")
    with progress(f"kernels of {source}"):
        infos = kernels(source, named[0].arch if named else None, **given)
    if not infos:
        why = templates_alone(source, **given) or f"{source}: there is no kernel in it"
        raise KernelSourceError(why)
    chosen = {i.mangled: i for i in infos if fnmatchcase(i.name, options.filter)}
    if not chosen:
        names = ", ".join(sorted({i.name for i in infos}))
        raise KernelSourceError(f"{source}: no kernel is like {options.filter!r}; it has: {names}")
    devices = tuple(d.name for d in named) or tuple(first_devices(infos, source))
    arch = device(devices[0]).arch
    reader = frontend_of(str(source))
    with progress(f"parameters of the kernels in {source}"):
        known = parameters(source, arch, **given)
    suggestions = tuple(
        suggest_tests(
            list(chosen.values()), [known[mangled] for mangled in chosen], written_launches(source)
        )
    )
    shown = os.path.relpath(source, options.output.parent)
    if folders := given.get("include_dirs"):  # no path of this machine goes into the file
        seen_from = source.parent  # which from_cuda takes them from; tests without Python: theirs
        if options.output.name.endswith(_TOML):
            seen_from = options.output.parent
        given["include_dirs"] = [Path(os.path.relpath(f, seen_from)).as_posix() for f in folders]
    return Plan(Path(shown).as_posix(), reader.name, given, devices, suggestions)


def suggest_tests(
    infos: Sequence[KernelInfo],
    known: Sequence[Sequence[Any]],
    launches: Sequence[WrittenLaunch] = (),
) -> Iterator[TestedKernel]:
    """Yield a test for each kernel; overloads are distinguished by their mangled names.

    ``known`` are the parameters of each kernel, and ``launches`` those in the sources.
    """
    from perfassert.frontends.cuda.written_launches import launch_of

    names = [info.name for info in infos]
    taken: set[str] = set()
    for info, parameters in zip(infos, known, strict=True):
        base = re.sub(r"\W+", "_", short_name(info.name, _NAME_WIDTH)).strip("_") or "kernel"
        test = next(
            t for i in range(1, len(infos) + 2) if (t := _numbered_name(base, i)) not in taken
        )
        taken.add(test)
        plain = [p for p in parameters if not p.pointer]
        launch = launch_of(info.name, launches)
        block = choose_block(launch, info.max_threads, info.coordinates)
        domain = DOMAINS[len(block) - 1]
        args = {p.name: start_value(p, domain) for p in plain if not is_structure(p)}
        others = tuple(p.name for p in plain if is_structure(p))
        unique = names.count(info.name) == 1
        name = info.name if unique else info.mangled
        yield TestedKernel(name, test, block, args, others, str(launch or ""))


def _numbered_name(base: str, number: int) -> str:
    return base if number == 1 else f"{base}_{number}"


def _extent(size: tuple[int, ...]) -> str:
    return str(size if len(size) > 1 else size[0])


def _one_line(name: str) -> str:
    """Return a file's name escaped for a string or comment, without line ends."""
    return printable(name, lines=False).replace("\\", "\\\\").replace('"', '\\"')


def _python(plan: Plan) -> Iterator[str]:
    yield f'"""Predicted performance of the kernels in {_one_line(plan.source)}."""'
    yield ""
    yield "from pathlib import Path"
    yield ""
    yield "import pytest"
    yield ""
    yield "import perfassert as pa"
    yield ""
    yield f"SOURCE = Path(__file__).parent / {format_string(plan.source)}"
    yield f"pytestmark = pytest.mark.perf(devices=[{', '.join(map(format_string, plan.devices))}])"
    more = "".join(f", {key}={value!r}" for key, value in plan.given.items())
    for kernel in plan.kernels:
        yield ""
        yield ""
        # What nobody has filled in would pass or fail by chance; the author removes the mark.
        yield f"@pytest.mark.skip(reason={format_string(_FILL_IN)})"
        yield f"def test_{kernel.test}(perf: pa.Perf) -> None:"
        yield f"    kernel = pa.from_{plan.kind}(SOURCE, {format_string(kernel.name)}{more})"
        if kernel.others:
            yield f"    # structures to be given as well: {', '.join(kernel.others)}"
        if kernel.written:
            yield f"    # {_one_line(kernel.written)}"
        args = f", args={json.dumps(kernel.args)}" if kernel.args else ""
        sizes = f"domain={_extent(kernel.domain)}, block={_extent(kernel.block)}"
        yield f"    prediction = perf(kernel, {sizes}{args})"
        yield "    perf.no_regression(prediction)"


def _toml(plan: Plan) -> Iterator[str]:
    yield f"# Predicted performance of the kernels in {_one_line(plan.source)}."
    more = "".join(f", {key} = {format_value(value)}" for key, value in plan.given.items())
    for kernel in plan.kernels:
        yield ""
        yield "[[test]]"
        yield f"name = {format_string(kernel.test)}"
        yield f"devices = {format_value(plan.devices)}"
        source = (
            f"{plan.kind} = {format_string(plan.source)}, name = {format_string(kernel.name)}{more}"
        )
        yield f"kernel = {{ {source} }}"
        args = f", args = {format_value(kernel.args)}" if kernel.args else ""
        if kernel.written:
            yield f"# {_one_line(kernel.written)}"
        sizes = [format_value(s if len(s) > 1 else s[0]) for s in (kernel.domain, kernel.block)]
        yield f"launch = {{ domain = {sizes[0]}, block = {sizes[1]}{args} }}"
        if kernel.others:
            yield f"# structures to be given as well: {', '.join(kernel.others)}"
        yield 'baseline = { tolerance = "2 %" }'
        yield f"skip = {format_string(_FILL_IN)}"
