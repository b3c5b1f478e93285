"""How far the kernels of a folder of CUDA programs come as they are, and where they are lost.

``python benchmarks/funnel.py FOLDER [--arch sm_80] [--device A100-SXM4-40GB] [--limit KERNELS]``

A program is a folder with .cu files; a file that another one includes is part of that one. Include
folders are the file's own and those above it; flags of a build system are not known. Launch and
arguments are stand-ins, so the predictions are to exist, not to be right. Each file and each
kernel has a process with a time limit of its own: what it does not survive is counted.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import perfassert as pa
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import prepared
from perfassert.frontends.toolchain.names import base_name
from perfassert.frontends.toolchain.signature import global_functions

GRID, BLOCK, INTEGER, REAL = 1024, 256, 1024, 1.0
PATIENCE = 60.0  # seconds; what takes longer counts as a hang
STAGES = ("described", "bound", "predicted")
_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+\.cu)"', re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", default="sm_80", help="what files are compiled for")
    parser.add_argument("--device", default="A100-SXM4-40GB", help="what is predicted on")
    parser.add_argument("--limit", type=int, help="kernels to predict of each program")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--rows", type=Path, help="file for what came of each step, as JSON")
    parser.add_argument("--step", nargs=2, metavar=("FILE", "KERNEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        step(options, Path(options.step[0]), options.step[1])
        return
    begin = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = [r for rs in pool.map(lambda p: program(options, p), programs(options)) for r in rs]
    if options.rows:
        options.rows.write_text(json.dumps(rows, indent=1))
    report(rows, time.monotonic() - begin)


def programs(options: argparse.Namespace) -> list[list[Path]]:
    """The files of each program."""
    found: dict[Path, list[Path]] = {}
    for path in sorted(options.folder.rglob("*.cu")):
        found.setdefault(path.parent, []).append(path)
    return [units for files in found.values() if (units := _units(files))]


def _units(files: list[Path]) -> list[Path]:
    """Without those that others include."""
    parts = {
        (path.parent / name).resolve()
        for path in files
        for name in _INCLUDED.findall(path.read_text(errors="replace"))
        if name != path.name
    }
    return [path for path in files if path.resolve() not in parts]


def program(options: argparse.Namespace, files: list[Path]) -> list[dict[str, Any]]:
    """What came of its files and of its first kernels."""
    rows = []
    for path in files:
        rows.append(row := started(options, path, ""))
        tried = sum(r["kernel"] != "" for r in rows)
        left = None if options.limit is None else options.limit - tried
        for kernel in row.get("kernels", [])[:left]:
            rows.append(started(options, path, kernel))
    print(".", end="", flush=True, file=sys.stderr)
    return rows


def started(options: argparse.Namespace, path: Path, kernel: str) -> dict[str, Any]:
    """The last words of a process for this step."""
    begin = time.monotonic()
    given = [str(options.folder), "--arch", options.arch, "--device", options.device]
    process = subprocess.Popen(
        [sys.executable, __file__, *given, "--step", str(path), kernel],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
    )  # fmt: skip
    with process:
        try:
            said, broke = process.communicate(timeout=PATIENCE)
            end = {} if process.returncode == 0 else {"traceback": broke[-2000:]}
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # so that it ends its tools
            said = _ended(process)
            end = {"hang": True}
    row: dict[str, Any] = {"path": str(path), "kernel": kernel}
    for line in said.splitlines():
        row |= json.loads(line)
    return {**row, **end, "seconds": time.monotonic() - begin}


def _ended(process: subprocess.Popen[str]) -> str:
    """What was said by a process that has had its notice."""
    try:
        return process.communicate(timeout=5.0)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def step(options: argparse.Namespace, path: Path, kernel: str) -> None:
    """List a file's kernels, or predict one of them; one line of JSON for each stage."""
    folders = [p for p in path.parents if p.is_relative_to(options.folder)]
    try:
        for reached in (
            predicted(options, path, kernel, folders) if kernel else listed(options, path, folders)
        ):
            print(json.dumps(reached), flush=True)
    except pa.PerfAssertError as error:
        print(json.dumps({"lost": cause(error)}))


