"""Tools for programs behind ``perfassert serve`` and ``perfassert mcp``, one function each.

A tool takes plain data, returns plain data, and raises the error that the command of the same name
prints. Results are short by default and hold what decides; ``details=True`` returns everything.
Kernels stay compiled between questions. A tool refuses files outside of the folder that
:func:`confine` names, and every compiler option that a file may not ask for. No text of a client
becomes a command line.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from perfassert.errors import Interface, KernelSourceError, LaunchError, PerfAssertError, in_short
from perfassert.facade.prediction import Prediction
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Launch, member_key
from perfassert.system.confined import FOLDER, confining, outside
from perfassert.system.python_children import isolate_imports

Extent = Union[int, list[int]]
"""Up to three numbers, x first."""
_FIRST = 3
"""Most items of a list in a short result."""


def confine() -> Path:
    """Serve only what lies below the working directory, or below a folder in it that
    ``PERFASSERT_CONFINED`` names already, and import nothing from there; return that folder."""
    here, named = Path.cwd().resolve(), confining()
    within = named if named is not None and named.is_relative_to(here) else here
    os.environ[FOLDER] = str(within)
    isolate_imports()
    return within


def devices(name: str = "", details: bool = False) -> dict[str, Any]:
    """Names of all GPUs that are known, or what is known of the GPU `name`; `details`: every value
    with source and grade."""
    from perfassert.hardware.load import device as load_device
    from perfassert.hardware.load import devices as all_devices

    if not name:
        return {"devices": list(all_devices())}
    device = load_device(_device(name))
    values = device.values()
    if not details:
        return {"name": device.name, "arch": device.arch, "values": values}
    origins = {
        key: {"value": value, "source": origin.source, "grade": origin.grade.value}
        for key, value in values.items()
        for origin in (device.provenance[f"values.{key}"],)
    }
    return {"name": device.name, "arch": device.arch, "values": origins}


def kernels(
    source: str,
    arch: str = "",
    device: str = "",
    defines: dict[str, Any] | None = None,
    options: list[str] | None = None,
    include_dirs: list[str] | None = None,
    details: bool = False,
) -> dict[str, Any]:
    """Kernels of a file (.cu, .ptx, cubin, object, library): registers, spills, shared memory;
    `details`: instructions by class and digests, too."""
    from dataclasses import asdict

    from perfassert.frontends.cuda.inventory import kernels as inventory
    from perfassert.hardware.load import device as load_device

    chosen = arch or (load_device(_device(device)).arch if device else None)
    path = _inside(source)
    given = _compilation(path, defines, options, include_dirs)
    infos = [asdict(info) for info in inventory(path, chosen, **given)]
    short = ("name", "arch", "registers", "spill_bytes", "shared_bytes", "barriers")
    return {"kernels": infos if details else [{k: i[k] for k in short} for i in infos]}


def predict(
    source: str,
    device: str,
    grid: Extent,
    block: Extent,
    kernel: str = "",
    args: dict[str, Any] | None = None,
    defines: dict[str, Any] | None = None,
    assume: dict[str, str] | None = None,
    options: list[str] | None = None,
    include_dirs: list[str] | None = None,
    shared_bytes: int = 0,
    measured: str = "",
    details: bool = False,
) -> dict[str, Any]:
    """Predicted time of one launch on a GPU that need not be there, what limits it, how far it is
    from the speed of light, and how sure that is. Times in seconds. `grid`, `block`: numbers of
    blocks and of threads, x first. `args`: kernel parameters by name. `assume`: what data that
    decides is taken to be. `measured`: a time such as "12.3 us", to be judged. `details`: all."""
    from perfassert.report.plausibility import judge_measured, to_dict

    made = _prediction(
        source, device, grid, block, kernel, args, defines, assume, options, include_dirs,
        shared_bytes,
    )  # fmt: skip
    result = made.to_dict(diagnosis=False) if details else _short(made)
    return result | ({"measured": to_dict(judge_measured(made, measured))} if measured else {})


def explain(
    source: str,
    device: str,
    kernel: str = "",
    grid: Extent | None = None,
    block: Extent | None = None,
    args: dict[str, Any] | None = None,
    defines: dict[str, Any] | None = None,
    assume: dict[str, str] | None = None,
    options: list[str] | None = None,
    include_dirs: list[str] | None = None,
    shared_bytes: int = 0,
    details: bool = False,
) -> dict[str, Any]:
    """What compiled code does, by source line: instructions, accesses with their addresses, loops
    with trip counts, and what could not be found out. With a launch: wavefronts and sectors.
    `details`: all lines rather than those that touch memory."""
    from perfassert.frontends.cuda.kernels import CompiledCode
    from perfassert.hardware.load import device as load_device
    from perfassert.predictor.access_costs import access_costs
    from perfassert.report.explain import to_dict

    code = _kernel(source, kernel, defines, assume, options, include_dirs)
    target = load_device(_device(device))
    compiled = code.compiled
    if not isinstance(compiled, CompiledCode):
        raise KernelSourceError(f"{source}: explain shows compiled code, and it has none")
    costs: tuple[Any, Any, Any] = ({}, (), {})
    if grid is not None and block is not None:
        costs = access_costs(code, _launch(grid, block, args, shared_bytes), target)
    program = compiled.program(target.arch)
    data = to_dict(code.name, program, costs[0], costs[1], None, costs[2])
    if not details:
        data["lines"] = [x for x in data["lines"] if x["accesses"] or x["unresolved"]]
    return data


def advise(
    source: str,
    device: str,
    grid: Extent,
    block: Extent,
    kernel: str = "",
    args: dict[str, Any] | None = None,
    defines: dict[str, Any] | None = None,
    assume: dict[str, str] | None = None,
    options: list[str] | None = None,
    include_dirs: list[str] | None = None,
    shared_bytes: int = 0,
    details: bool = False,
) -> dict[str, Any]:
    """Which changes of the kernel or launch would make it faster, by simulation, and where its
    warps wait. `details`: all suggestions with all hotspots."""
    from perfassert.report.advice import to_dict

    made = _prediction(
        source, device, grid, block, kernel, args, defines, assume, options, include_dirs,
        shared_bytes,
    )  # fmt: skip
    data = to_dict(made, made.advice or (), "simulation")
    if details:
        return data
    stalls = sorted(data["stalls"].items(), key=lambda item: -item[1])
    advice = [
        {key: a[key] for key in ("optimizer", "speedup", "suggestion")}
        | {"at": [h["def"] for h in a["hotspots"][:_FIRST]]}
        for a in data["advice"][:_FIRST]
    ]
    return _short(made) | {"stalls": dict(stalls[:_FIRST]), "advice": advice}


def whatif(
    source: str,
    device: str,
    grid: Extent,
    block: Extent,
    changes: dict[str, Any],
    kernel: str = "",
    args: dict[str, Any] | None = None,
    defines: dict[str, Any] | None = None,
    assume: dict[str, str] | None = None,
    options: list[str] | None = None,
    include_dirs: list[str] | None = None,
    shared_bytes: int = 0,
    details: bool = False,
) -> dict[str, Any]:
    """The launch predicted again with `changes`: `{"registers": 32}`, `{"block": [32, 8]}`, factors
    of the GPU's values (`{"dram_bandwidth": 2}`) or of latencies (`{"latency": {"fma": 0.5}}`)."""
    from perfassert.facade.session import predict as predict_launch
    from perfassert.predictor.rewrites.whatif import with_changes

    before = _prediction(
        source, device, grid, block, kernel, args, defines, assume, options, include_dirs,
        shared_bytes,
    )  # fmt: skip
    after = predict_launch(*with_changes(before, changes))
    both = [p.to_dict(diagnosis=False) if details else _short(p) for p in (before, after)]
    return {
        "speedup": float(before.time) / float(after.time), "before": both[0], "after": both[1],
    }  # fmt: skip


