"""Tests of the files that a source includes: each once, however spelled, up to a limit."""

import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from perfassert.errors import KernelSourceError
from perfassert.frontends.toolchain import includes
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import prepare
from perfassert.frontends.toolchain.includes import closure
from perfassert.frontends.toolchain.inputs import FileStates
from perfassert.system.confined import FOLDER

COMPILER = shutil.which("g++")


@pytest.fixture
def read(monkeypatch):
    """Paths of the files that were opened."""
    opened = []
    real = Path.open

    def recorded(self, *args, **kwargs):
        opened.append(str(self))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", recorded)
    return opened


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def found(main, *folders):
    return closure(main, main.read_bytes(), [*folders, main.parent], ())


def dependencies(main, *folders):
    """Return real folder and name of the files that the compiler opens."""
    command = [COMPILER, "-M", "-x", "c++", *(f"-I{f}" for f in folders), str(main)]
    made = subprocess.run(command, capture_output=True, text=True, check=True, cwd=main.parent)
    names = made.stdout.partition(":")[2].replace("\\\n", " ").split()
    paths = (main.parent / name for name in names)
    return {Path(os.path.realpath(p.parent), p.name) for p in paths} - {
        Path("/usr/include/stdc-predef.h")
    }


def test_headers_that_include_each_other_through_their_parent(tmp_path, read):
    """Headers reach each other by many paths through ``..``, as in a library of vectors."""
    names = [f"h{i}" for i in range(12)]
    text = "#pragma once\n" + "".join(f'#include "../d/{name}.h"\n' for name in names)
    write(tmp_path, {f"d/{name}.h": text for name in names})
    write(tmp_path, {"k.cu": '#include "d/h0.h"\n'})
    read.clear()
    began = time.process_time()
    files = closure(tmp_path / "k.cu", b'#include "d/h0.h"', [tmp_path], ()).files
    assert time.process_time() - began < 5
    assert set(files) == {tmp_path / "k.cu", *(tmp_path / "d" / f"{n}.h" for n in names)}
    assert sorted(read) == sorted(str(path) for path in files if path.name != "k.cu")


def test_files_are_opened_once_and_directives_looked_up_once(tmp_path, read, monkeypatch):
    """The work is of the files and their directives, not of the ways through them."""
    stats = []
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **how: (stats.append(path), real(path, **how))[1])
    for count in (20, 40):
        folder = tmp_path / str(count)
        every = "".join(f'#include "../b/../a/h{i}.h"\n' for i in range(count))
        write(folder, {f"a/h{i}.h": every for i in range(count)} | {"b/k.cu": every})
        read.clear()
        stats.clear()
        closure(folder / "b" / "k.cu", every.encode(), [folder / "a", folder / "b"], ())
        assert len(read) == count
        own_folders = 2
        assert len(stats) <= (own_folders + 1) * count + count  # each name, then each file


@pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
def test_a_link_to_a_header_includes_what_lies_beside_the_link(tmp_path):
    write(tmp_path, {
        "store/real.h": '#pragma once\n#include "beside.h"\n',
        "store/beside.h": "int of_store;\n",
        "view/beside.h": "int of_view;\n",
        "k.cu": '#include "view/linked.h"\n',
    })  # fmt: skip
    (tmp_path / "view" / "linked.h").symlink_to("../store/real.h")
    files = set(found(tmp_path / "k.cu").files)
    assert files == dependencies(tmp_path / "k.cu")
    assert tmp_path / "view" / "beside.h" in files
    assert tmp_path / "store" / "beside.h" not in files


@pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
def test_a_link_to_a_folder_leads_up_from_where_it_leads_to(tmp_path):
    write(tmp_path, {
        "far/away/in.h": '#include "../near.h"\n', "far/near.h": "", "near.h": "",
        "k.cu": '#include "link/in.h"\n#include "link/../near.h"\n',
    })  # fmt: skip
    (tmp_path / "link").symlink_to("far/away")
    files = set(found(tmp_path / "k.cu").files)
    assert files == dependencies(tmp_path / "k.cu")
    assert tmp_path / "far" / "near.h" in files
    assert tmp_path / "near.h" not in files


@pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
@pytest.mark.parametrize("seed", range(12))
def test_all_that_a_compiler_opens_is_found(tmp_path, seed):
    """Trees with links to files and folders, and names that go up: none is missed."""
    chance = random.Random(seed)
    folders = ["a", "b", "a/c"]
    places = [f"{folder}/h{i}.h" for folder in folders for i in range(3)]
    write(tmp_path, dict.fromkeys(places, ""))
    (tmp_path / "b" / "link").symlink_to("../a/c")
    (tmp_path / "linked").symlink_to("b")
    (tmp_path / "a" / "h9.h").symlink_to(f"../{chance.choice(places)}")
    spelled = [*places, "a/h9.h", "b/link/h0.h", "linked/h1.h", "a/../b/h2.h", "b/link/../h0.h",
               "linked/../a/h1.h", "h0.h", "h1.h", "c/h2.h", "../b/h1.h", "../a/h0.h"]  # fmt: skip

    def directives(sure):
        """Yield include directives; headers that may be missing are behind ``__has_include``."""
        for name in chance.sample(spelled, 4):
            form = f'"{name}"' if chance.random() < 0.7 else f"<{name}>"
            yield (
                f"#include {form}"
                if name in sure
                else (f"#if __has_include({form})\n#include {form}\n#endif")
            )

    for place in places:
        (tmp_path / place).write_text("#pragma once\n" + "\n".join(directives(())) + "\n")
    main = tmp_path / "k.cu"
    main.write_text("\n".join(directives(places)) + "\n")
    searched = [tmp_path, tmp_path / "a"]
    assert dependencies(main, *searched) <= set(found(main, *searched).files)


def test_a_link_that_leads_elsewhere_is_another_source(tmp_path):
    """Although no file is new: the name that was looked up means another one now."""
    write(tmp_path, {
        "old/x.h": "int a;\n", "new/x.h": "int b;\n", "last/at/x.h": "int c;\n",
        "k.cu": '#include <at/x.h>\n#include "old/x.h"\n#include "new/x.h"\n',
    })  # fmt: skip
    meanings = set()
    for target in (None, "old", "new"):
        (tmp_path / "at").unlink(missing_ok=True)
        if target:
            (tmp_path / "at").symlink_to(target)
        whole = found(tmp_path / "k.cu", tmp_path / "last")
        meanings.add(tuple(map(FileStates().get, whole.looked_up)))
        assert len(whole.files) == 4
    assert len(meanings) == 3


def test_a_file_that_appears_earlier_in_the_search_order_is_another_source(tmp_path):
    write(tmp_path, {"late/x.h": "int a;\n", "k.cu": "#include <x.h>\n"})
    (tmp_path / "early").mkdir()
    folders = (tmp_path / "early", tmp_path / "late")
    before = found(tmp_path / "k.cu", *folders).looked_up
    assert str(tmp_path / "early/x.h") in before
    absent = FileStates().get(str(tmp_path / "early/x.h"))
    write(tmp_path, {"early/x.h": "int a;\n"})
    assert FileStates().get(str(tmp_path / "early/x.h")) != absent


@pytest.mark.parametrize(
    ("bound", "value", "said"),
    [
        ("MOST_FILES", 5, "5 files"),
        ("MOST_BYTES", 1 << 20, "1 MiB"),
        ("MOST_LOOKUPS", 10, "10 lookups"),
    ],
)
def test_what_exceeds_a_bound_is_said_and_not_remembered(tmp_path, monkeypatch, bound, value, said):
    for i in range(30):
        write(tmp_path, {f"h{i}.h": f'#include "h{i + 1}.h"\n' + "// filler\n" * 10_000})
    write(tmp_path, {"k.cu": '#include "h0.h"\n'})
    source = Source(tmp_path / "k.cu", "cuda")
    assert not prepare(source, "sm_80").closure.unknown
    monkeypatch.setattr(includes, bound, value)
    job = prepare(source, "sm_80")
    assert said in job.closure.unknown
    assert len(job.closure.files) <= 11
    files = job.inputs()
    files.finish(None)
    assert said in files.why_unknown
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(KernelSourceError, match=f"{said}.*{FOLDER} is set"):
        prepare(source, "sm_80")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such files")
def test_what_has_no_end_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.h")
    write(tmp_path, {"k.cu": '#include "pipe.h"\n#include "/dev/zero"\n'})
    whole = found(tmp_path / "k.cu")
    assert set(whole.files.values()) == {b"", (tmp_path / "k.cu").read_bytes()}
    assert whole.unknown


@pytest.mark.parametrize("text", ["__has_include(", "#include <", '#include "', "# ", "\\\n#"])
def test_looking_for_directives_takes_linear_time(text):
    began = time.process_time()
    includes._directives((text * 40_000).encode())
    assert time.process_time() - began < 2
