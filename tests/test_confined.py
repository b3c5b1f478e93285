"""Tests that files of a pull request are data: they read no file outside and reveal no secrets."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
from perf_files import COPY

import perfassert as pa
from perfassert.baseline import files as baselines
from perfassert.baseline.entry import BaselineKey
from perfassert.comparison.read import read as read_report
from perfassert.errors import (
    BaselineError,
    DeviceFileError,
    KernelSourceError,
    PerfAssertError,
    PerfFileError,
    ReportError,
)
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import build, prepare
from perfassert.frontends.toolchain.options import check_of_file
from perfassert.perf_toml.read import read_perf_file
from perfassert.report.advice import _Texts
from perfassert.report.files import replace_bytes
from perfassert.system.confined import FOLDER, confining, is_source, reaches_outside

ROOT = Path(__file__).parents[1]
SECRET = "TOKEN=hunter2"
KERNEL = "__global__ void k(float* x) { x[threadIdx.x] = 1; }\n"
ALLOWED = [
    "-O1", "-maxrregcount=32", "--maxrregcount 64", "-std=c++17", "-I../shared", "-DN=3", "-UN",
    "--use_fast_math", "-ftz=true", "-fmad=false", "-arch=sm_90", "-rdc=true", "-lineinfo",
    "-gencode=arch=compute_80,code=sm_80", "--extended-lambda", "-Xptxas=-O3,-dlcm=ca,-v", "-w",
]  # fmt: skip
REFUSED = [
    "-ccbin=./evil", "--compiler-bindir=./evil", "-Xcompiler=-wrapper,./evil", "--options-file=x",
    "-optf=x", "-include=s.env", "--pre-include=/etc/passwd", "-isystem-after=x", "-o=x", "-run",
    "--compiler-options=-fplugin=evil.so", "-Xptxas=-o,/tmp/x", "-Xptxas=--options-file=x",
    "--keep-dir=/tmp", "--output-directory=/tmp", "-Xlinker=x", "-L/tmp", "-lx", "--dryrun",
    "--nvlink-options=x", "--archive-options=x", "--dependency-output=x", "-MF=x", "--keep",
]  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder that sources are confined to, beside a secret."""
    (tmp_path / "s.env").write_text(SECRET)
    (tmp_path / "secret.h").write_text(f"#define {SECRET.replace('=', ' ')}")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "s.env").write_text(SECRET)
    (folder / "own.cuh").write_text("#include <cstdint>\n#define ONE 1\n")
    monkeypatch.setenv(FOLDER, str(folder))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("option", ALLOWED)
def test_options_that_change_code(option):
    check_of_file(Source("k.cu", "cuda", options=(option,)))


@pytest.mark.parametrize("option", REFUSED)
def test_options_that_run_read_or_write_elsewhere(option):
    with pytest.raises(KernelSourceError):
        check_of_file(Source("k.cu", "cuda", options=(option,)))


def test_options_of_a_file_are_checked(tmp_path):
    (tmp_path / "k.cu").write_text(KERNEL)
    toml = tmp_path / "k.perf.toml"
    toml.write_text(
        '[[test]]\nname = "t"\nkernel = { cuda = "k.cu", options = ["-ccbin=./evil"] }\n'
        'launch = { grid = 1, block = 32 }\nexpect = { time = "< 1 s" }\n'
    )
    with pytest.raises(PerfFileError, match=r"-ccbin|--compiler-bindir.*not among those"):
        read_perf_file(toml)


def test_links_and_line_tables_show_no_secret(tmp_path, monkeypatch):
    """A link with the name of a source, and a file named in lines of PTX, are not shown."""
    (tmp_path / "s.env").write_text(SECRET)
    (tmp_path / "link.h").symlink_to(tmp_path / "s.env")
    (tmp_path / "own.cu").write_text("one\n")
    assert not is_source(tmp_path / "link.h")
    shown = [_Texts().line(str(tmp_path / name), 1) for name in ("s.env", "link.h", "own.cu")]
    assert shown == ["", "", "one"]
    (tmp_path / "inside").mkdir()
    monkeypatch.setenv(FOLDER, str(tmp_path / "inside"))
    assert _Texts().line(str(tmp_path / "own.cu"), 1) == ""


