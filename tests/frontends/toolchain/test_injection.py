"""No text of a stranger is run as a command, or becomes source, on its way to a compiler.

Each case would run the program ``intruder`` if a shell, or anything like one, saw the text. The
sandbox is off: without it, too, nothing may run.
"""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from perfassert.cli.main import main
from perfassert.errors import KernelSourceError, PerfAssertError
from perfassert.frontends.toolchain import nvcc, tools
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import build
from perfassert.frontends.toolchain.options import HostArguments
from perfassert.perf_toml.read import read_perf_file

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="names of files that only POSIX allows"),
    pytest.mark.skipif(tools.find("nvcc") is None, reason="nvcc is not installed"),
]

HOST = "#include <cstdio>\n"  # has nvcc compile it
KERNEL = "__global__ void k(float* x) { x[threadIdx.x] = 1; }\n"
TEMPLATE = "template <typename T> __global__ void t(T* x) { x[threadIdx.x] = sizeof(T); }\n"
COMMANDS = [
    "$(intruder)", "`intruder`", '"; intruder; "', "'; intruder; '", "a\nintruder\n",
    "$(intruder${IFS}x)", "&& intruder", "| intruder", ">made", '\\"$(intruder)\\"',
]  # fmt: skip
NAMES = [
    "x$(intruder).cu", "x`intruder`.cu", 'x";intruder;".cu', "x';intruder;'.cu",
    "x&intruder&.cu", "x\nintruder\n.cu", "x|intruder|.cu", "-o made.cu", "@made.cu",
    "x>made.cu", "--options-file=made.cu", "x,y.cu", "x y.cu", "$HOME.cu", "x\\.cu",
]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return a folder for sources; a program on the path leaves a mark if any command runs it."""
    programs, home, mark = tmp_path / "programs", tmp_path / "home", tmp_path / "mark"
    programs.mkdir()
    home.mkdir()
    (programs / "intruder").write_text(f"#!/bin/sh\necho >> '{mark}'\n")
    (programs / "intruder").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PERFASSERT_SANDBOX", "off")
    monkeypatch.chdir(home)
    subprocess.run("intruder", check=True)
    assert mark.exists()
    mark.unlink()
    yield home
    assert not mark.exists()


def compiled(source):
    """A kernel, or an error of ours: both are fine, a command is not."""
    try:
        return build(source, "sm_80")
    except PerfAssertError:
        return None


@pytest.mark.exhaustive(one_in=12)
@pytest.mark.parametrize("name", NAMES)
def test_names_of_a_source_and_of_folders(folder, name):
    """Names that a file system accepts compile, and lines find their file."""
    home = folder / name.removesuffix(".cu")
    (home / "sub").mkdir(parents=True)
    (home / "sub" / "own.cuh").write_text("#define ONE 1\n")
    (home / name).write_text(f'{HOST}#include "own.cuh"\n#if ONE\n{KERNEL}#endif\n')
    binary = build(Source(home / name, "cuda", include_dirs=("sub",)), "sm_80")
    assert binary.mangled == "_Z1kPf"
    assert [KERNEL in text for text in binary.files.values()] == [True]


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize("text", COMMANDS)
def test_value_of_a_macro(folder, text):
    (folder / "k.cu").write_text(HOST + KERNEL)
    values = {"defines": {"X": text}, "options": (f"-DY={text}",)}
    compiled(Source(folder / "k.cu", "cuda", **values))


def test_a_macro_has_the_value_that_was_given(folder):
    (folder / "k.cu").write_text(
        f"{HOST}#define TEXT2(x) #x\n#define TEXT(x) TEXT2(x)\n"
        'static_assert(sizeof(X) == sizeof("$(intruder)"), "");\n'
        '__constant__ const char text[] = X;\n' + KERNEL
    )  # fmt: skip
    source = Source(folder / "k.cu", "cuda", defines={"X": '"$(intruder)"'})
    assert build(source, "sm_80").mangled == "_Z1kPf"


@pytest.mark.exhaustive(one_in=12)
@pytest.mark.parametrize("text", COMMANDS)
@pytest.mark.parametrize("host", [HOST, ""])
def test_name_of_a_kernel(folder, text, host):
    (folder / "k.cu").write_text(host + TEMPLATE)
    for name in (f"t<{text}>", text):
        compiled(Source(folder / "k.cu", "cuda", name))


@pytest.mark.parametrize("host", [HOST, ""])
def test_name_of_a_kernel_is_no_source(folder, host):
    """A name that would include a file in the program is rejected, and no message quotes the
    file."""
    (folder / "outside").mkdir()
    (folder / "outside" / "secret.h").write_text("hunter2 is the secret\n")
    (folder / "k.cu").write_text(host + TEMPLATE)
    place = folder / "outside" / "secret.h"
    for name in (
        f't<float>;\n#include "{place}"\nint z = sizeof(float>',
        f't<float>);\n#include "{place}"\nint z = (0',
        f't<__has_include("{place}")>',
        't<({ asm("hunter2"); 1; })>',
        "t<float>; int y = sizeof(float>",
        "t<float /* > */, int>",
        "t<float // >\n>",
        't<"hunter2">',
        "t<L'x'>",
        't<float, R"(>)">',
        "t<decltype([]{})>",
    ):
        with pytest.raises(KernelSourceError) as caught:
            build(Source(folder / "k.cu", "cuda", name), "sm_80")
        assert "hunter2 is" not in str(caught.value)


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize("text", COMMANDS[:3])
@pytest.mark.parametrize("where", ["defines", "options", "name", "include_dirs"])
def test_perf_toml(folder, text, where):
    (folder / "k.cu").write_text(HOST + TEMPLATE + KERNEL)
    written = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    said = {
        "defines": f'defines = {{ X = "{written}" }}', "options": f'options = ["-DX={written}"]',
        "name": f'name = "t<{written}>"', "include_dirs": f'include_dirs = ["{written}"]',
    }[where]  # fmt: skip
    (folder / "k.perf.toml").write_text(
        f'[[test]]\nname = "t"\nkernel = {{ cuda = "k.cu", {said} }}\n'
        'launch = { grid = 1, block = 32 }\nexpect = { time = "< 1 s" }\n'
    )
    try:
        tests = read_perf_file(folder / "k.perf.toml")
    except PerfAssertError:
        return
    assert tests
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "k.perf.toml",
         "--perf-device=a100"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode in (0, 1), run.stdout


def test_where_nvcc_runs_its_commands_itself(folder, monkeypatch):
    """On Windows: the same code, and no letters that a command line may act on."""
    monkeypatch.setattr(nvcc, "os", SimpleNamespace(name="nt", path=os.path))
    (folder / "k.cu").write_text(HOST + KERNEL)
    path, tool = folder / "k.cu", tools.find("nvcc")
    host = HostArguments((f"-I{folder}",), ("-DX=1",))
    made = nvcc.compile_with_nvcc(
        nvcc.Compilation(tool, path, "sm_80", folder, ("-lineinfo",), host)
    )
    assert made.code.startswith(b"\x7fELF"), made.log
    host = HostArguments((), ("-DX=$(intruder)",))
    with pytest.raises(KernelSourceError, match="takes no such letters"):
        nvcc.compile_with_nvcc(nvcc.Compilation(tool, path, "sm_80", folder, (), host))


def git(*words):
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *words], check=True)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("name", NAMES[:3])
def test_diff_of_a_new_file(folder, name, capsys):
    git("init", "--quiet")
    (folder / "k.cu").write_text(HOST + KERNEL)
    git("add", ".")
    git("commit", "--quiet", "-m", "base")
    (folder / name).write_text(HOST + KERNEL.replace("k(", "other("))
    git("add", ".")
    git("commit", "--quiet", "-m", "head")
    assert main(["diff", "HEAD~1", "HEAD", "--arch", "sm_80"]) == 0
    assert "1 new" in capsys.readouterr().out


def test_hooks_of_the_checkout_do_not_run(folder):
    """``core.hooksPath`` may name a folder of the repository, which is the pull request's."""
    git("init", "--quiet")
    hooks = folder / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text("#!/bin/sh\nintruder\n")
    (hooks / "post-checkout").chmod(0o755)
    git("config", "core.hooksPath", str(hooks))
    (folder / "k.cu").write_text(KERNEL)
    git("add", ".")
    git("commit", "--quiet", "-m", "base")
    (folder / "k.cu").write_text(KERNEL + "\n")
    git("commit", "--quiet", "-a", "-m", "head")
    assert main(["diff", "HEAD~1", "HEAD", "--arch", "sm_80"]) == 0
