"""Damaged files end in our own errors, soon; ``benchmarks/hostile.py`` does it by the thousand."""

import re
import subprocess
import sys
import time
from pathlib import Path

import mutations
import pytest

from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.build import Source, compiled_module

pytestmark = pytest.mark.exhaustive(one_in=3)

KERNEL = """\
extern "C" __global__ void k(float* a, int n) {
  for (int i = 0; i < n; ++i) a[threadIdx.x + i * 128] *= 2;
}
"""
LISTING = Path(__file__).parents[1] / "fixtures" / "saxpy.sass"


@pytest.fixture
def compiled_kernel(toolchain, tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(KERNEL)
    return compiled_module(Source(path, "cuda"), "sm_80")


def survives(reader, content, path, count, text=False):
    """Nothing hangs; some are refused."""
    begin = time.monotonic()
    reader(content, path)  # as it is, it is read
    refused = mutations.survives(reader, content, path, count, path.name, text)
    assert count / 10 < refused <= count
    assert (time.monotonic() - begin) / count < 10


def test_machine_code(compiled_kernel, tmp_path):
    survives(mutations.elf, compiled_kernel.cubin, tmp_path / "k.cubin", 300)


def test_listings(tmp_path):
    survives(mutations.listing, LISTING.read_bytes(), tmp_path / "k.sass", 60, text=True)


@pytest.mark.usefixtures("ptxas")
def test_ptx(compiled_kernel, tmp_path):
    survives(mutations.built, compiled_kernel.ptx.encode(), tmp_path / "k.ptx", 15)


ASKS = """
import resource, sys
from perfassert.errors import KernelSourceError
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import build
try:
    build(Source(sys.argv[1], "ptx"), "sm_80")
except KernelSourceError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.usefixtures("ptxas")
@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is bounded on Linux")
def test_ptx_that_asks_for_all_memory(compiled_kernel, tmp_path):
    """Two thousand million registers: ptxas took 3 GB and a minute. In a process of its own: what a
    child takes begins with what its parent has."""
    pytest.importorskip("resource")
    path = tmp_path / "k.ptx"
    path.write_text(re.sub(r"%rd<\d+>", "%rd<0x7fffffff>", compiled_kernel.ptx))
    command = [sys.executable, "-c", ASKS, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    *message, kilobytes = run.stdout.splitlines()
    assert "emory" in "".join(message)
    assert int(kilobytes) < 2 << 20


def test_disassembly(compiled_kernel, tmp_path):
    survives(mutations.built, compiled_kernel.cubin, tmp_path / "k.cubin", 15)


def test_fat_binaries(toolchain, tmp_path):
    nvcc = tools.find("nvcc")
    if nvcc is None or tools.find("cuobjdump") is None:
        pytest.skip("nvcc or cuobjdump is not installed")
    (tmp_path / "k.cu").write_text(KERNEL)
    command = [nvcc.path, "-fatbin", "-arch=sm_80", "k.cu"]
    if subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("nvcc finds no host compiler")
    content = (tmp_path / "k.fatbin").read_bytes()
    survives(mutations.container, content, tmp_path / "damaged.fatbin", 60)
