"""Tools run alone: they see their folder, what they are given, and the system; nothing else."""

import os
import subprocess
import sys
import time

import pytest

from perfassert.errors import PerfAssertError
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import build
from perfassert.system.processes import MODES, SANDBOX, ProcessLimits, mechanisms, mode, run_process

linux = pytest.mark.skipif(sys.platform != "linux", reason="the launcher is for Linux")
alone = pytest.mark.skipif(len(mechanisms()) < 2, reason="this kernel offers no sandbox")
BOUNDS = ProcessLimits(20, 4 << 30)


def shell(script, tmp_path, **more):
    """Run a shell, which stands for a tool that is out of hand."""
    environment = {"PATH": os.environ["PATH"]}
    folder = tmp_path / "folder"
    folder.mkdir(exist_ok=True)
    command = ["/bin/sh", "-c", script]
    return run_process(command, BOUNDS, environment, folder=folder, **more)


@alone
@pytest.mark.parametrize(
    "script",
    [
        "cat /proc/{pid}/environ", "cat /proc/$PPID/environ", "cat /proc/self/environ",
        "cat {outside}", "cat ../outside", "ls {home}", "cat /etc/passwd", "touch {home}/made",
        "touch /tmp/made", "ln -s {outside} link && cat link", "cd / && cat {outside}",
        "ln {outside} hard && cat hard", "kill -0 {pid}", "mkdir /dev/shm/made",
    ],
)  # fmt: skip
def test_what_a_tool_may_not_do(tmp_path, script):
    (tmp_path / "outside").write_text("hunter2")
    names = {"pid": os.getpid(), "outside": tmp_path / "outside", "home": tmp_path}
    done = shell(script.format(**names), tmp_path)
    assert done.status != 0
    assert "hunter2" not in done.stdout
    assert not (tmp_path / "made").exists()


@alone
@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket()",
        "import socket; socket.socket(socket.AF_UNIX)",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "import socket; socket.create_connection(('127.0.0.1', 1))",
        "import os; os.kill(os.getppid(), 0)",
        "import ctypes; c = ctypes.CDLL(None); assert not c.ptrace(16, {pid}, 0, 0)",
        "import ctypes; b = bytes(200); assert ctypes.CDLL(None).syscall(425, 8, b) >= 0",
        "import subprocess; subprocess.run(['cat', '/proc/{pid}/environ'], check=True)",
        "import os; os.open('/', os.O_RDONLY); os.listdir('/root')",
        "open('/proc/{pid}/mem', 'rb')",
    ],
)  # fmt: skip
def test_what_a_program_may_not_ask_of_the_kernel(tmp_path, code):
    command = [sys.executable, "-I", "-S", "-c", code.format(pid=os.getpid())]
    done = run_process(command, BOUNDS, {}, folder=tmp_path)
    assert done.status != 0, done
    assert "Error" in done.stderr


@linux
def test_what_a_tool_may_do(tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    (given / "own.h").write_text("one")
    done = shell(f"cat {given}/own.h; cat; pwd; echo made > file; cat file", tmp_path,
                 reads=[given], stdin="two ")  # fmt: skip
    assert done.stdout.split() == ["onetwo", str(tmp_path / "folder"), "made"], done


@linux
@pytest.mark.parametrize("wanted", MODES)
def test_modes(tmp_path, monkeypatch, wanted):
    monkeypatch.setenv(SANDBOX, wanted)
    if wanted == "require" and len(mechanisms()) < 2:
        with pytest.raises(PerfAssertError, match="offers no sandbox"):
            mode()
        return
    (tmp_path / "outside").write_text("hunter2")
    done = shell("cat ../outside", tmp_path)
    assert ("hunter2" in done.stdout) is (wanted == "off" or not mechanisms())


def test_another_mode_is_an_error(monkeypatch):
    monkeypatch.setenv(SANDBOX, "perhaps")
    with pytest.raises(PerfAssertError, match="PERFASSERT_SANDBOX must be one of on, off, require"):
        mode()


@linux
def test_output_is_bounded(tmp_path):
    bounds = ProcessLimits(20, 4 << 30, file_bytes=1 << 20)
    done = run_process(["/bin/cat", "/dev/zero"], bounds, {}, folder=tmp_path)
    assert done.status < 0
    assert len(done.stdout) <= 1 << 20


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import build
from pathlib import Path
print(build(Source(Path(sys.argv[1]), "cuda"), "sm_80").mangled)
"""


@linux
@pytest.mark.skipif(tools.find("nvrtc") is None, reason="NVRTC is not installed")
def test_a_lower_limit_of_memory_stays(tmp_path, monkeypatch):
    """A limit such as a cluster's ``ulimit -v``, below the default of tools, is kept."""
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "k.cu").write_text("__global__ void k(float* x) { x[threadIdx.x] = 1; }\n")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "k.cu")], capture_output=True, text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "_Z1kPf", done.stderr


