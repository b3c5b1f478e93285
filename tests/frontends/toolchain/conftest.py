"""Kernel sources in a folder of their own, a cache of their own, and a record of tool runs."""

import pytest

from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.build import Source, build

KINDS = {".cu": "cuda", ".ptx": "ptx", ".cubin": "cubin", ".sass": "sass"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(folder))
    monkeypatch.delenv("PERFASSERT_TOOL_TIMEOUT", raising=False)
    monkeypatch.delenv("PERFASSERT_CACHE_SIZE", raising=False)
    return folder


@pytest.fixture
def runs(monkeypatch):
    """Names of the tools that ran to make or read code; nvcc hands its work to others."""
    record = []
    real = tools.run_tool

    def recorded(name, *args, **kwargs):
        if name not in ("nvcc", "gcc"):
            record.append(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(tools, "run_tool", recorded)
    return record


def need(*names):
    for name in names:
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.fixture
def toolchain():
    need("nvrtc", "nvdisasm")


@pytest.fixture
def ptxas():
    need("ptxas", "nvdisasm")


@pytest.fixture
def nvcc():
    need("nvcc", "nvrtc", "nvdisasm")


@pytest.fixture
def compiled(tmp_path):
    """``compiled("a.cu", text, kernel, arch="sm_80", …)`` writes the file and builds it."""

    def one(name, content, kernel=None, arch="sm_80", **how):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return build(Source(path, KINDS[path.suffix], kernel, **how), arch)

    return one
