"""Worker that reads a report of Nsight Compute in a sandboxed process of its own.

The worker is a script, not a module of the package. It is started by path with ``python -I -S``. It
imports the standard library, and NVIDIA's ``ncu_report`` from a given folder. Request (JSON on
standard input): ``package`` (that folder), ``report`` (path), ``launch`` (number, or null).
Response (JSON on standard output): ``launches``, each with ``name``, ``mangled`` and ``metrics``
(name → value and unit); or, of one launch, ``metrics`` (names), ``instructions`` (address, SASS,
values in the order of the names), and ``outside`` (samples at other addresses).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from itertools import pairwise

TYPE_CHECKING = False  # as type checkers know it, without the module
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

SAMPLES = re.compile(r"smsp__pcsamp_warps_issue_stalled_\w+")
BY_INSTRUCTION = re.compile(
    rf"{SAMPLES.pattern}|inst_executed|thread_inst_executed(_true)?|(derived__)?memory_l[12]_\w+"
)
"""Metrics of a launch that have one value for each instruction."""
_WIDTH = 16  # bytes of an instruction, where no two have a value


def answer(context: Any, launch: int | None) -> dict[str, Any]:
    """Answer the request for an opened report: all launches, or the instructions of one."""
    actions = list(kernels(context))
    if launch is None:
        return {"launches": [describe(action) for action in actions]}
    return read_instructions(actions[launch])


def kernels(context: Any) -> Iterator[Any]:
    """Yield the results for launches of kernels; results for ranges and graphs are skipped."""
    for group in context:
        for action in group:
            if action.workload_type() == action.WorkloadType_KERNEL:
                yield action


def describe(action: Any) -> dict[str, Any]:
    """Return the names and the metrics of a launch."""
    metrics = {}
    for name in action:
        metric = action.metric_by_name(name)
        value = metric.value()
        if ":" not in name and isinstance(value, (str, int, float)):
            shown = clean(value) if isinstance(value, str) else value
            metrics[clean(name)] = [shown, clean(metric.unit())]
    return {
        "name": clean(action.name(action.NameBase_DEMANGLED)),
        "mangled": clean(action.name(action.NameBase_MANGLED)),
        "metrics": metrics,
    }


def clean(text: str | None) -> str:
    """Return text that can be encoded; names in a damaged report may not be valid Unicode."""
    return (text or "").encode("utf-8", "replace").decode("utf-8")


def read_instructions(action: Any) -> dict[str, Any]:
    """Return the instructions of a kernel with the metrics that are counted per instruction."""
    columns = {name: by_address(action, name) for name in action if BY_INSTRUCTION.fullmatch(name)}
    valued = sorted({address for column in columns.values() for address in column})
    width = min((after - before for before, after in pairwise(valued)), default=_WIDTH)
    functions = [list(disassemble(action, start, width)) for start in starts(action, valued)]
    code = next(filter(ends_launch, functions), functions[0] if functions else [])
    addresses = {address for address, _ in code}
    outside = sum(
        number
        for name, column in columns.items()
        if SAMPLES.fullmatch(name) and not name.endswith("_not_issued")
        for address, number in column.items()
        if address not in addresses
    )
    rows = [[a, text, [column.get(a, 0) for column in columns.values()]] for a, text in code]
    return {"metrics": list(columns), "instructions": rows, "outside": outside}


def by_address(action: Any, name: str) -> dict[int, float]:
    """Return the values of a metric, by the address of the instruction."""
    metric = action.metric_by_name(name)
    if not metric.num_instances() or not metric.has_correlation_ids():
        return {}
    places = metric.correlation_ids()
    return {
        places.as_uint64(number): metric.value(number) for number in range(metric.num_instances())
    }


def starts(action: Any, valued: list[int]) -> list[int]:
    """Return the first addresses of the functions: the kernel's and those of its callees."""
    functions = action.metric_by_name("launch__function_pcs")
    if functions is not None and functions.num_instances():
        return [functions.as_uint64(number) for number in range(functions.num_instances())]
    return valued[:1]


def ends_launch(code: list[tuple[int, str]]) -> bool:
    """Return True for the code of a kernel: its threads exit, while a callee returns."""
    return any("EXIT" in text.split() for _, text in code)


def disassemble(action: Any, address: int, width: int) -> Iterator[tuple[int, str]]:
    """Yield address and SASS of each instruction to the end of the function."""
    while text := action.sass_by_pc(address):
        yield address, clean(text).strip()
        address += width


def load(folder: str) -> Any:
    """Import NVIDIA's module from its folder; nothing else in that folder becomes importable."""
    place = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(
        "ncu_report", place, submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ncu_report"] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    request = json.load(sys.stdin)
    context = load(request["package"]).load_report(request["report"])
    json.dump(answer(context, request["launch"]), sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # without taking the library apart