def listed(
    options: argparse.Namespace, path: Path, folders: list[Path]
) -> Iterator[dict[str, Any]]:
    source = Source(path, "cuda", None, {}, tuple(map(str, folders)))
    texts = prepared(source, options.arch).texts()
    yield {"written": sorted({n for text in texts for n, _ in global_functions(text)})}
    found = pa.kernels(path, options.arch, include_dirs=[str(f) for f in folders])
    yield {"kernels": [k.mangled for k in found], "names": [base_name(k.name) for k in found]}


def predicted(
    options: argparse.Namespace, path: Path, kernel: str, folders: list[Path]
) -> Iterator[dict[str, Any]]:
    device = pa.device(options.device)
    code = pa.from_cuda(path, kernel, include_dirs=folders)
    parameters = code.compiled.program(device.arch).parameters
    yield {"described": True}
    launch = pa.Launch(GRID, BLOCK, {p.name: v for p in parameters if (v := stand_in(p))})
    code.bind(launch, device.arch, device.warp_size)
    yield {"bound": True}
    yield {"predicted": True, "confidence": pa.predict(code, launch, device).confidence}


def stand_in(parameter: Any) -> float | None:
    """Nothing for pointers, which need not be given, and for structures."""
    if parameter.pointer or parameter.size > 8 or parameter.members:
        return None
    if any(word in (parameter.dtype or "") for word in ("float", "double", "half")):
        return REAL
    return INTEGER if parameter.size > 1 else 1


def cause(error: Exception) -> str:
    """What is said first, without place, names and numbers; a file that is missing keeps its."""
    said = str(error).strip().splitlines()[0]
    said = re.sub(r"^(?:\S*[./]\S*: )+", "", said)
    if "file" not in said:
        said = re.sub(r"'[^']*'|\"[^\"]*\"", "…", said)
    return re.sub(r"\d+", "#", re.sub(r"[^\s'\"]*/", "", said))[:110]


def report(rows: list[dict[str, Any]], seconds: float) -> None:
    files, kernels = ([r for r in rows if bool(r["kernel"]) is tried] for tried in (False, True))
    compiled = [r for r in files if "kernels" in r]
    folders, lost = (
        {Path(r["path"]).parent for r in some}
        for some in (files, [r for r in files if "kernels" not in r])
    )
    written, kept = (sum(len(r.get("written", ())) for r in some) for some in (files, compiled))
    print(f"\n{len(folders)} programs, {len(folders - lost)} compile")
    print(f"{len(files)} files, {len(compiled)} compile")
    print(
        f"{written} kernels in sources, {kept} in files that compile ({kept / written:.1%}); ",
        end="",
    )
    print(f"{sum(map(unused, compiled))} of these have no code: templates without use")
    print(f"{sum(len(r['kernels']) for r in compiled)} kernels in code, {len(kernels)} tried")
    for stage in STAGES:
        print(f"  {sum(stage in r for r in kernels):4} {stage}")
    counted("confidence", [r["confidence"] for r in kernels if "confidence" in r])
    counted("files lost", [r["lost"] for r in files if "lost" in r])
    counted("kernels lost", [r["lost"] for r in kernels if "lost" in r])
    counted("hangs", [f"{r['path']} {r['kernel']}" for r in rows if "hang" in r])
    broken = [r for r in rows if "traceback" in r]
    counted("tracebacks", [f"{r['path']} {r['kernel']}\n{r['traceback']}" for r in broken])
    slowest = max(rows, key=lambda r: r["seconds"])
    print(f"{seconds:.0f} s, the slowest step {slowest['seconds']:.1f} s: {slowest['path']}")


def unused(row: dict[str, Any]) -> int:
    """How many of the kernels written have no code: templates, text that is left out."""
    return sum(name.rpartition("::")[2] not in row["names"] for name in row["written"])


def counted(title: str, values: list[str]) -> None:
    print(f"{title}: {len(values)}")
    for value, count in Counter(values).most_common():
        print(f"  {count:4} {value}")


if __name__ == "__main__":
    main()