@alone
@pytest.mark.skipif(tools.find("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("host", ["#include <cstdio>\n", ""])
@pytest.mark.parametrize("asked", ['#define F "{0}"\n#include F\n', '#include "{0}"\n'])
def test_a_compiler_reads_no_file_elsewhere(tmp_path, monkeypatch, host, asked):
    """A file that does not look like a source is not in the folders that a compiler may read."""
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "id_rsa").write_text("#pragma once\nint hunter2 = ;\n")
    home = tmp_path / "home"
    home.mkdir()
    text = host + asked.format(tmp_path / "secrets" / "id_rsa")
    (home / "k.cu").write_text(text + "__global__ void k(float* x) { x[threadIdx.x] = 1; }\n")
    with pytest.raises(PerfAssertError) as caught:
        build(Source(home / "k.cu", "cuda"), "sm_80")
    assert "hunter2" not in str(caught.value)


@pytest.mark.skipif(tools.find("nvrtc") is None, reason="NVRTC is not installed")
@pytest.mark.parametrize("host", ["", "void on_the_host() {}"])
def test_headers_beside_a_source_in_the_home_folder(tmp_path, monkeypatch, host):
    """The folder has more than sources, so that only the headers that are included are read."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "factor.h").write_text("#define FACTOR 2\n")
    kernel = "__global__ void k(float* a) { *a *= FACTOR; }"
    (tmp_path / "k.cu").write_text(f'#include "factor.h"\n{kernel}\n{host}')
    assert build(Source(tmp_path / "k.cu", "cuda"), "sm_80").registers


@alone
@pytest.mark.parametrize(
    "code",
    [
        "os.chmod(outside, 0o777)",
        "os.utime(outside, (1, 1))",
        "os.chown(outside, os.getuid(), os.getgid())",
        "os.setxattr(outside, 'user.a', b'x')",
        "resource.prlimit({pid}, resource.RLIMIT_CORE, resource.prlimit({pid}, 4))",
        "os.sched_setaffinity({pid}, os.sched_getaffinity({pid}))",
        "os.setpriority(os.PRIO_PROCESS, {pid}, os.getpriority(os.PRIO_PROCESS, {pid}))",
        "call(29, 0, 4096, 0o1600)",
        "call(68, 0, 0o1600)",
        "call(250, 0, -3, 0)",
    ],
)  # fmt: skip
def test_what_else_lies_outside_of_a_tool_s_folder(tmp_path, code):
    """Modes, times, owners and attributes of files, limits of processes, memory and queues that
    others can open (shmget, msgget), keys: Landlock knows none of them."""
    (tmp_path / "outside").write_text("hunter2")
    (tmp_path / "folder").mkdir()
    script = (
        "import ctypes, os, resource\n"
        "def call(*words):\n"
        "    found = ctypes.CDLL(None, use_errno=True).syscall(*words)\n"
        "    if found < 0: raise OSError(ctypes.get_errno(), 'refused')\n"
        "    if words[0] == 29: ctypes.CDLL(None).shmctl(found, 0, None)\n"
        "    if words[0] == 68: ctypes.CDLL(None).msgctl(found, 0, None)\n"
        f"outside = {str(tmp_path / 'outside')!r}\n{code.format(pid=os.getpid())}\n"
    )
    command = [sys.executable, "-I", "-S", "-c", script]
    done = run_process(command, BOUNDS, {}, folder=tmp_path / "folder")
    assert done.status != 0, done
    assert "Error" in done.stderr


@linux
def test_a_child_in_a_session_of_its_own_ends_with_the_tool(tmp_path):
    script = (
        "import os, time\n"
        "if not os.fork():\n"
        "    os.setsid()\n"
        "    time.sleep(1)\n"
        "    open('late', 'w').close()\n"
    )
    run_process([sys.executable, "-I", "-S", "-c", script], BOUNDS, {}, folder=tmp_path)
    time.sleep(2)
    assert not (tmp_path / "late").exists()


def fixes_addresses():
    """Return True if this system lets a process fix its addresses; containers may forbid it."""
    code = "import ctypes; print(ctypes.CDLL(None).personality(0x0040000) >= 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout == "True\n"


@linux
@pytest.mark.parametrize("sandbox", ["on", "off"])
@pytest.mark.parametrize("script", [False, True])
def test_a_program_lies_at_the_same_addresses_each_time(tmp_path, monkeypatch, sandbox, script):
    if not fixes_addresses():
        pytest.skip("this system does not let a process choose where its memory lies")
    monkeypatch.setenv(SANDBOX, sandbox)
    (tmp_path / "where.py").write_text(
        "import ctypes, sys\nprint(sys.argv[1], ctypes.cast(ctypes.CDLL(None).malloc, "
        "ctypes.c_void_p).value)\n"
    )
    command = [*([] if script else [sys.executable]), str(tmp_path / "where.py"), "argument"]
    places = {
        run_process(
            command, BOUNDS, {"PATH": os.environ["PATH"]}, folder=tmp_path,
            reads=[sys.prefix, sys.base_prefix], script=script,
        ).stdout
        for _ in range(4)
    }  # fmt: skip
    (place,) = places
    assert place.startswith("argument ")


@linux
def test_addresses_that_are_fixed_already_are_said_to_be():
    if not fixes_addresses():
        pytest.skip("this system does not let a process choose where its memory lies")
    code = (
        "import ctypes; ctypes.CDLL(None).personality(0x0040000)\n"
        "from perfassert.system.processes import fixes_addresses; print(fixes_addresses())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
