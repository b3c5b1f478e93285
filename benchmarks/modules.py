"""Modules of the package that a command and a prediction execute: each one costs its import.

Usage: python benchmarks/modules.py     (prints them by package)
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
CUBIN = ROOT / "tests" / "frontends" / "fixtures" / "loop.cubin"
KERNEL = """
extern "C" __global__ void sum(const float* a, const float* b, const float* c, const float* d,
                               float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i] + c[i] + d[i];
}
"""
DIFF = f"""
from perfassert.cli.main import main
main(["diff", "--", "./{CUBIN.name}", "./{CUBIN.name}"])
"""
PREDICT = f"""
import perfassert as pa
import tempfile, pathlib
folder = tempfile.mkdtemp()
path = pathlib.Path(folder, "sum.cu")
path.write_text({KERNEL!r})
kernel = pa.from_cuda(path)
pa.predict(kernel, pa.Launch.cover(1 << 20, block=256, args={{"n": 1 << 20}}), "a100")
"""
LIST = """
import sys
print(*(name for name in sys.modules if name.partition(".")[0] == "perfassert"))
"""
SCENARIOS = {"diff of two objects": DIFF, "prediction of four loads": PREDICT}


def imported_modules(code: str) -> list[str]:
    """Names of the modules, once what the code compiles is in the cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"PERFASSERT_CACHE_DIR": cache}
        for _ in range(2):
            run = subprocess.run(
                [sys.executable, "-c", f"{code}{LIST}"], cwd=CUBIN.parent, env=environment,
                capture_output=True, text=True, check=True,
            )  # fmt: skip
    return run.stdout.splitlines()[-1].split()


def main() -> None:
    for name, code in SCENARIOS.items():
        modules = imported_modules(code)
        packages = Counter(".".join(module.split(".")[1:3]) for module in modules)
        print(f"{name}: {len(modules)} modules\n  {dict(packages.most_common())}")


if __name__ == "__main__":
    main()
