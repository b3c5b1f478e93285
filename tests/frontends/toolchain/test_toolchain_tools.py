"""Running tools: limits, what hangs, what is missing, which one is meant."""

import sys
import time

import pytest

from perfassert.errors import KernelSourceError, ToolchainMissing
from perfassert.frontends.toolchain import tools

posix = pytest.mark.skipif("os.name != 'posix'", reason="the fake tools are shell scripts")


def script(path, body):
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@posix
def test_a_hanging_tool_is_ended_with_its_children(tmp_path, monkeypatch):
    fake = script(tmp_path / "slow", "sleep 30 &\nsleep 30")
    monkeypatch.setenv("PERFASSERT_TOOL_TIMEOUT", "0.03")
    start = time.monotonic()
    with pytest.raises(KernelSourceError, match=r"ptxas did not finish within 0\.03 s"):
        tools.run_tool("ptxas", [str(fake)])
    assert 0.3 <= time.monotonic() - start < 5


@pytest.mark.skipif(sys.platform != "linux", reason="processor time is limited on Linux")
@pytest.mark.parametrize("body", ["while :; do :; done", "sh -c 'while :; do :; done'; exit 3"])
def test_the_limit_is_processor_time(tmp_path, monkeypatch, body):
    """The limit counts the tool and its child processes, but not the time of waiting."""
    monkeypatch.setenv("PERFASSERT_TOOL_TIMEOUT", "0.4")
    assert tools.run_tool("waiting", [str(script(tmp_path / "waits", "sleep 0.6"))]).status == 0
    with pytest.raises(KernelSourceError, match=r"ptxas did not finish within 0\.4 s of processor"):
        tools.run_tool("ptxas", [str(script(tmp_path / "busy", body))])


@posix
@pytest.mark.parametrize("limit", ["soon", "0", "-1", "nan", "inf", "1e300", "1000001"])
def test_a_limit_is_a_number_of_seconds(tmp_path, monkeypatch, limit):
    monkeypatch.setenv("PERFASSERT_TOOL_TIMEOUT", limit)
    reason = f"PERFASSERT_TOOL_TIMEOUT must be seconds above 0, at most 1000000, not '{limit}'"
    with pytest.raises(KernelSourceError, match=reason):
        tools.run_tool("ptxas", [str(script(tmp_path / "fast", "exit 0"))])


@posix
def test_the_longest_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("PERFASSERT_TOOL_TIMEOUT", "1e6")
    assert tools.run_tool("ptxas", [str(script(tmp_path / "fast", "exit 3"))]).status == 3


def test_a_tool_that_cannot_start(tmp_path):
    with pytest.raises(ToolchainMissing, match="nvcc cannot be started"):
        tools.run_tool("nvcc", [str(tmp_path / "none")])


@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is bounded on Linux")
def test_memory_is_bounded_before_the_tool_runs():
    """Set from outside it came too late now and then, and a tool had all that it asked for."""
    code = "import resource as r; print(*r.getrlimit(r.RLIMIT_AS))"
    run = tools.run_tool("python", [sys.executable, "-I", "-c", code], memory=1 << 30)
    assert run.stdout.split() == [str(1 << 30)] * 2


@posix
def test_a_tool_by_its_name_alone():
    assert tools.run_tool("sh", ["sh", "-c", "echo found"]).stdout == "found\n"


def test_a_tool_that_is_no_program(tmp_path):
    (tmp_path / "nvcc").write_text("nothing")
    with pytest.raises(ToolchainMissing, match="nvcc cannot be started"):
        tools.run_tool("nvcc", [str(tmp_path / "nvcc")])


@posix
def test_search_order_and_releases(tmp_path, monkeypatch):
    kit, path = tmp_path / "kit", tmp_path / "path"
    (kit / "bin").mkdir(parents=True)
    path.mkdir()
    old = script(kit / "bin" / "ptxas", "echo 'release 12.8, V12.8.93'")
    new = script(path / "ptxas", "echo 'release 13.1, V13.1.0'")
    monkeypatch.setenv("CUDA_HOME", str(kit))
    monkeypatch.setenv("PATH", f"{path}:/bin:/usr/bin")
    monkeypatch.setattr(tools, "package_folders", lambda name: ())
    tools._candidates.cache_clear()
    found = tools.candidates("ptxas")
    assert [t.path for t in found[:2]] == [str(old), str(new)]
    assert [t.release() for t in found[:2]] == [(12, 8), (13, 1)]
    assert tools.find_older("ptxas", 13) == found[0]
    assert str(found[0]) == "ptxas 12.8"
    before = tools.identity()
    script(new, "echo 'release 13.2, V13.2.11'")
    assert tools.identity() != before
    tools._candidates.cache_clear()


def test_damaged_code_does_not_hang_a_tool_for_long(monkeypatch):
    monkeypatch.delenv("PERFASSERT_TOOL_TIMEOUT", raising=False)
    assert tools.reading_limit(10_000) < 10
    assert tools.reading_limit(10_000_000) > 60
    monkeypatch.setenv("PERFASSERT_TOOL_TIMEOUT", "3")
    assert tools.reading_limit(10_000_000) == 3
