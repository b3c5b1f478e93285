"""``perfassert explain``: memory accesses of compiled code, and values that stay unknown."""

from __future__ import annotations

import argparse
import json
from typing import Any

from perfassert.cli.command import add_command
from perfassert.cli.sources import add_launch, add_source, kernel_of, launch_of
from perfassert.cli.terminal import say
from perfassert.errors import KernelError
from perfassert.report.tables import join


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "explain", "show what compiled code does, line by line",
        "For each line of the source: its instructions, loops with their trip counts, and memory "
        "accesses with address expressions.",
        "stencil.cu --device a100",
        "stencil.cu --device a100 --grid 64 --block 256 --arg n=1000 --sass",
    )  # fmt: skip
    add_source(parser)
    add_launch(parser)
    parser.add_argument("--sass", action="store_true", help="the listing with control codes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=_explain)


def _explain(options: argparse.Namespace) -> int:
    from perfassert.facade.session import predict
    from perfassert.frontends.cuda.kernels import CompiledCode
    from perfassert.hardware.load import device as load_device
    from perfassert.predictor.access_costs import access_costs
    from perfassert.report import explain

    kernel, device, launch = kernel_of(options), load_device(options.device), launch_of(options)
    code = kernel.compiled
    if not isinstance(code, CompiledCode):
        raise KernelError(f"kernel {kernel.name!r}: explain shows compiled code, and it has none")
    program = code.program(device.arch)
    costs, assumptions, issued = access_costs(kernel, launch, device) if launch else ({}, (), {})
    prediction = predict(kernel, launch, device) if launch else None
    if options.json:
        data = explain.to_dict(kernel.name, program, costs, assumptions, prediction, issued)
        print(json.dumps(data))
        return 0
    say(explain.text(kernel.name, program, costs, assumptions, prediction, issued))
    if options.sass:
        say(join(("\n", explain.listing(program)), ""))
    return 0