@pytest.mark.skipif(tools.find("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("host", ["", "#include <cstdio>\n"])
@pytest.mark.parametrize(
    "begin", ["k.cu:5: error: x", "k.cu(5): error: x", "ptxas k.cu, line 5; error : x"]
)
def test_a_name_of_a_line_that_looks_like_a_message(project, host, begin):
    """GCC quotes the file that ``#line`` names."""
    odd = project / begin
    odd.mkdir()
    (project / "k.cu").write_text(
        f'{host}{KERNEL}\nint main() {{}}\n#line 1 "{odd}/../s.env"\n#error foo\n'
    )
    with pytest.raises(KernelSourceError) as caught:
        build(Source(project / "k.cu", "cuda"), "sm_80")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("option", ["-I{}", "-I..", "-I ../.."])
def test_include_folders_lie_inside(project, option):
    (project / "k.cu").write_text(KERNEL)
    source = Source(project / "k.cu", "cuda", options=(option.format(project.parent),))
    with pytest.raises(KernelSourceError, match=r"include folder: .* lies outside"):
        build(source, "sm_80")
    with pytest.raises(KernelSourceError, match=r"include folder: .* lies outside"):
        build(Source(project / "k.cu", "cuda", include_dirs=("..",)), "sm_80")


@pytest.mark.parametrize("blank", ["", " ", "/**/", " /* ( */ ", "\\\n"])
def test_no_probe_asks_for_a_file_outside(project, blank):
    probe = f'#if __has_include{blank}("{project.parent}/secret.h")\n#endif\n'
    (project / "k.cu").write_text(probe + KERNEL)
    with pytest.raises(KernelSourceError, match="leads out of what"):
        build(Source(project / "k.cu", "cuda"), "sm_80")


@pytest.mark.skipif(tools.find("nvrtc") is None, reason="NVRTC is not installed")
def test_a_link_to_a_secret_is_not_quoted(tmp_path):
    (tmp_path / "s.env").write_text(SECRET)
    (tmp_path / "link.h").symlink_to("s.env")
    (tmp_path / "k.cu").write_text(f'#include "link.h"\n{KERNEL}')
    with pytest.raises(KernelSourceError, match="that is no source file") as caught:
        build(Source(tmp_path / "k.cu", "cuda"), "sm_80")
    assert "hunter2" not in str(caught.value)


INSIDE = [
    '#include "own.cuh"', "#include <cuda_runtime.h>", '#include "sub/../own.cuh"',
    '# include "own.cuh" // own', '// as in #include "own.cuh"',
]  # fmt: skip
BEYOND = [
    '#include "../secret.h"', '#include "{0}/secret.h"', "#include <{0}/secret.h>",
    "#include </etc/passwd>", '#include "s.env"', '#inc\\\nlude "../secret.h"',
    '%:include "../secret.h"', '#/**/include "../secret.h"', '/**/ #include "../secret.h"',
    '#define F "../secret.h"\n#include F', '??=include "../secret.h"', '#inc??/\nlude "s.env"',
    'auto a = R"(/*)";\n#include "../secret.h"\nauto b = R"(*/)";', "#embed </etc/passwd>",
    "#include <../../../../../../../../../../etc/passwd>", '#include "link.h"',
    '#import "../secret.h"', '#inc\\ \nlude "../secret.h"', '#inc\\\t\nlude "../secret.h"',
    '#inc\\\rlude "../secret.h"', '#include ".\\ \n./secret.h"', '#include /**/ "../secret.h"',
]  # fmt: skip


@pytest.mark.parametrize("line", INSIDE)
def test_headers_of_the_project_and_of_the_tools(project, line):
    (project / "sub").mkdir()
    (project / "k.cu").write_text(f"{line}\n{KERNEL}")
    assert project / "k.cu" in prepare(Source(project / "k.cu", "cuda"), "sm_80").closure.files


@pytest.mark.parametrize("line", BEYOND)
def test_nothing_else_is_included(project, line):
    (project / "link.h").symlink_to(project.parent / "secret.h")
    (project / "k.cu").write_text(f"{line.format(project.parent)}\n{KERNEL}")
    with pytest.raises(KernelSourceError) as caught:
        prepare(Source(project / "k.cu", "cuda"), "sm_80")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", ["#" + "/**/" * 40, "#/*" * 40_000, "#include " * 40_000])
def test_looking_for_includes_takes_linear_time(text):
    """A regular expression over comments once took a second for 90 bytes."""
    started = time.process_time()
    reaches_outside(f"{text}x".encode())
    assert time.process_time() - started < 2


def test_sources_data_and_folders_lie_inside(project):
    outside = project.parent / "k.cu"
    outside.write_text(KERNEL)
    with pytest.raises(KernelSourceError, match="lies outside of"):
        prepare(Source(outside, "cuda"), "sm_80")
    (project / "k.cu").write_text(KERNEL)
    for kernel, args in [
        ('{ cuda = "../k.cu" }', "{}"),
        ('{ cuda = "../none.cu" }', "{}"),  # not even whether it is there
        ('{ cuda = "k.cu", include_dirs = [".."] }', "{}"),
        ('{ cuda = "k.cu" }', '{ x = { shape = 3, data = "../numbers.npy" } }'),
    ]:
        (project / "k.perf.toml").write_text(
            f'[[test]]\nname = "t"\nkernel = {kernel}\n'
            f'launch = {{ grid = 1, block = 32, args = {args} }}\nexpect = {{ time = "< 1 s" }}\n'
        )
        with pytest.raises(PerfFileError, match="lies outside of"):
            read_perf_file(project / "k.perf.toml")


def test_without_the_variable_all_is_as_ever(project, monkeypatch):
    monkeypatch.delenv(FOLDER)
    (project / "k.cu").write_text(f'#include "../secret.h"\n{KERNEL}')
    found = prepare(Source(project / "k.cu", "cuda"), "sm_80").closure.files
    assert any(path.name == "secret.h" for path in found)


@pytest.mark.parametrize("text", ["int includes;", "#if 1", "// include <x>", '"#" include'])
def test_what_includes_nothing(text):
    assert reaches_outside(text.encode()) == ""


class TestMessages:
    @pytest.fixture(autouse=True)
    def toolchain(self, tmp_path, monkeypatch):
        if tools.find("nvrtc") is None:
            pytest.skip("NVRTC is not installed")
        monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))

    @pytest.mark.parametrize("how", ["#include", "options"])
    def test_a_secret_is_not_repeated(self, tmp_path, how):
        """Confined or not: a compiler quotes what it does not understand."""
        (tmp_path / "s.env").write_text(SECRET)
        start = '#include "s.env"\n' if how == "#include" else ""
        (tmp_path / "k.cu").write_text(start + KERNEL)
        given = () if start else ("-include=s.env",)
        with pytest.raises(KernelSourceError) as caught:
            build(Source(tmp_path / "k.cu", "cuda", options=given), "sm_80")
        assert "hunter2" not in str(caught.value)
        assert "TOKEN" not in str(caught.value)

    def test_a_header_s_message_is_kept(self, tmp_path):
        (tmp_path / "own.cuh").write_text("int a = nothing_of_that_name;")
        (tmp_path / "k.cu").write_text(f'#include "own.cuh"\n{KERNEL}')
        with pytest.raises(KernelSourceError, match="nothing_of_that_name"):
            build(Source(tmp_path / "k.cu", "cuda"), "sm_80")