def rank(
    source: str,
    device: str,
    domain: Extent,
    blocks: list[Extent] | None = None,
    threads: int = 0,
    kernel: str = "",
    args: dict[str, Any] | None = None,
    defines: dict[str, Any] | None = None,
    assume: dict[str, str] | None = None,
    options: list[str] | None = None,
    include_dirs: list[str] | None = None,
    shared_bytes: int = 0,
    details: bool = False,
) -> dict[str, Any]:
    """Block shapes over one `domain` of threads, fastest first: `blocks`, or every shape of so many
    `threads`. `best_is_faster`: how likely the best is faster; `tied`: not likely enough.
    `details`: all of them."""
    from perfassert.cli.rank import Tried, make_ranking, ranking_data, shapes
    from perfassert.facade.session import predict as predict_launch
    from perfassert.hardware.load import device as load_device
    from perfassert.kernel.launch import extent

    target = load_device(_device(device))
    code = _kernel(source, kernel, defines, assume, options, include_dirs)
    size = extent("domain", _extent(domain))
    asked = [extent("block", _extent(b)) for b in blocks or ()] or [*shapes(threads, size, target)]
    tried = []
    for shape in dict.fromkeys(asked):
        try:
            launch = Launch.cover(size, shape, _arguments(args), shared_bytes)
            data, why = predict_launch(code, launch, target).to_dict(diagnosis=False), ""
        except LaunchError as error:
            data, why = None, error.text_for(Interface.TOOL)
        tried.append(Tried(shape, data, why))
    refused = {t.block: t.error for t in tried if t.error}
    if len(refused) == len(tried):
        raise LaunchError(next(iter(refused.values()), "there is no block to rank; give blocks"))
    return ranking_data(make_ranking(tried), refused, None if details else _FIRST)


