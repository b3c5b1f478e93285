"""Calls of a prediction, a gate and a diff: modules, functions, changes of package, stages.

``python benchmarks/traced.py [CHECKOUT]`` follows each scenario in a process of its own, in this
checkout or in another one whose engines are built (``setup.py build_ext --inplace``). The cache has
what tools made, and for predictions all modules are imported. Every call of a function of the
package by the thread that asks counts, except comprehensions, generators that go on, and what runs
during an import. Switches are calls of a function in another package than the call before. A call
is upward if the layer of the callee, by the import contract, is above that of the caller.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from modules import CUBIN, KERNEL

PACKAGE = Path(str(find_spec("perfassert").origin)).parent
STAGES = {
    "ask": ("predictor/question.py", "make_question"),
    "compile": ("frontends/toolchain/build.py", "build"),
    "lower": ("frontends/machine/lowering.py", "lower"),
    "describe": ("frontends/analysis/describe.py", "describe"),
    "bind": ("frontends/cuda/kernels.py", "_bind"),
    "check": ("predictor/sample/checked.py", "find_differences"),
    "sample": ("predictor/sample/executed.py", "sample_blocks"),
    "traffic": ("engines/volume/estimate.py", "estimate_volumes"),
    "cost": ("predictor/model.py", "make_model"),
    "simulate": ("predictor/simulate/time.py", "_run"),
    "judge": ("predictor/judge/judge.py", "judge"),
    "diagnose": ("predictor/diagnose/diagnose.py", "diagnose"),
}
"""File and function that each stage is entered by."""
OTHERS = {
    "closed form contradicted": "in[(unsigned)(i - 25) % 101u]",
    "address from unknown data": "in[(int)in[i]]",
    "function with a slow path": "sinf(in[i])",
}
"""Kernels that take more of the stages, by what they load."""
OTHER = """
extern "C" __global__ void k(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = LOADED;
}
"""
GATE = """
import perfassert as pa


def test_gate(perf):
    launch = pa.Launch.cover(1 << 20, block=256, args={"n": 1 << 20})
    perf.no_regression(perf(pa.from_cuda("sum.cu"), launch=launch))
