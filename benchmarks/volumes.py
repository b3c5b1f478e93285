"""Time of volume predictions: 168 launches of the 25-point star, and their independence of size.

Usage: python benchmarks/volumes.py     (prints; nothing is asserted)
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from star3d25pt import DOMAIN, star3d25pt, threads

import perfassert as pa

FOLDS = {"plain": (1, 1), "2y": (2, 1), "2z": (1, 2)}


def blocks():
    """Return the blocks of 1024 threads whose extents are powers of two, at most 64 in z."""
    powers = [2**i for i in range(11)]
    return [
        (x, y, z) for x in powers for y in powers for z in powers if x * y * z == 1024 and z <= 64
    ]


def processor_seconds(function, *arguments):
    """Processor seconds that one call takes."""
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def all_configurations(device, domain):
    """Seconds per configuration, by label, in a session that knows none of the predictions."""
    result = {}
    with pa.Session() as session:
        for label, fold in FOLDS.items():
            kernel = star3d25pt(domain, fold)
            for block in blocks():
                launch = pa.Launch.cover(threads(domain, fold), block)
                seconds = processor_seconds(session.predict, kernel, launch, device)
                result[f"{label} {block}"] = seconds
    return result


def best_times(device, domain):
    """The best of three times per configuration."""
    best = {}
    for _ in range(3):
        for label, seconds in all_configurations(device, domain).items():
            best[label] = min(seconds, best.get(label, seconds))
    return best


def main():
    device = pa.device("A100-SXM4-40GB")
    pa.predict(star3d25pt(), pa.Launch.cover(DOMAIN, (32, 4, 8)), device)  # imports, caches
    best = best_times(device, DOMAIN)
    total, slowest = sum(best.values()), max(best, key=best.get)
    print(f"{len(best)} configurations: {total:.2f} s, {total / len(best) * 1e3:.1f} ms each")
    print(f"slowest: {slowest} {best[slowest] * 1e3:.1f} ms")
    larger = tuple(4 * n for n in DOMAIN)
    for block in ((16, 2, 32), (256, 4, 1), (1, 32, 32)):
        times = []
        for domain in (DOMAIN, larger):
            kernel, launch = star3d25pt(domain), pa.Launch.cover(domain, block)
            times.append(
                min(processor_seconds(pa.predict, kernel, launch, device) for _ in range(5))
            )
        print(f"{block}: a grid 64 times as large takes {times[1] / times[0]:.2f} times as long")


if __name__ == "__main__":
    main()