def compare(base: str, head: str, tolerance: str = "2 %", details: bool = False) -> dict[str, Any]:
    """What is faster and slower in the second of two JSON files of predictions or reports."""
    from perfassert.comparison import text
    from perfassert.comparison.compare import compare as compare_files
    from perfassert.comparison.compare import time_tolerance
    from perfassert.comparison.read import read

    sides = read(_inside(base)), read(_inside(head))
    comparison = compare_files(*sides, time_tolerance(tolerance))
    return text.to_dict(comparison) if details else {"text": str(text.text(comparison))}


def diff(
    base: str,
    head: str,
    arch: str = "",
    device: str = "",
    defines: dict[str, Any] | None = None,
    options: list[str] | None = None,
    include_dirs: list[str] | None = None,
    details: bool = False,
) -> dict[str, Any]:
    """What differs between the kernels of two files or folders: instructions, registers, spills,
    shared memory, occupancy on `device`."""
    from perfassert.comparison import kernel_text
    from perfassert.comparison.kernel_changes import diff as diff_sides
    from perfassert.comparison.limits import parse
    from perfassert.comparison.sides import Reading, sides, without_host_code
    from perfassert.hardware.load import device as load_device

    target = load_device(_device(device)) if device else None
    chosen = arch or (target.arch if target else None)
    paths = _inside(base), _inside(head)
    reading = Reading((), chosen, _compilation(paths[1], defines, options, include_dirs))
    compared = without_host_code(*sides(paths, reading))
    result = diff_sides(*compared, parse("spill_bytes +0").without_launches(), (256,), target)
    if details:
        return kernel_text.to_dict(result)
    return {"text": str(kernel_text.text(result))}


TOOLS: Mapping[str, Callable[..., dict[str, Any]]] = {
    tool.__name__: tool
    for tool in (kernels, predict, explain, advise, whatif, rank, compare, diff, devices)
}
"""Tools by name."""


def _short(prediction: Prediction) -> dict[str, Any]:
    """Return the deciding values of a prediction, under the keys of the whole prediction."""
    data = prediction.to_dict(diagnosis=False)
    kept = ("kernel", "device", "time", "speed_of_light", "headroom", "limiter", "confidence")
    bounds = sorted(data["bounds"].items(), key=lambda item: -item[1])[:_FIRST]
    band, resources = data["error_bands"]["time"], data["resources"]
    assumed = [*prediction.confidence_reasons, *prediction.assumptions]
    return {
        **{key: data[key] for key in kept},
        "error_bands": {"time": {"error": band["error"], "band": band["band"]}},
        "bounds": dict(bounds),
        "occupancy": {key: data["occupancy"][key] for key in ("fraction", "limited_by")},
        "resources": {key: resources[key] for key in ("registers", "spill_bytes")},
        "dram_bytes": sum(float(data["volumes"][f"dram_{way}"]["total"]) for way in _WAYS),
        "assumptions": [str(a) for a in assumed[:_FIRST]],
    }