"""
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_OF_FUNCTIONS = inspect.CO_OPTIMIZED  # what bodies of modules and classes lack
_REPORTED = 8  # upward calls
Work = Callable[[], object]


def read_layers(checkout: Path) -> dict[str, int]:
    """Package or module → its height, from the import contract."""
    from perfassert.toml.tables import loads

    project = loads((checkout / "pyproject.toml").read_text("utf-8"))
    contract = next(c for c in project["tool"]["importlinter"]["contracts"] if "layers" in c)
    rows = [[name.strip() for name in layer.split("|")] for layer in reversed(contract["layers"])]
    return {name: height for height, names in enumerate(rows) for name in names}


def _is_resumed(frame: FrameType) -> bool:
    """Return True for a generator that has yielded before: RESUME says so from Python 3.11 on."""
    if not frame.f_code.co_flags & inspect.CO_GENERATOR:
        return False
    if sys.version_info < (3, 11):
        return frame.f_lasti >= 0
    return bool(frame.f_code.co_code[frame.f_lasti + 1] & 3)


class Trace:
    """Counts of the calls that a function makes, directly or not."""

    def __init__(self, layers: dict[str, int]) -> None:
        self._layers = layers
        self._files: dict[str, str] = {}
        self._before = ""
        self.functions: set[tuple[str, int, str]] = set()
        self.calls = self.switches = self.upward = 0
        self.stages: Counter[str] = Counter()
        self.places: Counter[str] = Counter()

    def follow(self, work: Work) -> None:
        sys.setprofile(self._profile)
        try:
            work()
        finally:
            sys.setprofile(None)

    def _file(self, frame: FrameType) -> str:
        """Return the path in the package; empty for other code."""
        name = frame.f_code.co_filename
        if name not in self._files:
            inside = Path(name).is_relative_to(PACKAGE)
            self._files[name] = Path(name).relative_to(PACKAGE).as_posix() if inside else ""
        return self._files[name]

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        code, file = frame.f_code, self._file(frame)
        if event != "call" or not file or not code.co_flags & _OF_FUNCTIONS:
            return
        if code.co_name in _COMPREHENSIONS or _is_resumed(frame):
            return
        self.calls += 1
        self.functions.add((file, code.co_firstlineno, code.co_name))
        self.stages.update(s for s, place in STAGES.items() if place == (file, code.co_name))
        package = file.rpartition("/")[0]
        self.switches += package != self._before
        self._before = package
        caller = frame.f_back
        while caller is not None and not self._file(caller):
            caller = caller.f_back
        if caller is not None and self._height(self._file(caller)) < self._height(file):
            self.upward += 1
            place = f"{self._file(caller)}:{caller.f_lineno}"
            self.places[f"{place} calls {code.co_name} of {file}"] += 1

    def _height(self, file: str) -> int:
        top = max(self._layers.values()) + 1  # of the package itself
        return self._layers.get(file.partition("/")[0].removesuffix(".py"), top)

    def counts(self) -> dict[str, Any]:
        imported = sum(name.partition(".")[0] == "perfassert" for name in sys.modules)
        return {
            "modules entered": len({file for file, _, _ in self.functions}),
            "modules imported": imported,
            "functions": len(self.functions),
            "calls": self.calls,
            "switches": self.switches,
            "upward calls": self.upward,
            "stages": dict(self.stages),
            "places": self.places.most_common(),
        }


# Scenarios: what is prepared, and what is followed


def _predict(path: Path, text: str, n: int = 1 << 20) -> Any:
    import perfassert as pa

    path.write_text(text)
    return pa.predict(pa.from_cuda(path), pa.Launch.cover(n, block=256, args={"n": n}), "a100")


def anew(folder: Path, text: str = KERNEL) -> Work:
    """A source; another one has been predicted before."""
    _predict(folder / "first.cu", text.replace("int n", "int m, int n"))
    return lambda: _predict(folder / "sum.cu", text)


def advice(folder: Path) -> Work:
    """Advice on the source, after its prediction."""
    _ = _predict(folder / "first.cu", KERNEL.replace("int n", "int m, int n")).advice
    prediction = _predict(folder / "sum.cu", KERNEL)
    return lambda: prediction.advice


def again(folder: Path) -> Work:
    """Another launch of the source."""
    _predict(folder / "sum.cu", KERNEL)
    return lambda: _predict(folder / "sum.cu", KERNEL, 1 << 19)


def gate(folder: Path) -> Work:
    """pytest with a test that compares with its baseline."""
    import pytest

    (folder / "sum.cu").write_text(KERNEL)
    (folder / "test_gate.py").write_text(GATE)
    os.chdir(folder)
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=.",
               "--perf-device=a100", "test_gate.py"]  # fmt: skip
    if not (folder / "__perf__").exists():
        options.append("--perf-update")
    return lambda: pytest.main(options)


def diff(folder: Path) -> Work:
    """``perfassert diff`` of an object with itself."""
    from perfassert.cli.main import main

    os.chdir(CUBIN.parent)
    return lambda: main(["diff", "--", f"./{CUBIN.name}", f"./{CUBIN.name}"])


SCENARIOS: dict[str, Callable[[Path], Work]] = {
    "source anew": anew,
    "second launch": again,
    "its advice": advice,
    "pytest, one gate": gate,
    "diff": diff,
    **{
        name: lambda folder, text=loaded: anew(folder, OTHER.replace("LOADED", text))
        for name, loaded in OTHERS.items()
    },
}


def child(name: str, folder: Path, layers: dict[str, int]) -> None:
    """Write the counts of a scenario."""
    work, trace = SCENARIOS[name](folder), Trace(layers)
    with contextlib.redirect_stdout(io.StringIO()):
        trace.follow(work)
    print(json.dumps(trace.counts()))


def measure(name: str, checkout: Path, layers: dict[str, int]) -> dict[str, Any]:
    """Counts of a scenario, once what it compiles is in the cache."""
    with tempfile.TemporaryDirectory() as place:
        cache = Path(place, "cache")
        environment = os.environ | {
            "PYTHONPATH": str(checkout / "src"), "PERFASSERT_CACHE_DIR": str(cache), "CI": "",
        }  # fmt: skip
        command = [sys.executable, __file__, "--child", name, place, json.dumps(layers)]
        for _ in range(2):
            run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    counts: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return counts


def main(checkout: Path) -> None:
    from perfassert.report.tables import table

    layers = read_layers(checkout)
    results = {name: measure(name, checkout, layers) for name in SCENARIOS}
    first = next(iter(results.values()))
    columns = [key for key, value in first.items() if isinstance(value, int)]
    rows = [(name, *(counts[c] for c in columns)) for name, counts in results.items()]
    print(table(("scenario", *columns), rows))
    rows = [(name, *(counts["stages"].get(s, "") for s in STAGES)) for name, counts in
            results.items()]  # fmt: skip
    print(f"\n{table(('stage entered', *STAGES), rows)}")
    for name, counts in results.items():
        for place, number in counts["places"][:_REPORTED]:
            print(f"{name}: {number} times {place}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], Path(sys.argv[3]), json.loads(sys.argv[4]))
    else:
        main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else Path(__file__).parents[1])
