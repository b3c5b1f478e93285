"""The cache: found by content, bounded, and never an error."""

import json
import multiprocessing
import os
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from perfassert.errors import KernelSourceError, PerfAssertError
from perfassert.frontends.toolchain import cache, inputs, tools
from perfassert.frontends.toolchain.binary import Binary, Parameter, Source, from_dict, to_dict
from perfassert.frontends.toolchain.build import prepare
from perfassert.source import Assumption, SourceSpan

pytestmark = pytest.mark.exhaustive(one_in=8)

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


@pytest.mark.parametrize("size", ["512M", "-1", "inf", "1e3", "9" * 5000])
def test_a_size_that_is_none(own_cache, monkeypatch, size):
    monkeypatch.setenv("PERFASSERT_CACHE_SIZE", size)
    with pytest.raises(PerfAssertError, match="PERFASSERT_CACHE_SIZE must be bytes from 0 on, not"):
        keep("a")


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
    assert len(looks) < 250


def test_a_sealed_cache_has_what_was_there_and_what_is_written_here(own_cache):
    keep("a")
    keep("b")
    with cache.seal_entries():
        for path in own_cache.iterdir():
            if path.stem == "b":  # by another process, with the times that it had
                content, times = path.read_bytes(), path.stat()
                path.write_bytes(content)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        (own_cache / "x.kernel").write_bytes(b"")
        keep("c")
        for _ in range(2):
            assert [cache.load(name, from_dict) is None for name in "abc"] == [False, True, False]
        os.replace(own_cache / "b.kernel", own_cache / "a.kernel")
        assert cache.load("a", from_dict) is None
    keep("a")
    assert cache.load("a", from_dict) == binary()


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
    '#define N "n.h"\n#include N',
    '/*\n*/#include "n.h"', '\f#include "n.h"', '%:include "n.h"',
    '#inc\\\nlude "n.h"', '#include "sub/of.h"',
]  # fmt: skip
PROBES = [
    '__has_include("n.h")', '__has_include/**/("n.h")', "HI(\"n.h\")", "PASTED(\"n.h\")",
    '__has_include\\\n("n.h")', "__has_include(NAME)", '__has_include /* ( */ ( "n.h" )',
]  # fmt: skip
WORDS = """\
#define HI __has_include
#define JOIN(a, b) a##b
#define PASTED JOIN(__has_, include)
#define NAME "n.h"
"""
TEXTS = [f"{line}\n#ifndef VALUE\n#define VALUE 0\n#endif\n{KERNEL}" for line in INCLUDES] + [
    f"{WORDS}#if {probe}\n#define VALUE 1\n#else\n#define VALUE 0\n#endif\n{KERNEL}"
    for probe in PROBES
]
STATES = (None, "#define VALUE 1\n", "#define VALUE 2\n", None, "#define VALUE 1\n")
"""What ``n.h`` holds, one after the other; None: there is none."""


@pytest.fixture(params=["watched", "followed"])
def mechanism(request, monkeypatch):
    """Files as the kernel of the system reports them, and as the text of the source suggests."""
    if request.param == "followed":
        monkeypatch.setattr(inputs, "can_watch", lambda: False)
    elif not inputs.can_watch():
        pytest.skip("this system does not report files")
    return request.param


def write_state(header, content):
    header.unlink(missing_ok=True)
    if content is not None:
        header.write_text(content)


