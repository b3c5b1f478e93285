"""Start-up of `pytest --co -q` in an empty folder, with the plug-in and without it.

Usage: python benchmarks/startup.py [RUNS]     (prints the median of paired ratios)
"""

import statistics
import subprocess
import sys
import tempfile
import time


def run(folder, *arguments):
    """Seconds of one run."""
    command = [sys.executable, "-m", "pytest", "--co", "-q", *arguments]
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return time.perf_counter() - start


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as folder:
        run(folder), run(folder, "-p", "no:perfassert")  # warm the file cache
        pairs = [(run(folder), run(folder, "-p", "no:perfassert")) for _ in range(runs)]
    ratio = statistics.median(with_it / without for with_it, without in pairs)
    on, off = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"with {on:.3f} s, without {off:.3f} s, median ratio of {runs} pairs {ratio:.3f}")


if __name__ == "__main__":
    main()