class TestTools:
    def test_they_do_not_get_secrets(self, monkeypatch, tmp_path):
        monkeypatch.setenv("GITHUB_TOKEN", "hunter2")
        code = "import json, os; print(json.dumps(dict(os.environ)))"
        run = tools.run_tool("python", [sys.executable, "-I", "-c", code], folder=tmp_path)
        seen = json.loads(run.stdout)
        assert "GITHUB_TOKEN" not in seen
        assert seen["PATH"] == os.environ["PATH"]
        assert seen["TMPDIR"] == str(tmp_path)

    @pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux")
    def test_memory_is_bounded(self, monkeypatch):
        monkeypatch.setattr(tools, "_MEMORY", 1 << 28)
        run = tools.run_tool("python", [sys.executable, "-I", "-c", "bytes(1 << 29)"])
        assert run.status
        assert "MemoryError" in run.stderr


def test_lines_of_other_files_are_not_shown(tmp_path):
    """PTX and machine code say themselves which file their lines are of."""
    from perfassert.report.html import _files

    (tmp_path / "s.env").write_text(SECRET)
    (tmp_path / "k.cu").write_text(KERNEL)
    told = {"s.env": [{"line": 1}], "k.cu": [{"line": 1}], "/etc/passwd": [{"line": 1}]}
    assert list(_files([{"predictions": [{"sources": told}]}], tmp_path)) == ["k.cu"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [("k.cu", True), ("K.CUH", True), ("jit.py", True), (".env", False), ("id_rsa", False),
     (".hidden.py", False), ("s.env", False), ("a.pem", False), ("vector", False)],
)  # fmt: skip
def test_files_whose_lines_may_be_shown(name, shown):
    assert is_source(name) is shown


