"""The cache: found by content, bounded, and never an error."""

import os

import pytest

from perfassert.frontends.toolchain import cache, tools
from perfassert.frontends.toolchain.binary import Binary, Parameter, from_dict, to_dict
from perfassert.source import Assumption, SourceSpan

KERNEL = "__global__ void k(int* a) { a[threadIdx.x] = VALUE; }"


def binary(listing="code\n"):
    return Binary(
        kernel="k",
        mangled="_Z1kPi",
        arch="sm_80",
        ptx="// ptx\n",
        listing=listing,
        registers=8,
        shared_bytes=1,
        local_bytes=2,
        parameter_base=0x160,
        parameters=(Parameter("a", 0, 8, True, "int"),),
        constants={3: b"\0\1"},
        code_bytes=16,
        files={"k.cu": "text"},
        tools="none",
        assumptions=(Assumption("so", SourceSpan("k.cu", 1)), Assumption("thus")),
    ).sealed()


def test_round_trip():
    assert from_dict(to_dict(binary())) == binary()
    cache.store("a", binary())
    assert cache.load("a") == binary()
    assert cache.load("b") is None


def test_digest_is_of_the_content():
    assert binary("x").digest != binary("y").digest
    assert len(binary().digest) == 64


@pytest.mark.parametrize("damage", [b"", b"x" * 100, None])
def test_a_corrupt_entry_is_a_miss(own_cache, damage):
    cache.store("a", binary())
    (entry,) = own_cache.iterdir()
    content = entry.read_bytes()
    entry.write_bytes(content[: len(content) // 2] if damage is None else damage)
    assert cache.load("a") is None


def test_least_recently_used_goes_first(own_cache, monkeypatch):
    for age, name in enumerate("cba"):
        cache.store(name, binary())
        os.utime(own_cache / f"{name}.kernel", (age, age))
    assert cache.load("c") == binary()  # now the youngest
    size = (own_cache / "a.kernel").stat().st_size
    monkeypatch.setenv("PERFASSERT_CACHE_SIZE", str(int(3.5 * size)))
    cache.store("d", binary())
    assert sorted(p.stem for p in own_cache.iterdir()) == ["a", "c", "d"]
    monkeypatch.setenv("PERFASSERT_CACHE_SIZE", "0")
    cache.store("e", binary())
    assert list(own_cache.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_cache(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "file" / "below"))
    cache.store("a", binary())
    assert cache.load("a") is None


def test_place(monkeypatch, tmp_path):
    monkeypatch.delenv("PERFASSERT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert cache.folder() == tmp_path / "perfassert"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert cache.folder() == tmp_path / "perfassert" / "cache"


@pytest.mark.usefixtures("toolchain")
def test_a_second_build_runs_nothing(compiled, runs, own_cache, monkeypatch):
    first = compiled("k.cu", KERNEL, defines={"VALUE": 1})
    assert runs == ["NVRTC", "nvdisasm"]
    assert compiled("k.cu", KERNEL, defines={"VALUE": 1}) == first
    assert len(runs) == 2
    (entry,) = own_cache.iterdir()
    entry.write_bytes(b"rubbish")
    assert compiled("k.cu", KERNEL, defines={"VALUE": 1}) == first
    assert len(runs) == 4
    compiled("k.cu", KERNEL, defines={"VALUE": 2})
    assert len(runs) == 6
    monkeypatch.setattr(tools, "identity", lambda: ("another release",))
    compiled("k.cu", KERNEL, defines={"VALUE": 2})
    assert len(runs) == 8
