"""Stages that the kernels of a folder of CUDA programs reach unchanged, and causes of losses.

``python benchmarks/funnel.py FOLDER [--make] [--programs '*-cuda'] [--sample 120] [--limit 3]``

A program is a folder with .cu files; a file that another one includes is part of that one. Include
folders are the file's own and those above it; with ``--make`` macros, include folders and language
options are those of the commands that the program's Makefile would run (``make -n``), as those of a
``compile_commands.json`` are. Launch and arguments are assumed values, so that the existence of
predictions is checked, not their values. Templates that no text instantiates are requested by name,
with assumed arguments. Each file and each kernel has a process with a time limit; crashes and
timeouts are counted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import perfassert as pa
from perfassert.frontends.cuda.compile_commands import device_options, words_in
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import prepare
from perfassert.frontends.toolchain.names import base_name
from perfassert.frontends.toolchain.signature import global_functions

A, B = TypeVar("A"), TypeVar("B")
GRID, BLOCK, INTEGER, REAL = 1024, 256, 1024, 1.0
INSTANCES = 3  # templates of a file that are asked for by name
PATIENCE = 60.0  # seconds, of CPU or of the clock; what takes longer counts as a hang
STAGES = ("described", "bound", "predicted")
STAND_INS = {"typename": "float", "class": "float", "bool": "true", "char": "'c'"}
"""Of template parameters; numbers are 32."""
_ENTERS = re.compile(r"^make.*: Entering directory '([^']+)'$")
_TEMPLATE = re.compile(
    r"\btemplate\s*<([^<>]*)>\s*(?:static\s+|inline\s+)*__global__[^;{]*?\b(\w+)\s*\("
)
_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+\.cu)"', re.MULTILINE)


def make_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of the choice of programs, their compilation and the device."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=lambda text: Path(text).resolve())
    parser.add_argument("--programs", default="*", help="glob of the folders in it to look at")
    parser.add_argument("--sample", type=int, help="that many of them, as a hash of the name says")
    parser.add_argument("--make", action="store_true", help="options as their Makefiles have them")
    parser.add_argument("--arch", default="sm_80", help="what files are compiled for")
    parser.add_argument("--device", default="A100-SXM4-40GB", help="what is predicted on")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds for a step")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--rows", type=Path, help="file for what came of each step, as JSON")
    parser.add_argument("--step", nargs=2, metavar=("FILE", "KERNEL"), help=argparse.SUPPRESS)
    return parser


def main() -> None:
    parser = make_parser(__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, help="kernels to predict of each program")
    options = parser.parse_args()
    if options.step:
        step(options, Path(options.step[0]), options.step[1])
        return
    begin = time.monotonic()
    rows = [r for rs in each(options, lambda p: program(options, p), programs(options)) for r in rs]
    if options.rows:
        options.rows.write_text(json.dumps(rows, indent=1))
    report(rows, time.monotonic() - begin)


def each(options: argparse.Namespace, work: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """Return the results of ``work`` for all items, ``--jobs`` at a time."""
    with ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(work, items))


def programs(options: argparse.Namespace) -> list[list[Path]]:
    """Return the files of each program."""
    sources: dict[Path, list[Path]] = {}
    for path in (p for folder in _folders(options) for p in sorted(folder.rglob("*.cu"))):
        sources.setdefault(path.parent, []).append(path)
    return [units for files in sources.values() if (units := _units(files))]


def _folders(options: argparse.Namespace) -> list[Path]:
    folders = [
        p for p in options.folder.glob(options.programs) if p.is_dir() and any(p.rglob("*.cu"))
    ]
    folders.sort(key=lambda p: hashlib.sha256(p.name.encode()).hexdigest())
    return sorted(folders[: options.sample])


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
    """Return the results of a program's files and of its first kernels."""
    rows = []
    for path in files:
        rows.append(row := run_step(options, path, ""))
        tried = sum(r["kernel"] != "" for r in rows)
        left = None if options.limit is None else options.limit - tried
        for kernel in row.get("kernels", [])[:left]:
            rows.append(run_step(options, path, kernel))
    print(".", end="", flush=True, file=sys.stderr)
    return rows