@pytest.mark.parametrize(
    ("ini", "given"), [("perf_confined = true", ()), ("", ("--perf-confined",))]
)
def test_the_option_and_its_ini_key(pytester, monkeypatch, ini, given):
    monkeypatch.delenv(FOLDER, raising=False)
    folder = pytester.mkdir("project")
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}\nperf_devices = a100\n")
    (pytester.path / "k.cu").write_text(KERNEL)
    (folder / "k.perf.toml").write_text(
        '[[test]]\nname = "t"\nkernel = { cuda = "../k.cu" }\n'
        'launch = { grid = 1, block = 32 }\nexpect = { time = "< 1 s" }\n'
    )
    monkeypatch.chdir(folder)
    found = pytester.runpytest(*given)
    found.stdout.fnmatch_lines(["*k.perf.toml:3: *lies outside of*"])
    assert found.ret != 0
    assert FOLDER not in os.environ


def test_the_setting_for_forks_runs_no_python(tmp_path):
    """The command of docs/explanation/security.md, where whatever is run ends the run."""
    page = (ROOT / "docs/explanation/security.md").read_text("utf-8")
    command = page.partition("\n- run: ")[2].partition("\n")[0].split()
    folder = tmp_path / "kernels"
    folder.mkdir()
    for place in (tmp_path, folder):
        for name in ("conftest.py", "test_evil.py", "evil.py"):
            (place / name).write_text("raise SystemExit('run')")
        (place / "pytest.ini").write_text("[pytest]\naddopts = -p evil\npythonpath = .\n")
    (folder / "k.cu").write_text(KERNEL)
    (folder / "k.perf.toml").write_text(
        '[[test]]\nname = "t"\nkernel = { cuda = "../k.cu" }\n'
        'launch = { grid = 1, block = 32 }\nexpect = { time = "< 1 s" }\n'
    )
    program = Path(sys.executable).with_name(command[0])
    found = subprocess.run(
        [program, *command[1:]],
        cwd=tmp_path,
        env={**os.environ, FOLDER: str(folder)},
        capture_output=True,
        text=True,
    )
    assert re.search(r"k\.perf\.toml:3: .*lies outside of", found.stdout), found
    assert "SystemExit" not in found.stdout + found.stderr


DEVICE = 'schema = 1\nname = "mine"\nextends = "{base}"\n'


def test_device_files_lie_inside(project):
    """A device file outside is rejected, also behind a link or extended by a file inside."""
    (project / "mine.toml").write_text(DEVICE.format(base="A100-SXM4-40GB"))
    assert pa.device(project / "mine.toml").arch == "sm_80"
    outside = project.parent / "mine.toml"
    outside.write_text(DEVICE.format(base="A100-SXM4-40GB"))
    (project / "linked.toml").symlink_to(outside)
    (project / "further.toml").write_text(DEVICE.format(base="../mine.toml"))
    for name in (outside, project / "linked.toml", project / "further.toml"):
        with pytest.raises(DeviceFileError, match="lies outside of"):
            pa.device(name)