@pytest.mark.usefixtures("toolchain")
@pytest.mark.exhaustive(one_in=16)
@pytest.mark.parametrize("text", TEXTS)
def test_code_is_that_of_the_present_files(tmp_path, compiled, mechanism, text):
    """However a header is included or asked for."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "of.h").write_text('#if __has_include("../n.h")\n#include "../n.h"\n#endif')
    codes: dict[object, str] = {}
    for content in STATES:
        write_state(tmp_path / "n.h", content)
        if content is None and text.startswith(tuple(INCLUDES[:-1])):
            with pytest.raises(KernelSourceError, match="n.h"):
                compiled("k.cu", text)
            continue
        code = compiled("k.cu", text).digest
        assert codes.setdefault(content, code) == code
    probed = "__has_include" in text
    assert len(set(codes.values())) == (2 if probed else len(codes))


DEFAULT = f"#ifndef VALUE\n#define VALUE 0\n#endif\n{KERNEL}"


@pytest.mark.usefixtures("toolchain")
@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_link_to_a_header_of_the_tools_that_becomes_a_file(tmp_path, compiled, mechanism, linked):
    header = next(Path(f, "vector_types.h") for f in tools.include_dirs()
                  if Path(f, "vector_types.h").exists())  # fmt: skip
    text = f'#include "sub/vector_types.h"\n{DEFAULT}'
    sub = tmp_path / "sub"
    if linked == "folder":
        sub.symlink_to(header.parent)
    else:
        sub.mkdir()
        (sub / header.name).symlink_to(header)
    before = compiled("k.cu", text).digest
    (sub if linked == "folder" else sub / header.name).unlink()
    sub.mkdir(exist_ok=True)
    (sub / header.name).write_text("#define VALUE 2\n")
    assert compiled("k.cu", text).digest != before


@pytest.mark.usefixtures("toolchain")
@pytest.mark.parametrize("kinds", [("link", "copy"), ("copy", "link")])
def test_one_file_by_two_names_is_not_two_files(tmp_path, compiled, mechanism, kinds):
    """``#pragma once`` tells them apart although all contents are equal."""
    text = "#pragma once\n#ifdef ONE\n#define VALUE 1\n#endif\n#define ONE\n"
    (tmp_path / "a.h").write_text(text)
    digests = []
    for kind in kinds:
        (tmp_path / "b.h").unlink(missing_ok=True)
        if kind == "link":
            (tmp_path / "b.h").symlink_to("a.h")
        else:
            (tmp_path / "b.h").write_text(text)
            os.utime(tmp_path / "b.h", (1e9, 1e9))  # g++ takes equal texts of one second for one
        digests.append(compiled("k.cu", f'#include "a.h"\n#include "b.h"\n{DEFAULT}').digest)
    assert digests[0] != digests[1]


@pytest.mark.usefixtures("toolchain")
@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no folder below /dev")
def test_headers_below_a_folder_of_the_system(compiled, mechanism, monkeypatch):
    """Checkouts lie below /dev/shm, /run or, by its first letters alone, /runner."""
    monkeypatch.setenv("PERFASSERT_SANDBOX", "off")  # which reads no source there
    with TemporaryDirectory(dir="/dev/shm") as folder:
        header = Path(folder, "n.h")
        digests = []
        for state in STATES[1:3]:
            write_state(header, state)
            digests.append(compiled(f"{folder}/k.cu", f'#include "n.h"\n{KERNEL}').digest)
    assert digests[0] != digests[1]
    for path in ("/runner/n.h", "/devel/n.h", "/etcetera/n.h"):
        assert inputs.FileStates().counts(path)


def test_files_that_a_folder_lacks_are_looked_for_once_until_it_changes(tmp_path, monkeypatch):
    looked, exists, kept = [], os.path.lexists, {}
    monkeypatch.setattr(os.path, "lexists", lambda path: looked.append(path) or exists(path))

    def recall(key, make):
        return kept[key] if key in kept else kept.setdefault(key, make())

    def lacks():
        return inputs._has_none(str(tmp_path), ("a.h", "b.h"), recall)

    assert not lacks()  # the folder is new: what is made now could have the same time
    os.utime(tmp_path, (1e9, 1e9))
    assert (lacks(), lacks(), len(looked)) == (True, True, 2)
    (tmp_path / "b.h").symlink_to("nowhere")
    assert not lacks()
    os.utime(tmp_path, (1e9, 1e9 + 1))
    assert not lacks()
    (tmp_path / "b.h").unlink()
    os.utime(tmp_path, (1e9, 1e9 + 2))
    assert lacks()
    assert inputs._has_none(str(tmp_path / "none"), ("a.h",), recall)


@pytest.mark.usefixtures("toolchain")
def test_states_that_were_seen_are_remembered(tmp_path, compiled, runs):
    if not inputs.can_watch():
        pytest.skip("this system does not report files")
    text = TEXTS[-4]
    for content in STATES[:3]:
        write_state(tmp_path / "n.h", content)
        compiled("k.cu", text)
    count = len(runs)
    for content in (*STATES, *STATES):
        write_state(tmp_path / "n.h", content)
        compiled("k.cu", text)
    assert len(runs) == count


@pytest.mark.usefixtures("toolchain")
def test_what_cannot_be_followed_is_compiled_again_and_said_once(
    tmp_path, compiled, runs, monkeypatch, caplog
):
    monkeypatch.setattr(inputs, "can_watch", lambda: False)
    monkeypatch.setattr(inputs, "_logged_reasons", set())
    for _ in range(3):
        compiled("k.cu", TEXTS[-4])
    assert runs.count("cicc") == 3
    assert [r.message for r in caplog.records] == [
        f"{tmp_path / 'k.cu'}: may ask for files by __has_include that it does not name literally: "
        "its code is compiled again each time"
    ]


