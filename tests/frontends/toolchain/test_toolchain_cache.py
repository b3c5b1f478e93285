"""The cache: found by content, bounded, and never an error."""

import json
import multiprocessing
import os
import zlib

import pytest

from perfassert.frontends.toolchain import cache, tools
from perfassert.frontends.toolchain.binary import Binary, Parameter, Source, from_dict, to_dict
from perfassert.frontends.toolchain.build import prepare
from perfassert.source import Assumption, SourceSpan

KERNEL = "__global__ void k(int* a) { a[threadIdx.x] = VALUE; }"


def binary(listing="code\n"):
    return Binary(
        kernel="k",
        mangled="_Z1kPi",
        arch="sm_80",
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
    ).with_digest()


def keep(entry):
    cache.store(entry, to_dict(binary()))


def test_round_trip():
    assert from_dict(to_dict(binary())) == binary()
    keep("a")
    assert cache.load("a", from_dict) == binary()
    assert cache.load("b", from_dict) is None


def test_no_flipped_bit_is_another_kernel(own_cache):
    """Not one in the stored bytes, and none that was there before they were compressed."""
    keep("a")
    (entry,) = own_cache.iterdir()
    content = entry.read_bytes()
    for place in range(len(content)):
        entry.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert cache.load("a", from_dict) is None
        assert not entry.exists()
    other = json.dumps(to_dict(binary())).replace('"registers": 8', '"registers": 9').encode()
    entry.write_bytes(content[:32] + zlib.compress(other, 1))
    assert cache.load("a", from_dict) is None
    entry.write_bytes(content)
    assert cache.load("a", from_dict) == binary()
    entry.rename(entry.with_name(entry.name.replace("a", "b", 1)))
    assert cache.load("b", from_dict) is None


def test_digest_is_of_the_content():
    assert binary("x").digest != binary("y").digest
    assert len(binary().digest) == 64


