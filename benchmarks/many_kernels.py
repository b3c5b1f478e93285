"""``pa.kernels`` of a library with several hundred kernels: seconds and peak memory.

``python benchmarks/many_kernels.py [COUNT]`` compiles that many instances of a template, for sm_80.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import perfassert as pa
from perfassert.frontends.toolchain import tools

KERNEL = """
template <int N, class T> __global__ void smooth(T* a, int n) {
  __shared__ T s[256];
  T sum = 0;
  for (int j = 0; j < N; ++j) {
    s[threadIdx.x] = a[(threadIdx.x + j * N) % n];
    __syncthreads();
    sum += s[255 - threadIdx.x] * T(N);
    __syncthreads();
  }
  a[threadIdx.x] = sum;
}
"""


def build_library(folder: str, count: int, kernel: str = KERNEL) -> Path:
    """A shared library of so many instances of a template."""
    kinds = ("float", "double", "int")
    made = [
        f"template __global__ void smooth<{i // 3 + 1}, {kinds[i % 3]}>({kinds[i % 3]}*, int);"
        for i in range(count)
    ]
    Path(folder, "many.cu").write_text(kernel + "\n".join(made))
    options = ["-arch=sm_80", "-Xcompiler", "-fPIC", "-c", "many.cu", "-o", "many.o"]
    subprocess.run([tools.need("nvcc").path, *options], cwd=folder, check=True)
    link = ["g++", "-shared", "-Wl,--unresolved-symbols=ignore-all", "many.o", "-o", "libmany.so"]
    subprocess.run(link, cwd=folder, check=True)
    return Path(folder, "libmany.so")


def main(count: str = "300") -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PERFASSERT_CACHE_DIR"] = f"{folder}/cache"
        path = build_library(folder, int(count))
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
        for what in ("cold", "warm"):
            begin, used = time.monotonic(), time.process_time()
            kernels = pa.kernels(path)
            print(
                f"{what}: {len(kernels)} kernels, {time.monotonic() - begin:.2f} s, "
                f"{time.process_time() - used:.2f} s of CPU here"
            )
        here = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"peak memory here: {here:.0f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
