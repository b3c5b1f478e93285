"""``perfassert whatif``: prediction of a launch before and after changes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfassert.cli.command import add_command
from perfassert.cli.launches import RequestedLaunch, add_work, work
from perfassert.cli.terminal import progress, say
from perfassert.cli.values import values
from perfassert.errors import GraphError, KernelError, LaunchError
from perfassert.kernel.launch import Launch
from perfassert.report.tables import Text, join

if TYPE_CHECKING:
    from perfassert.comparison.what_if import WhatIf

_OPTION = "--change"
_ARGUMENT = "args."


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "whatif", "predict a launch again with something changed",
        "Predicts a launch as it is and with changes of the device, the kernel or the launch, all "
        "at once, and prints what differs.",
        "saxpy.cu --device a100 --domain 1048576 --block 256 --arg n=1048576 "
        "--change dram_bandwidth=2",
        "matmul.cu --device a100 --grid 64,64 --block 16,16 --arg n=1024 --change registers=64 "
        "--change latency.shared=0.5",
        "--launches launches.toml --change block=128 --json",
    )  # fmt: skip
    add_work(parser)
    parser.add_argument(
        _OPTION, action="append", default=[], metavar="NAME=VALUE",
        help="a factor for a number of the device (clock_hz=0.5), for a latency (latency.dram=0.5; "
        "latency.imad=2,4 is issue and completion); another value of registers, shared_bytes, "
        "updates_per_thread, flops, ilp, block, grid, args.NAME (repeatable)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=_whatif)


def _whatif(options: argparse.Namespace) -> int:
    asked = work(options)
    if not options.change:
        raise LaunchError(f"{_OPTION} is missing; give what differs, as dram_bandwidth=2")
    results = []
    with progress("predictions") as bar:
        for number, requested in enumerate(asked):
            bar(number, len(asked), requested.label)
            results.append(_predict_both(requested, options.change))
    if options.json:
        data = [_to_dict(*pair) for pair in zip(asked, results, strict=True)]
        print(json.dumps({"launches": data} if options.launches is not None else data[0]))
    else:
        say(join(_describe_change(*pair) for pair in zip(asked, results, strict=True)))
    return 0


def _predict_both(requested: RequestedLaunch, texts: list[str]) -> WhatIf:
    from perfassert.comparison.what_if import whatif
    from perfassert.facade.session import predict

    before = predict(requested.kernel, requested.launch, requested.device)
    try:
        result = whatif(before, **changes_of(texts, requested.launch))
    except (KernelError, GraphError) as error:
        raise KernelError(f"{_OPTION}: {error}") from None
    return replace(result, changes=", ".join(texts))


def changes_of(texts: list[str], launch: Launch) -> dict[str, Any]:
    """Return changes for :func:`perfassert.whatif`; arguments not named keep their values."""
    from perfassert.kernel.graph import Latency

    changes = values((t for t in texts if not t.startswith(_ARGUMENT)), _OPTION)
    latency = changes.get("latency")
    if isinstance(latency, dict):
        pairs = {name: Latency(*v) for name, v in latency.items() if _is_pair(v)}
        changes["latency"] = {**latency, **pairs}
    arguments = [t.removeprefix(_ARGUMENT) for t in texts if t.startswith(_ARGUMENT)]
    if arguments:
        if not isinstance(launch.args, Mapping):
            raise LaunchError(f"{_OPTION} {_ARGUMENT}…: this launch has its arguments by position")
        changes["args"] = _merge(launch.args, values(arguments, _OPTION))
    return changes


def _merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the old arguments updated by the new values, also inside of structures."""
    merged = dict(old)
    for name, value in new.items():
        before = merged.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = {**before, **value}
        merged[name] = value
    return merged


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2


def _describe_change(requested: RequestedLaunch, result: WhatIf) -> Text:
    from perfassert.report.trust import confidence

    place = f"{requested.label}: " if requested.label else ""
    return join((f"{place}{result.table()}", confidence(result.after)))


def _to_dict(requested: RequestedLaunch, result: WhatIf) -> dict[str, Any]:
    data = result.to_dict()
    if not requested.label:
        return data
    return {"label": requested.label, "count": requested.count, **data}
