"""The recording runtime: built with the wheel, or else by a C++ compiler on this machine."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path

from perfassert.errors import ToolchainMissing
from perfassert.frontends.toolchain import cache, tools

_SOURCES = Path(__file__).with_name("runtime")
_OPTIONS = ("-O2", "-std=c++17", "-shared", "-fPIC", "-fvisibility=default")


def runtime() -> Path:
    """Return the library's path; :class:`ToolchainMissing` if it can be neither found nor built."""
    if not sys.platform.startswith("linux"):
        raise ToolchainMissing("perfassert record needs Linux: it stands in for libcudart.so")
    spec = find_spec("perfassert.frontends.recording._runtime")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin)
    return _compile_runtime()


def _compile_runtime() -> Path:
    texts = [path.read_bytes() for path in sorted(_SOURCES.iterdir()) if path.is_file()]
    digest = hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]
    target = cache.folder() / f"record-{digest}-{os.uname().machine}.so"
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder, "runtime.so")
        command = [*_compiler(), *_OPTIONS, str(_SOURCES / "runtime.cpp"), "-o", str(made), "-ldl"]
        run = tools.run_tool("the C++ compiler", command, folder=folder, reads=[_SOURCES])
        if run.status:
            errors = run.log.splitlines()
            raise ToolchainMissing(f"the recording runtime does not compile: {errors[0:1] or run}")
        made.replace(target)
    return target


def _compiler() -> list[str]:
    named = os.environ.get("CXX") or sysconfig.get_config_var("CXX") or "c++"
    for words in (shlex.split(named), ["c++"], ["g++"], ["clang++"]):
        if words and shutil.which(words[0]):
            return words
    raise ToolchainMissing(
        "perfassert record has no runtime that stands in for CUDA's: this installation was made "
        "without a C++ compiler and there is none now; apt-get install g++, or set CXX"
    )