_WAYS = ("load", "store")


def _prediction(
    source: str,
    device: str,
    grid: Extent,
    block: Extent,
    kernel: str,
    args: Mapping[str, Any] | None,
    defines: Mapping[str, Any] | None,
    assume: Mapping[str, str] | None,
    options: Sequence[str] | None,
    include_dirs: Sequence[str] | None,
    shared_bytes: int,
) -> Prediction:
    from perfassert.facade.session import predict as predict_launch
    from perfassert.hardware.load import device as load_device

    code = _kernel(source, kernel, defines, assume, options, include_dirs)
    launch = _launch(grid, block, args, shared_bytes)
    return predict_launch(code, launch, load_device(_device(device)))


def _kernel(
    source: str,
    kernel: str,
    defines: Mapping[str, Any] | None,
    assume: Mapping[str, str] | None,
    options: Sequence[str] | None,
    include_dirs: Sequence[str] | None,
) -> Kernel:
    """Return the kernel of a file; its compiled code is reused until the file changes."""
    from perfassert.cli.sources import kernel_of

    path = _inside(source)
    asked = argparse.Namespace(
        source=str(path), kernel=kernel or None, toolchain=None, arch=None,
        define=[f"{name}={value}" for name, value in _macros(defines).items()],
        include_dir=[str(_inside(folder)) for folder in include_dirs or ()],
        option=_options(path, options), trip_count=[], proxy=[], constant=[],
        assume=[f"{name}={value}" for name, value in (assume or {}).items()],
    )  # fmt: skip
    return kernel_of(asked)


def _compilation(
    path: Path,
    defines: Mapping[str, Any] | None,
    options: Sequence[str] | None,
    include_dirs: Sequence[str] | None,
) -> dict[str, Any]:
    settings = {
        "defines": _macros(defines),
        "include_dirs": [str(_inside(folder)) for folder in include_dirs or ()],
        "options": _options(path, options),
    }
    return {key: value for key, value in settings.items() if value}


def _macros(defines: Mapping[str, Any] | None) -> dict[str, Any]:
    for name in defines or ():
        if re.fullmatch(r"[A-Za-z_]\w*", name) is None:
            raise KernelSourceError(f"defines: {name!r} is no name of a macro")
    return dict(defines or {})


def _options(path: Path, options: Sequence[str] | None) -> list[str]:
    """Options that a file may ask for, too, with folders that are served."""
    from perfassert.frontends.toolchain.binary import Source
    from perfassert.frontends.toolchain.options import check_of_file, search_dirs

    asked = Source(path, "cuda", options=tuple(options or ()))
    check_of_file(asked)
    for folder in search_dirs(asked):
        _inside(str(folder))
    return list(asked.options)


def _launch(
    grid: Extent, block: Extent, args: Mapping[str, Any] | None, shared_bytes: int
) -> Launch:
    return Launch(_extent(grid), _extent(block), _arguments(args), shared_bytes)


def _extent(value: Extent) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def _arguments(args: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return numbers unchanged, and text as ``--arg`` reads it."""
    from perfassert.cli.values import value

    def read(name: str, given: Any) -> Any:
        if isinstance(given, str):
            if given.startswith("@"):
                _inside(given[1:])
            return value(given, f"args {name}")
        if isinstance(given, dict):
            return {
                member_key(member): read(f"{name}.{member}", own) for member, own in given.items()
            }
        return given

    return {name: read(name, given) for name, given in (args or {}).items()}


def _device(name: str) -> str:
    """Return a device's name or alias, or a device file that may be read."""
    return str(_inside(name)) if os.sep in name or name.endswith(".toml") else name


def _inside(path: str) -> Path:
    """Return the path relative to the working directory; links count as their targets."""
    try:
        impossible = b"\0" in os.fsencode(path)
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell
        impossible = True
    if impossible:
        raise PerfAssertError(f"{in_short(path)} is the name of no file")
    if reason := outside(Path(path)):
        raise PerfAssertError(reason)
    return Path(path)