def run_step(
    options: argparse.Namespace, path: Path, kernel: str, script: str = __file__
) -> dict[str, Any]:
    """The last words of a process of a script for this step."""
    begin = time.monotonic()
    given = [str(options.folder), "--arch", options.arch, "--device", options.device]
    given += ["--make"] if options.make else []
    process = subprocess.Popen(
        [sys.executable, script, *given, "--step", str(path), kernel],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
    )  # fmt: skip
    with process:
        try:
            output, broke = process.communicate(timeout=options.patience)
            end = {} if process.returncode == 0 else {"traceback": broke[-2000:]}
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # so that it ends its tools
            output = _last_words(process)
            end = {"hang": True}
    row: dict[str, Any] = {"path": str(path), "kernel": kernel}
    for line in output.splitlines():
        row |= json.loads(line)
    late = {"hang": True} if row.get("cpu", 0.0) > PATIENCE else {}
    return {**row, **end, **late, "seconds": time.monotonic() - begin}


def _last_words(process: subprocess.Popen[str]) -> str:
    """Return the output of a process that was asked to end; kill it if it does not."""
    try:
        return process.communicate(timeout=5.0)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def step(options: argparse.Namespace, path: Path, kernel: str) -> None:
    """List a file's kernels, or predict one of them; one line of JSON for each stage."""
    given = how(options, path)
    try:
        for reached in (
            predict_kernel(options, path, kernel, given)
            if kernel
            else list_kernels(options, path, given)
        ):
            print(json.dumps(reached), flush=True)
    except pa.PerfAssertError as error:
        print(json.dumps({"lost": cause(error)}))
    finally:
        print(json.dumps({"cpu": spent()}), flush=True)