@pytest.mark.parametrize("damage", [b"", b"x" * 100, zlib.compress(b"[" * 100_000), None])
def test_a_corrupt_entry_is_dropped(own_cache, damage):
    keep("a")
    (entry,) = own_cache.iterdir()
    content = entry.read_bytes()
    entry.write_bytes(content[: len(content) // 2] if damage is None else damage)
    assert cache.load("a", from_dict) is None
    assert list(own_cache.iterdir()) == []


def test_least_recently_used_goes_first(own_cache, monkeypatch):
    for age, name in enumerate("cba"):
        keep(name)
        os.utime(own_cache / f"{name}.kernel", (age, age))
    assert cache.load("c", from_dict) == binary()  # now the youngest
    size = (own_cache / "a.kernel").stat().st_size
    monkeypatch.setenv("PERFASSERT_CACHE_SIZE", str(int(3.5 * size)))
    keep("d")
    assert sorted(p.stem for p in own_cache.iterdir()) == ["a", "c", "d"]
    monkeypatch.setenv("PERFASSERT_CACHE_SIZE", "0")
    keep("e")
    assert list(own_cache.iterdir()) == []


def test_small_entries_are_bounded_although_the_folder_is_seldom_looked_through(
    own_cache, monkeypatch
):
    monkeypatch.setenv("PERFASSERT_CACHE_SIZE", "100000")
    looks = []
    evict = cache._evict
    monkeypatch.setattr(cache, "_evict", lambda *given: (looks.append(given), evict(*given)))
    for number in range(2000):
        cache.store(cache.key([str(number)]), str(number) * 30)
    entries = list(own_cache.iterdir())
    assert sum(entry.stat().st_size for entry in entries) < 110_000
    assert 60 < len(looks) < 250


def test_a_folder_that_cannot_be_written_is_no_cache(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "file" / "below"))
    keep("a")
    assert cache.load("a", from_dict) is None


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
    for entry in own_cache.iterdir():
        entry.write_bytes(b"rubbish")
    assert compiled("k.cu", KERNEL, defines={"VALUE": 1}) == first
    assert len(runs) == 4
    compiled("k.cu", KERNEL, defines={"VALUE": 2})
    assert len(runs) == 6
    monkeypatch.setattr(tools, "identity", lambda: ("another release",))
    compiled("k.cu", KERNEL, defines={"VALUE": 2})
    assert runs[6:] == ["NVRTC"]  # the same machine code as before has the same listing


INCLUDES = [
    '#include "n.h"', '/**/ #include "n.h"', '# /**/ include "n.h"', '#include/**/"n.h"',
    "#include N",
    '/*\n*/#include "n.h"', '\f#include "n.h"', '\r#include "n.h"\r', '%:include "n.h"',
    '??=include "n.h"', '#inc\\\nlude "n.h"', '#inc\\ \nlude "n.h"', '\ufeff#include "n.h"',
    '#include "sub/of.h"', '#if __has_include("n.h")', '#embed "n.h"', "#embed N",
]  # fmt: skip


@pytest.mark.parametrize("line", INCLUDES)
def test_a_header_that_changes_is_another_source(tmp_path, line):
    """However it is included: what it was before is never taken for what it is now."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "of.h").write_text('#include "../n.h"\n')
    assert changed_key(tmp_path, f"{line}\n{KERNEL}", tmp_path / "n.h")


@pytest.mark.parametrize(
    "option", ["-include=n.h", "--options-file=n.h", "-Xcompiler=-include,n.h", "-Xcompiler=@n.h"]
)
def test_a_file_of_an_option_that_changes(tmp_path, option):
    assert changed_key(tmp_path, KERNEL, tmp_path / "n.h", option)


@pytest.mark.parametrize("flags", ["-include n.h", "-I inc", "-Xcompiler -Iinc", "n.h"])
def test_a_file_of_the_environments_flags_that_changes(tmp_path, monkeypatch, flags):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", flags)
    assert changed_key(tmp_path, KERNEL, tmp_path / "n.h")


@pytest.mark.parametrize("variable", ["CPATH", "CPLUS_INCLUDE_PATH"])
def test_a_header_of_the_environments_folders_that_changes(tmp_path, monkeypatch, variable):
    inc = tmp_path / "inc"
    inc.mkdir()
    (inc / "all.h").write_text('#include "n.h"\n')
    monkeypatch.setenv(variable, os.pathsep.join([str(tmp_path / "none"), str(inc)]))
    assert changed_key(tmp_path, f"#include <all.h>\n{KERNEL}", inc / "n.h")
    before = prepare(Source(tmp_path / "k.cu", "cuda"), "sm_80").key()
    monkeypatch.setenv(variable, str(tmp_path))
    assert prepare(Source(tmp_path / "k.cu", "cuda"), "sm_80").key() != before


def test_words_about_includes_are_none(tmp_path):
    """What no directive is costs no compilation each time."""
    (tmp_path / "k.cu").write_text(f"// the #include order matters\n/* # include this */\n{KERNEL}")
    assert prepare(Source(tmp_path / "k.cu", "cuda"), "sm_80").key() is not None


def changed_key(folder, text, header, *options):
    """Whether the cache's key is another once the header is, or there is none."""
    (folder / "k.cu").write_bytes(text.encode())
    source = Source(folder / "k.cu", "cuda", options=options)
    keys = []
    for content in (None, "#define VALUE 1\n", "#define VALUE 2\n"):
        if content is not None:
            header.write_text(content)
        keys.append(prepare(source, "sm_80").key())
    return keys == [None] * 3 or len(set(keys)) == 3


SEVERAL = """\
__global__ void first(int* a) { a[threadIdx.x] = 1; }
__global__ void second(float* a) { a[threadIdx.x] *= 2; }
template <class T, int N> __global__ void third(T* a) { a[threadIdx.x] += N; }
template __global__ void third<float, 1>(float*);
template __global__ void third<double, 2>(double*);
"""


@pytest.mark.usefixtures("toolchain")
def test_one_compilation_serves_all_kernels(compiled, runs):
    wanted = ("first", "second", "third<float, 1>", "third<double, 2>")
    mangled = [compiled("k.cu", SEVERAL, kernel).mangled for kernel in wanted]
    assert mangled == ["_Z5firstPi", "_Z6secondPf", "_Z5thirdIfLi1EEvPT_", "_Z5thirdIdLi2EEvPT_"]
    assert runs == ["NVRTC", "nvdisasm"]
    assert compiled("k.cu", SEVERAL, "third<int, 3>").mangled == "_Z5thirdIiLi3EEvPT_"
    assert runs == ["NVRTC", "nvdisasm"] * 2  # an instance that the file does not have


@pytest.mark.usefixtures("toolchain")
def test_what_else_is_in_a_module_changes_no_label(compiled):
    text = "__global__ void k(int n, int* a) { for (int i = 0; i < n; ++i) a[a[i]] = i; }\n"
    more = "__global__ void a(int n, int* a) { while (a[n]) n = a[n + 1]; a[0] = n; }\n"
    labels = [
        [line.split() for line in compiled("k.cu", t, "k").listing.split("\n") if "BRA" in line]
        for t in (text, more + text)
    ]
    assert labels[0] == labels[1] != []


def _write_and_read(folder):
    os.environ["PERFASSERT_CACHE_DIR"] = folder
    os.environ["PERFASSERT_CACHE_SIZE"] = "20000"
    wrong = 0
    for i in range(200):
        entry = f"e{i % 20}"
        cache.store(entry, {"i": i % 20, "text": str(i % 20) * 3000})
        found = cache.load(entry, dict)
        wrong += found is not None and found != {"i": i % 20, "text": str(i % 20) * 3000}
    return wrong


def test_processes_share_a_folder(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(3) as pool:
        assert pool.map(_write_and_read, [str(tmp_path / "shared")] * 3) == [0, 0, 0]
    assert {p.suffix for p in (tmp_path / "shared").iterdir()} == {".kernel"}
