"""Processor time and predictions of one hundred kernels, by this checkout and another, in turns.

``python benchmarks/against.py CHECKOUT [--runs 3] [--random 60]``: the kernels of the examples on
three devices, and random ones; each run with an empty cache and, after it, a filled one. Prints the
medians of processor time (compilers included) with their ratio, and every prediction that differs.
The other checkout needs its compiled engines in place (``pip install -e``).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHILD = """
import json, sys
sys.path.insert(0, {root!r})
import perfassert as pa
from benchmarks import sessions
cases = json.loads(open({cases!r}).read())
scope = {{}}
exec(sessions.TESTS.format(folder=str(sessions.KERNELS)).partition("@pytest")[0], scope)
found = {{}}
def note(key, kernel, launch, device):
    try:
        p = pa.predict(kernel, launch, device)
        volumes = [sum(float(v.total) for v in getattr(p.volumes, q).fields.values())
                   for q in ("l2_load", "l2_store", "dram_load", "dram_store")]
        found[key] = [repr(float(p.time)), p.confidence, *map(repr, volumes)]
    except Exception as error:
        found[key] = [f"{{type(error).__name__}}: {{error}}"[:200]]
for number, (file, name, launch, defines, options) in enumerate(scope["CASES"]):
    for device in sessions.DEVICES:
        kernel = pa.from_cuda(sessions.KERNELS / f"{{file}}.cu", name, defines=defines,
                              options=options)
        note(f"{{name}} {{number}} on {{device}}", kernel, launch, device)
for case in cases:
    kernel = pa.from_cuda(case["path"], case["kernel"])
    launch = pa.Launch(tuple(case["grid"]), tuple(case["block"]), case["args"])
    note(f"random {{case['kernel']}} on {{case['device']}}", kernel, launch, case["device"])
print(json.dumps(found))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--random", type=int, default=60, help="random kernels, besides the others")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = random_cases(options.random, options.seed, Path(folder))
        sides = {"this": ROOT, "other": options.checkout.resolve()}
        times: dict[str, dict[str, list[float]]] = {s: {"cold": [], "warm": []} for s in sides}
        predictions: dict[str, dict[str, list[str]]] = {}
        for _ in range(options.runs):
            for side, checkout in sides.items():
                with tempfile.TemporaryDirectory() as cache:
                    for kind in ("cold", "warm"):
                        used, predictions[side] = measure(checkout, cases, cache)
                        times[side][kind].append(used)
    report(times, predictions)


def random_cases(count: int, seed: int, folder: Path) -> Path:
    """Sources, launches and arguments, which both sides read."""
    sys.path.insert(0, str(ROOT))
    from tests.random_kernels.generator import generate
    from tests.random_kernels.measure import DEVICES, source_of

    cases = []
    for number in range(count):
        kernel, _ = generate(seed, number)
        path = folder / f"{kernel.name}.cu"
        path.write_text(source_of([kernel]))
        given = kernel.given()
        plain = isinstance(given, dict) and all(isinstance(v, int) for v in given.values())
        if plain:
            device = list(DEVICES.values())[number % len(DEVICES)]
            cases.append({"path": str(path), "kernel": kernel.instance(), "grid": kernel.grid,
                          "block": kernel.block, "args": given, "device": device})  # fmt: skip
    file = folder / "cases.json"
    file.write_text(json.dumps(cases))
    return file


def measure(checkout: Path, cases: Path, cache: str) -> tuple[float, dict[str, list[str]]]:
    """Processor time of a process that predicts them all, and what it predicts."""
    child = CHILD.format(root=str(ROOT), cases=str(cases))
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PERFASSERT_CACHE_DIR": cache}
    before = _time_of_children()
    done = subprocess.run(
        [sys.executable, "-c", child], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    return _time_of_children() - before, json.loads(done.stdout.splitlines()[-1])


def _time_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(
    times: dict[str, dict[str, list[float]]], predictions: dict[str, dict[str, list[str]]]
) -> None:
    runs = len(times["this"]["cold"])
    print(f"{len(predictions['this'])} kernels, processor seconds: median of {runs}")
    for kind in ("cold", "warm"):
        this, other = (statistics.median(times[side][kind]) for side in ("this", "other"))
        print(f"{kind}: {this:6.1f} here, {other:6.1f} there, ratio {this / other:.2f}")
    changed = [
        k for k in predictions["this"] if predictions["this"][k] != predictions["other"].get(k)
    ]
    print(f"{len(changed)} predictions differ (time in s, confidence, bytes from and to L2, DRAM)")
    for key in changed:
        print(f"  {key}\n    here  {' '.join(predictions['this'][key])}")
        print(f"    there {' '.join(predictions['other'].get(key, ['-']))}")


if __name__ == "__main__":
    main()
