"""Launches of one compiled kernel, each of another size: seconds and memory.

Usage: python benchmarks/sweep.py [LAUNCHES]     (prints; nothing is asserted)
"""

import resource
import sys
import time
from pathlib import Path

import perfassert as pa

SAXPY = Path(__file__).parents[1] / "examples" / "kernels" / "saxpy.cu"


def main(launches: str = "10000") -> None:
    kernel, device = pa.from_cuda(SAXPY, "saxpy"), pa.device("a100")
    pa.predict(kernel, pa.Launch(4096, 256, {"n": 1 << 20}), device)  # compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    for number in range(int(launches)):
        blocks = 4097 + number
        pa.predict(kernel, pa.Launch(blocks, 256, {"n": 256 * blocks}), device)
    seconds = time.process_time() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(
        f"{launches} launches: {seconds:.1f} s of the processor, "
        f"{1e3 * seconds / int(launches):.2f} ms each, {grown / 1024:.0f} MB more"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
