"""Seconds per configuration of the 25-point star: perfassert beside Warpspeed, in one run.

Usage: python benchmarks/warpspeed.py CHECKOUT... --islpy FOLDER [--configurations 20] [--turns 3]

Each CHECKOUT is a clone of https://github.com/te42kyfo/warpspeed at some commit. It needs sympy and
an islpy of 2023.1 or before: ``pip install --no-deps --target FOLDER islpy==2023.1``.
Configurations are block shapes of 1024 threads on an A100, evenly chosen from all of them. Each
tool predicts all of them in a process of its own, one tool after the other; printed are medians
over configurations and turns, in processor seconds without imports, and ratios to perfassert's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import volumes

ROOT = Path(__file__).parents[1]
_OTHER = """
import json, sys, time
root, blocks, (x, y, z) = sys.argv[1], *map(json.loads, sys.argv[2:])
sys.path[:0] = [root, root + "/warpspeed"]
import predict_metrics, warpspeedkernel
device = getattr(predict_metrics, "DeviceAmpereA100_40GB", predict_metrics.DeviceAmpere)()
loads = [("tidx", "tidy", "tidz")]
for i in range(1, 5):
    for sign in "+-":
        loads += [(f"tidx{sign}{i}", "tidy", "tidz"), ("tidx", f"tidy{sign}{i}", "tidz"),
                  ("tidx", "tidy", f"tidz{sign}{i}")]
stores, domain = [("tidx", "tidy", "tidz")], (x, y, z)
def configuration(block):
    if hasattr(warpspeedkernel, "WarpspeedGridKernel"):  # until 2022
        kernel = warpspeedkernel.WarpspeedGridKernel({"A": loads}, {"B": stores}, domain, 32, 1)
        more = ()
    else:
        kernel = warpspeedkernel.WarpspeedKernel(
            loadFields=[warpspeedkernel.Field("A", loads, 8, domain, 4)],
            storeFields=[warpspeedkernel.Field("B", stores, 8, domain, 4)],
            registers=32, flops=25,
        )
        more = ([domain],)
    launch = predict_metrics.LaunchConfig.compute(kernel, block, domain, (1, 1, 1), device, *more)
    basic = predict_metrics.BasicMetrics.compute(launch, device, kernel)
    predict_metrics.DerivedMetrics(launch, basic, device)
"""
_OURS = """
import json, sys
root, blocks, domain = sys.argv[1], *map(json.loads, sys.argv[2:])
sys.path[:0] = [root + "/src", root + "/examples"]
import time
import perfassert as pa
from star3d25pt import star3d25pt
kernel, device = star3d25pt(tuple(domain)), pa.device("a100")
pa.predict(kernel, pa.Launch.cover(domain, (64, 4, 1)), device)  # imports
def configuration(block):
    pa.predict(kernel, pa.Launch.cover(domain, block), device)
"""
_TIMED = """
times = []
for block in blocks:
    start = time.process_time()
    configuration(tuple(block))
    times.append(time.process_time() - start)
print("\\n" + json.dumps(times))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs="+", metavar="CHECKOUT")
    parser.add_argument("--islpy", required=True, metavar="FOLDER", help="for Warpspeed alone")
    parser.add_argument("--configurations", type=int, default=20)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    every = volumes.blocks()
    count = min(options.configurations, len(every))
    blocks = [every[i * len(every) // count] for i in range(count)]
    sides = [("perfassert", ROOT, "", _OURS)]
    for checkout in options.checkouts:
        name = f"Warpspeed, {dated(checkout)}"
        sides.append((name, Path(checkout).resolve(), options.islpy, _OTHER))
    medians: dict[str, list[float]] = {name: [] for name, *_ in sides}
    for _ in range(options.turns):
        for name, root, packages, code in sides:
            medians[name].append(statistics.median(times(root, packages, code, blocks)))
    ours = statistics.median(medians["perfassert"])
    print(f"{count} configurations\n| tool | a configuration | ratio |\n|---|---|---|")
    for name, values in medians.items():
        seconds = statistics.median(values)
        print(f"| {name} | {1e3 * seconds:.3g} ms | {seconds / ours:.3g} |")


def times(root: Path, packages: str, code: str, blocks: list[tuple[int, ...]]) -> list[float]:
    """Processor seconds of each configuration."""
    command = [sys.executable, "-c", code + _TIMED, str(root), json.dumps(blocks)]
    command.append(json.dumps(volumes.DOMAIN))
    environment = os.environ | ({"PYTHONPATH": packages} if packages else {})
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(run.stderr[-2000:])
    return [*map(float, json.loads(run.stdout.splitlines()[-1]))]


def dated(checkout: str) -> str:
    """Its commit and the day of it."""
    log = ["git", "-C", checkout, "log", "-1", "--format=%h of %ad", "--date=short"]
    return subprocess.run(log, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
