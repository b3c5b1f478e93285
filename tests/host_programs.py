"""Programs for the host, built with the compilers at hand; tests skip where there are none."""

import shutil
import subprocess

import pytest

from perfassert.frontends.toolchain import tools


def need_host_compiler():
    if shutil.which("g++") is None:
        pytest.skip("there is no host compiler")


def need_nvcc():
    if tools.find("nvcc") is None:
        pytest.skip("nvcc is not installed")
    need_host_compiler()


def built(source, program, *options):
    """``source`` by nvcc as ``program``, which is returned."""
    command = [tools.need("nvcc").path, *options, "-o", str(program), str(source)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr + done.stdout
    return program