OPENED_ELSEWHERE = {
    "baseline/files.py": "beside the test module that pytest collected",
    "cli/docs.py": "named on the command line",
    "cli/record.py": "named on the command line",
    "comparison/github.py": "named by GitHub",
    "comparison/read.py": "named on the command line",
    "comparison/sides.py": "a member of a wheel, taken out into a folder of its own",
    "comparison/revisions.py": "what git has written",
    "frontends/cuda/inventory.py": "what a tool has written",
    "frontends/machine/opcodes.py": "our own",
    "frontends/generators/cute.py": "what a compiler has written",
    "frontends/generators/warp.py": "what a compiler has written",
    "frontends/recording/device.py": "our own",
    "frontends/recording/session.py": "named on the command line",
    "frontends/recording/stand_in.py": "our own",
    "frontends/toolchain/build.py": "what a tool has written",
    "frontends/toolchain/cache.py": "our own",
    "frontends/toolchain/compilers.py": "what a tool has written",
    "frontends/toolchain/containers.py": "what a tool has written",
    "frontends/toolchain/includes.py": "checked as a whole, by check_confined",
    "frontends/toolchain/inputs.py": "digested, not shown: what a compiler has read already",
    "frontends/toolchain/modules.py": "what a tool has written",
    "frontends/toolchain/nvcc.py": "what a tool has written",
    "frontends/toolchain/nvrtc_worker.py": "our own",
    "hardware/load.py": "digested, not shown: what a reader has checked",
    "shipped.py": "checked where a path is named, in load.py",
    "predictor/stored.py": "our own",
    "report/files.py": "written, not read",
    "report/page.py": "our own",
    "system/confined.py": "this is the function",
    "system/watched_files.py": "memory of a tool that runs, for the path that it names",
    "system/temporary.py": "the folders that it makes",
    "system/sandbox.py": "the folders of the rules that it sets",
}