def spent() -> float:
    """Seconds of CPU, tools included."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


def how(options: argparse.Namespace, path: Path) -> dict[str, Any]:
    """Options and include folders of a file."""
    within = [p for p in path.parents if p.is_relative_to(options.folder)]
    if options.make:
        for folder in within:
            if compiled := commands(folder):
                words = next((w for w in compiled if str(path) in w), compiled[0])
                kept = device_options(words)
                return {
                    "options": tuple(o for o in kept if not o.startswith(("-arch", "-gen", "--g")))
                }
    return {"include_dirs": tuple(map(str, within))}


def commands(folder: Path) -> list[list[str]]:
    """Return the nvcc commands that a folder's Makefile would run, with absolute paths."""
    if not any((folder / name).is_file() for name in ("Makefile", "makefile", "GNUmakefile")):
        return []
    command = ["make", "--dry-run", "--always-make", "--keep-going", "--print-directory"]
    with tempfile.TemporaryFile("w+") as log:
        subprocess.run(
            command,
            cwd=folder,
            stdout=log,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
        log.seek(0)
        lines = log.read().replace("\\\n", " ").splitlines()
    commands_run, place = [], folder
    for line in lines:
        if enters := _ENTERS.match(line):
            place = Path(enters[1])
        elif re.search(r"\bnvcc\b", line):
            words = words_in(place, _words(line))
            commands_run.append(
                [os.path.normpath(place / w) if w.endswith(".cu") else w for w in words]
            )
    return commands_run


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a quote that the shell would have closed elsewhere
        return line.split()


def list_kernels(
    options: argparse.Namespace, path: Path, given: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    folders, options_of_file = given.get("include_dirs", ()), given.get("options", ())
    job = prepare(Source(path, "cuda", None, {}, folders, options_of_file), options.arch)
    texts = job.texts(job.inputs())
    yield {"written": sorted({n for text in texts for n in defined_kernels(text)})}
    kernels = pa.kernels(path, options.arch, **given)
    names = [base_name(k.name) for k in kernels]
    yield {"kernels": [k.mangled for k in kernels], "names": names}
    asked = [a for text in texts for a in instances(text) if a[0].partition("<")[0] not in names]
    yield {"asked": [ways[0] for ways in asked[:INSTANCES]]}
    made = [w[0] for w in asked[:INSTANCES] if any(compiles(options, path, a, given) for a in w)]
    yield {"made": made}


def defined_kernels(text: str) -> Iterator[str]:
    """Kernels that have a body in a text."""
    for name, _ in global_functions(text):
        if re.search(rf"\b{name.rpartition('::')[2]}\s*\([^;{{]*\)\s*\{{", text):
            yield name


def instances(text: str) -> Iterator[list[str]]:
    """Templates of a text with stand-ins for what they are made with: ``name<float, 32>``."""
    for inside, name in _TEMPLATE.findall(text):
        kinds = [part.split("=")[0].split() for part in inside.split(",")]
        if not any(kind[:1] == ["template"] or "..." in " ".join(kind) for kind in kinds):
            ways = [[STAND_INS.get(k[0], "32") for k in kinds if k]]
            ways.append(["int" if word == "float" else word for word in ways[0]])
            yield [f"{name}<{', '.join(words)}>" for words in ways]


def compiles(options: argparse.Namespace, path: Path, kernel: str, given: dict[str, Any]) -> bool:
    try:
        pa.from_cuda(path, kernel, **given).compiled.program(options.arch)
    except pa.PerfAssertError as error:
        print(json.dumps({"refused": f"{kernel}: {cause(error)}"}))
        return False
    return True


def predict_kernel(
    options: argparse.Namespace, path: Path, kernel: str, given: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    device = pa.device(options.device)
    code = pa.from_cuda(path, kernel, **given)
    program = code.compiled.program(device.arch)
    yield {"described": True}
    launch = stand_in_launch(program)
    code.bind(launch, device.arch, device.warp_size)
    yield {"bound": True}
    yield {"predicted": True, "confidence": pa.predict(code, launch, device).confidence}


def stand_in_launch(program: Any) -> pa.Launch:
    """A launch with a value for each parameter but pointers."""
    values = {p.name: v for p in program.parameters if (v := stand_in(p)) is not None}
    return pa.Launch(GRID, BLOCK, values)


def stand_in(parameter: Any) -> Any:
    """Nothing for pointers, which need not be given; by member for structures."""
    if parameter.pointer:
        return None
    if getattr(parameter, "members", ()):
        return {m.name or m.offset: v for m in parameter.members if (v := stand_in(m)) is not None}
    if parameter.size > 8:
        return None
    if any(word in (parameter.dtype or "") for word in ("float", "double", "half")):
        return REAL
    return INTEGER if parameter.size > 1 else 1


def cause(error: Exception) -> str:
    """Return the first line of an error without place, names and numbers.

    The name of a missing file is kept.
    """
    message = str(error).strip().splitlines()[0]
    message = re.sub(r"^\S*\.\w+(?::\d+)*: ", "", message)
    if "file" not in message:
        message = re.sub(r"'[^']*'|\"[^\"]*\"", "…", message)
    return re.sub(r"\d+", "#", re.sub(r"[^\s'\"]*/", "", message))[:110]


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
    print(f"{sum(map(count_unused, compiled))} of these have no code: templates without use")
    asked, made = (sum(len(r.get(k, ())) for r in compiled) for k in ("asked", "made"))
    print(f"{asked} templates without use were asked for by name, {made} of them compile so")
    print(f"{sum(len(r['kernels']) for r in compiled)} kernels in code, {len(kernels)} tried")
    for stage in STAGES:
        print(f"  {sum(stage in r for r in kernels):4} {stage}")
    print_counts("confidence", [r["confidence"] for r in kernels if "confidence" in r])
    print_counts("files lost", [r["lost"] for r in files if "lost" in r])
    print_counts("kernels lost", [r["lost"] for r in kernels if "lost" in r])
    print_counts("hangs", [f"{r['path']} {r['kernel']}" for r in rows if "hang" in r])
    broken = [r for r in rows if "traceback" in r]
    print_counts("tracebacks", [f"{r['path']} {r['kernel']}\n{r['traceback']}" for r in broken])
    slowest = max(rows, key=lambda r: r.get("cpu", r["seconds"]))
    print(f"{seconds:.0f} s; the slowest step {slowest.get('cpu', 0.0):.1f} s of CPU, ", end="")
    print(f"{slowest['seconds']:.1f} s of the clock: {slowest['path']} {slowest['kernel']}")


def count_unused(row: dict[str, Any]) -> int:
    """Count the kernels of a text that have no code: templates, and text that is not compiled."""
    return sum(name.rpartition("::")[2] not in row["names"] for name in row["written"])


def print_counts(title: str, values: list[str]) -> None:
    print(f"{title}: {len(values)}")
    for value, count in Counter(values).most_common():
        print(f"  {count:4} {value}")


if __name__ == "__main__":
    main()
