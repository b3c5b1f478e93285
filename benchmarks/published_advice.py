"""Advice against what the authors of GPA achieved: Table III of their paper, on its own programs.

``git clone https://github.com/Jokeren/GPA-Benchmark sources``, then ``python
benchmarks/published_advice.py --sources sources [--work FOLDER] [PROGRAM …]`` compiles the programs
named in ``published_advice.toml``, records their launches without a GPU, and prints for each row
the rank and the estimate of the optimization that the authors applied, how many times as fast their
own changed variant is predicted to be (``pair``), and what they achieved and estimated. Gap and τ
as in ``advice_pairs.py``; an optimization that is not offered counts as an estimate of 1.

What a current CUDA does not compile is replaced in a copy (``_REPLACED``). Inputs that the
repository lacks are made up (``published_inputs.py``). Of a kernel's launches the longest of those
with the most blocks counts. Code for sm_70 takes a ptxas and an nvdisasm of CUDA 12, e.g. in
``CUDA_HOME/bin``; without them it is that for sm_75. ``--record`` records anew; without it launches
that are there already are used. ``--show`` prints the other advice, too.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from advice_pairs import best_constant, gap, kendall
from published_inputs import INPUTS

import perfassert as pa
from perfassert.report.tables import table
from perfassert.toml.tables import loads

SUITE = Path(__file__).with_suffix(".toml")
_RECORDED_ON = "a100"  # the oldest device that current compilers know
_TOP = 3
_LAUNCHES = 300  # recorded of a program
_TRIED = 4  # launches of a kernel, of which the longest counts
_REPLACED = (
    (r"\bcudaThreadSynchronize\b", "cudaDeviceSynchronize"),
    (r"\bcudaThreadExit\b", "cudaDeviceReset"),
    (r"\b\w+\s*\.\s*(?:clockRate|deviceOverlap)\b", "1"),
    # Texture references: linear ones are read through the same cache as __ldg().
    (r"^texture<.*", ""),
    (r"^\s*t_\w+\.\w+\s*=.*;", ""),
    (r"\bcudaBindTexture\(.*\) != CUDA_SUCCESS", "false"),
    (r"\btex1Dfetch\(t_features,\s*(\w+)\)", r"__ldg(features + \1)"),
    (r"\btex1Dfetch\(t_features_flipped,\s*([^;]+)\);", r"__ldg(features + \1);"),
)
"""What CUDA 13 no longer has, and what stands for it."""


@dataclass(frozen=True, slots=True)
class Row:
    """A predicted row of the published table; ``pair``: with the variant of the authors."""

    program: str
    optimization: str
    rank: int | None
    offered: int
    estimate: float
    pair: float | None
    achieved: float
    authors: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--sources", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--work", type=Path, default=Path("published-advice"), metavar="FOLDER")
    parser.add_argument("--device")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    suite = loads(SUITE.read_text())
    if unknown := set(args.programs) - set(suite["programs"]):
        sys.exit(f"no such programs: {', '.join(sorted(unknown))}")
    copies = Copies(args.sources.resolve(), args.work.resolve())
    device = pa.device(args.device or suite["device"])
    rows = []
    for spec in suite["rows"]:
        if args.programs and spec["program"] not in args.programs:
            continue
        program = suite["programs"][spec["program"]]
        recorded = copies.launches(spec["program"], program, spec["source"], args.record)
        rows.append(predict_row(copies, spec, program, recorded, device, args.show))
    print(report(rows))


@dataclass(frozen=True, slots=True)
class Copies:
    """Sources as they compile today, and what was recorded of them."""

    sources: Path
    work: Path

    def folder(self, name: str) -> Path:
        """A copy of one folder of the sources."""
        copy = self.work / name
        if copy.exists():
            return copy
        original = self.sources / name
        if not original.is_dir():
            sys.exit(f"{original}: no such folder; --sources names a clone of the repository")
        shutil.copytree(original, copy)
        for path in copy.rglob("*.c*"):
            text = path.read_text(errors="surrogateescape")
            for pattern, replacement in _REPLACED:
                text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
            path.write_text(text, errors="surrogateescape")
        return copy

    def launches(self, name: str, program: Mapping[str, Any], source: str, again: bool) -> Path:
        """The launches file of a program; recorded where there is none yet. ``source`` declares
        the kernel."""
        recorded = self.work / "launches" / f"{name}.toml"
        if recorded.exists() and not again:
            return recorded
        recorded.parent.mkdir(parents=True, exist_ok=True)
        folder = self.folder(program["folder"])
        for include in program.get("include", ()):
            if include.startswith(".."):
                self.folder(str(Path(program["folder"]).parent / include[3:]))
        flags = [*program.get("options", ()), *(f"-I{i}" for i in program.get("include", ()))]
        build = ["nvcc", "-arch=sm_80", "-lineinfo", "-O3", "-w", *flags, *program["sources"],
                 "-Xcompiler", "-fpermissive,-fopenmp,-w", "-o", "program"]  # fmt: skip
        subprocess.run(build, cwd=folder, check=True)
        given = INPUTS[program["input"]](folder) if "input" in program else []
        record = [sys.executable, "-m", "perfassert", "record", "--device", _RECORDED_ON, "--force",
                  "--contents", "--contents-limit", "1G", "--max-launches", str(_LAUNCHES),
                  *(["--execute"] if program.get("execute") else []), "-o", str(recorded),
                  "--source", source,
                  "--", "./program", *given, *program.get("arguments", ())]  # fmt: skip
        subprocess.run(record, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return recorded


def predict_row(
    copies: Copies,
    spec: Mapping[str, Any],
    program: Mapping[str, Any],
    recorded: Path,
    device: pa.Device,
    show: bool,
) -> Row:
    """The kernel as published, and as its authors changed it."""
    options = program.get("options", ())

    def predict(
        one: pa.RecordedLaunch, folder: str, options: Sequence[str], block: Sequence[int] | None
    ) -> pa.Prediction:
        source = copies.folder(folder) / spec["source"]
        include = [copies.folder(folder) / i for i in program.get("include", ())]
        kernel = pa.from_cuda(source, spec["kernel"], include_dirs=include, options=options,
                              constants=one.kernel.compiled.hints.constants)  # fmt: skip
        return pa.predict(kernel, with_block(one.launch, block), device)

    launches = largest_launches(recorded, spec["kernel"])
    predicted = ((predict(one, program["folder"], options, None), one) for one in launches)
    before, one = max(predicted, key=lambda pair: float(pair[0].time))
    pair = None
    if changed := spec.get("changed"):
        changed_options = changed.get("options", options)
        after = predict(one, changed["folder"], changed_options, changed.get("block"))
        pair = float(before.time) / float(after.time)
    names = [a.optimizer for a in before.advice]
    rank = names.index(spec["optimization"]) if spec["optimization"] in names else None
    if show:
        print(f"{spec['program']}: {before.time}, {before.limiter}")
        for a in before.advice:
            print(f"    {a.speedup:.3f} ({a.formula_speedup:.3f}) {a.optimizer}: {a.suggestion}")
            print(f"        {a.context}")
    return Row(
        spec["program"],
        spec["optimization"],
        None if rank is None else rank + 1,
        len(names),
        1.0 if rank is None else before.advice[rank].speedup,
        pair,
        spec["achieved"],
        spec["estimated"],
    )


def largest_launches(recorded: Path, kernel: str) -> list[pa.RecordedLaunch]:
    """Return some launches of a kernel, evenly spread over those with the most blocks."""
    launches = [r for r in pa.launches(recorded) if r.name.partition("(")[0] == kernel]
    most = max(r.launch.blocks for r in launches)
    largest = [r for r in launches if r.launch.blocks == most]
    return largest[:: -(-len(largest) // _TRIED)]


def with_block(launch: pa.Launch, block: Sequence[int] | None) -> pa.Launch:
    """Return a launch of as many threads, in blocks of another size."""
    if block is None:
        return launch
    sides = zip(launch.grid, launch.block, block, strict=True)
    grid = tuple(-(-blocks * old // new) for blocks, old, new in sides)
    return replace(launch, grid=grid, block=tuple(block))


def report(rows: Sequence[Row]) -> str:
    """Return tables of the rows, and of the errors of the ways of estimating."""
    own = table(
        ("program", "optimization", "rank", "estimate", "pair", "achieved", "authors"),
        [
            (
                r.program,
                r.optimization,
                f"{r.rank or '–'} of {r.offered}",
                f"{r.estimate:.2f}",
                "–" if r.pair is None else f"{r.pair:.2f}",
                f"{r.achieved:.2f}",
                f"{r.authors:.2f}",
            )
            for r in rows
        ],
    )
    top = sum(r.rank is not None and r.rank <= _TOP for r in rows)
    return f"{own}\n\n{top} of {len(rows)} rows in the first {_TOP}\n{summary(rows)}"


def summary(rows: Sequence[Row]) -> str:
    """Gap and τ of each way of estimating, and of estimates against the authors' own variants."""
    constant = best_constant([r.achieved for r in rows])
    ways: dict[str, Callable[[Row], tuple[float | None, float | None]]] = {
        "estimate": lambda r: (r.estimate, r.achieved),
        "pair": lambda r: (r.pair, r.achieved),
        "authors": lambda r: (r.authors, r.achieved),
        f"constant {constant:g}": lambda r: (constant, r.achieved),
        "estimate against pair": lambda r: (r.estimate, r.pair),
    }
    sums = []
    for name, way in ways.items():
        known = [both for both in map(way, rows) if None not in both]
        if known:
            values, truth = zip(*known, strict=True)
            off, tau = gap(values, truth), kendall(values, truth)
            sums.append((name, str(len(known)), f"{100 * off:.1f} %", f"{tau:.2f}"))
    return str(table(("", "rows", "gap", "τ"), sums))


if __name__ == "__main__":
    main()