def opens_files(path):
    """Return True if the code of a file opens files; examples in docstrings do not count."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    called = [n.func for n in nodes if isinstance(n, ast.Call)]
    methods = {f.attr for f in called if isinstance(f, ast.Attribute)}
    functions = {f.id for f in called if isinstance(f, ast.Name)}
    return "open" in functions or not methods.isdisjoint(("open", "read_text", "read_bytes"))


def test_files_of_strangers_are_opened_by_one_function():
    """Other places that open a file have a reason in the list; a new one needs a reason."""
    package = ROOT / "src" / "perfassert"
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if opens_files(path) and not path.is_relative_to(package / "lab")
    }
    assert found - {"cli/explore.py"} <= set(OPENED_ELSEWHERE)


class TestFilesNamedByLines:
    """GCC quotes the line of a file that ``#line`` names, whichever it is."""

    @pytest.fixture(autouse=True)
    def toolchain(self, tmp_path, monkeypatch):
        for name in ("nvcc", "nvrtc"):
            if tools.find(name) is None:
                pytest.skip(f"{name} is not installed")
        if not shutil.which("g++"):
            pytest.skip("g++ is not installed")
        monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))

    def said(self, folder, directives):
        (folder / "k.cu").write_text(f"{KERNEL}int main() {{ return 0; }}\n{directives}\n")
        with pytest.raises(KernelSourceError) as caught:
            build(Source(folder / "k.cu", "cuda"), "sm_80")
        return str(caught.value)

    def test_relative_to_the_folder_of_the_tools(self, tmp_path, monkeypatch):
        """A path that is only valid from the folder of the tools reveals no file."""
        (tmp_path / "s.env").write_text(SECRET)
        (tmp_path / "deep" / "er").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / "deep" / "er")
        place = os.path.relpath(tmp_path / "s.env", Path(tempfile.gettempdir()) / "perfassert-x")
        assert not Path(place).exists()
        assert "hunter2" not in self.said(tmp_path, f'#line 1 "{place}"\n#error x')

    @pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
    def test_the_environment_of_the_command(self, tmp_path):
        """A file of tests whose include folder is ``/`` cannot let tools read the environment."""
        code = (
            "import os\n"
            "from pathlib import Path\n"
            "from perfassert.errors import PerfAssertError\n"
            "from perfassert.frontends.toolchain.build import build\n"
            "from perfassert.perf_toml.read import read_perf_file\n"
            f"text = {KERNEL!r} + 'int main() {{ return 0; }}\\n'\n"
            "text += f'#line 1 \"../../proc/{os.getpid()}/environ\"\\n#error x\\n'\n"
            "Path('k.cu').write_text(text)\n"
            "(case,) = read_perf_file(Path('k.perf.toml'))\n"
            "try:\n    build(case.kernel.compiled.source, 'sm_80')\n"
            "except PerfAssertError as error:\n    print(error)\n"
        )
        folder = tmp_path / "deep"
        folder.mkdir()
        (folder / "k.perf.toml").write_text(
            '[[test]]\nname = "t"\nkernel = { cuda = "k.cu", include_dirs = ["/"] }\n'
            'launch = { grid = 1, block = 32 }\nexpect = { time = "< 1 s" }\n'
        )
        env = {**os.environ, "TOKEN": "hunter2", "TMPDIR": "/tmp"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, cwd=folder, capture_output=True, text=True
        )
        assert done.stdout, done.stderr
        assert "hunter2" not in done.stdout

    def test_a_header_outside(self, project, monkeypatch):
        monkeypatch.setenv("PERFASSERT_SANDBOX", "off")
        place = project.parent / "secret.h"
        assert "hunter2" not in self.said(project, f'#line 1 "{place}"\n#error x')

    @pytest.mark.parametrize(
        "line", [b'#\0include "../secret.h"\n', b'#inc\\\0\nlude "../secret.h"\n']
    )
    def test_a_header_with_a_nul(self, project, monkeypatch, line):
        """An include with a NUL, which GCC skips like a blank, reveals no file."""
        monkeypatch.setenv("PERFASSERT_SANDBOX", "off")
        (project.parent / "secret.h").write_text("hunter2 x;\n")
        (project / "own.cuh").write_bytes(line)
        assert "hunter2" not in self.said(project, '#include "own.cuh"')


@pytest.mark.parametrize("line", ['#define F "{0}"\n#if __has_include(F)\n#endif'])
def test_whether_a_file_is_there_cannot_be_asked(project, line):
    (project / "k.cu").write_text(f"{line.format(project.parent / 's.env')}\n{KERNEL}")
    with pytest.raises(KernelSourceError):
        prepare(Source(project / "k.cu", "cuda"), "sm_80")


def test_what_is_not_included_says_nothing_of_what_is_there(project):
    said = []
    for name in ("s.env", "none.env"):
        place = project.parent / name
        (project / "k.cu").write_text(f'#if __has_include("{place}")\n#endif\n{KERNEL}')
        try:
            prepare(Source(project / "k.cu", "cuda"), "sm_80")
            said.append("")
        except KernelSourceError as error:
            said.append(str(error).replace(name, ""))
    assert said[0] == said[1]


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/zero and its limit are Linux's")
@pytest.mark.parametrize("confined", [True, False])
def test_no_device_is_read_as_a_header(project, confined):
    """Reading ``/dev/zero`` would never end; here the process may use 1 GB more than at its
    start."""
    (project / "k.cu").write_text(f'#include "/dev/zero"\n{KERNEL}')
    code = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from perfassert.errors import KernelSourceError\n"
        "from perfassert.frontends.toolchain.binary import Source\n"
        "from perfassert.frontends.toolchain.build import prepare\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "limit = pages * resource.getpagesize() + (1 << 30)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "try:\n    prepare(Source(Path('k.cu'), 'cuda'), 'sm_80')\n"
        "except KernelSourceError:\n    pass\n"
    )
    env = {k: v for k, v in os.environ.items() if k != FOLDER or confined}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-300:]