@pytest.mark.usefixtures("nvcc")
def test_a_system_header_that_nvcc_reads_is_among_the_files(tmp_path, compiled, own_cache):
    """nvcc lists neither what it looked for in vain nor headers of the system."""
    if not inputs.can_watch() or tools.host_compiler() is None:
        pytest.skip("needs a host compiler, and a system that reports files")
    host = '#include <vector>\n#include "n.h"\nvoid host() { std::vector<int> v(3); }\n'
    write_state(tmp_path / "n.h", "#define VALUE 1\n")
    compiled("k.cu", host + KERNEL, "k")
    records = [cache.load(e.stem, list) for e in own_cache.iterdir()]
    files = {path for r in records if r and isinstance(r[0], dict) for path in r[0]}
    assert any(path.endswith("/vector") for path in files)
    assert str(tmp_path / "n.h") in files
    assert not any(path.startswith(("/proc", "/dev")) for path in files)


@pytest.mark.usefixtures("toolchain")
def test_a_file_that_changes_while_it_is_compiled(tmp_path, compiled, monkeypatch):
    """The code is of one state of the files, or there is an error."""
    header, text = tmp_path / "n.h", f'#include "n.h"\n{KERNEL}'
    write_state(header, "#define VALUE 0\n")
    real, edits = tools.run_process, [1]

    def edited(*given, **more):
        done = real(*given, **more)
        if edits:
            header.write_text(f"#define VALUE {edits.pop()}\n")
        return done

    monkeypatch.setattr(tools, "run_process", edited)
    settled = compiled("k.cu", text).digest
    assert not edits
    assert settled == compiled("k.cu", text).digest
    write_state(header, "#define VALUE 0\n")
    assert settled != compiled("k.cu", text).digest
    edits += [5, 4, 3, 2]
    write_state(header, "#define VALUE 6\n")
    with pytest.raises(KernelSourceError, match=r"n\.h was changed while .*k\.cu was compiled, 3"):
        compiled("k.cu", text)


def answer(source, content):
    """Return the cached entry of a source, by its text alone; ``content`` if there is none."""
    job = prepare(source, "sm_80")
    found = job.inputs()

    def make():
        found.finish(None)
        return content

    return inputs.remember(job.key(), found, make, str, str)


@pytest.mark.parametrize(
    "line",
    [*INCLUDES, '\r#include "n.h"\r', '??=include "n.h"', '\ufeff#include "n.h"', '#embed "n.h"',
     '#inc\\ \nlude "n.h"', "#embed N"],
)  # fmt: skip
def test_a_header_that_changes_is_another_source(tmp_path, line):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "of.h").write_text('#include "../n.h"\n')
    (tmp_path / "k.cu").write_text(f"{line}\n{KERNEL}")
    check_states(Source(tmp_path / "k.cu", "cuda"), tmp_path / "n.h")


def check_states(source, header):
    for content in STATES:
        write_state(header, content)
        assert answer(source, str(content)) == str(content)


@pytest.mark.parametrize(
    "option", ["-include=n.h", "--options-file=n.h", "-Xcompiler=-include,n.h", "-Xcompiler=@n.h"]
)
def test_a_file_of_an_option_that_changes(tmp_path, option):
    (tmp_path / "k.cu").write_text(KERNEL)
    check_states(Source(tmp_path / "k.cu", "cuda", options=(option,)), tmp_path / "n.h")


@pytest.mark.parametrize("flags", ["-include n.h", "-I inc", "-Xcompiler -Iinc", "n.h"])
def test_a_file_of_the_environments_flags_that_changes(tmp_path, monkeypatch, flags):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", flags)
    (tmp_path / "k.cu").write_text(KERNEL)
    check_states(Source(tmp_path / "k.cu", "cuda"), tmp_path / "n.h")


@pytest.mark.parametrize("variable", ["CPATH", "CPLUS_INCLUDE_PATH"])
def test_a_header_of_the_environments_folders_that_changes(tmp_path, monkeypatch, variable):
    inc = tmp_path / "inc"
    inc.mkdir()
    (inc / "all.h").write_text('#include "n.h"\n')
    (tmp_path / "k.cu").write_text(f"#include <all.h>\n{KERNEL}")
    source = Source(tmp_path / "k.cu", "cuda")
    monkeypatch.setenv(variable, os.pathsep.join([str(tmp_path / "none"), str(inc)]))
    check_states(source, inc / "n.h")
    before = prepare(source, "sm_80").key()
    monkeypatch.setenv(variable, str(tmp_path))
    assert prepare(source, "sm_80").key() != before


def test_words_about_includes_are_none(tmp_path):
    """The word include in a comment is no directive, and causes no compilation."""
    (tmp_path / "k.cu").write_text(f"// the #include order matters\n/* # include this */\n{KERNEL}")
    assert not prepare(Source(tmp_path / "k.cu", "cuda"), "sm_80").closure.unknown


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