def test_baselines_lie_inside(project):
    """Read or written: a link of the pull request's leads nowhere else."""
    (project.parent / "others.toml").write_text(SECRET)
    (project / "__perf__").mkdir()
    (project / "__perf__" / "k.toml").symlink_to(project.parent / "others.toml")
    with pytest.raises(BaselineError, match="lies outside of"):
        baselines.read(project / "__perf__" / "k.toml")
    (project / "__perf__" / "new.toml").symlink_to(project.parent / "made.toml")
    update = baselines.Update({BaselineKey("t", "k", "d"): {"time": 1.0}})
    with suppress(BaselineError):
        baselines.write(project / "__perf__" / "new.toml", update)
    assert not (project.parent / "made.toml").exists()


def test_reports_to_compare_lie_inside(project):
    (project.parent / "s.json").write_text('{"format": "hunter2"}')
    (project / "base.json").symlink_to(project.parent / "s.json")
    with pytest.raises(ReportError) as caught:
        read_report(project / "base.json")
    assert "hunter2" not in str(caught.value)


@pytest.fixture
def linked(project):
    """Links of a pull request in the confined folder, and what they lead to outside."""
    out = project.parent / "out"
    out.mkdir()
    (out / "r").write_text("before")
    (out / "through").symlink_to(project)
    (project / "inner").mkdir()
    (project / "r").symlink_to("../out/r")
    (project / "folder").symlink_to(out)
    (project / "hop").symlink_to("inner/hop")
    (project / "inner/hop").symlink_to(out / "r")
    (project / "k.perf.toml").write_text(COPY)
    return project


def run_reports(folder, *words):
    program = Path(sys.executable).with_name("perfassert")
    command = [program, "test", "k.perf.toml", "--perf-device=a100", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("path", ["r", "folder/r", "folder/new", "inner/../folder/r", "hop",
                                  "{out}/through/folder/r"])  # fmt: skip
def test_no_report_is_written_through_a_link_of_a_stranger(linked, path):
    out = linked.parent / "out"
    with pytest.raises(ReportError, match=r"is a symbolic link in .*; delete the link or name"):
        replace_bytes(Path(path.format(out=out)), b"after")
    assert (out / "r").read_text() == "before"
    assert sorted(p.name for p in out.iterdir()) == ["r", "through"]


@pytest.mark.parametrize("option", ["--perf-report=json:", "--perf-report=html:", "--junit-xml="])
def test_a_run_with_such_a_report_ends_before_it_begins(linked, option):
    done = run_reports(linked, f"{option}folder/r")
    assert (done.returncode, "is a symbolic link in" in done.stderr) == (4, True), done
    assert (linked.parent / "out/r").read_text() == "before"


def test_reports_lie_where_the_user_says(linked):
    """Outside, too, and behind links that are not in the confined folder."""
    out = linked.parent / "out"
    (linked.parent / "mine").symlink_to(out)
    for place in (out / "a", linked.parent / "mine/b", linked / "inner/new/c"):
        done = run_reports(linked, f"--perf-report=json:{place}", f"--junit-xml={place}.xml")
        assert done.returncode == 0, done
        assert place.is_file()
        assert place.with_name(f"{place.name}.xml").is_file()


def test_without_the_variable_reports_follow_links(linked, monkeypatch):
    monkeypatch.delenv(FOLDER)
    replace_bytes(Path("folder/r"), b"after")
    assert (linked.parent / "out/r").read_text() == "after"


def test_a_loop_of_links_is_refused(project, monkeypatch):
    (project / "x").symlink_to("y")
    (project / "y").symlink_to("x")
    with pytest.raises(ReportError, match="is a symbolic link in"):
        replace_bytes(Path("x"), b"after")
    monkeypatch.setenv(FOLDER, str(project / "x"))
    with pytest.raises(PerfAssertError, match="is a symbolic link in a folder that this job"):
        confining()
