"""Programs that write to the recorder what no runtime writes, and code with odd names."""

import sys

import pytest
from host_programs import need_host_compiler

import perfassert as pa
from perfassert.errors import RecordError
from perfassert.frontends.recording.memory import Allocation
from perfassert.frontends.recording.session import _MOST_PROCESSES
from perfassert.frontends.recording.write import files
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import compiled_module

pytestmark = pytest.mark.exhaustive(one_in=4)

POINTER = 0x7F0000000000
CLIENT = """
import os, socket, struct, sys

class Client(socket.socket):
    def __init__(self):
        super().__init__(socket.AF_UNIX)
        self.connect(os.environ["PERFASSERT_RECORD"])

    def put(self, kind, content=b"", size=None):
        self.sendall(struct.pack("<IIQ", kind, 0, len(content) if size is None else size) + content)

    def answer(self):
        kind, _, size = struct.unpack("<IIQ", self.recv(16, socket.MSG_WAITALL))
        return kind, self.recv(size, socket.MSG_WAITALL) if size else b""

    def module(self, number=1):
        self.put(2, struct.pack("<I", number) + open(sys.argv[1], "rb").read())

    def allocate(self, address, size):
        self.put(5, struct.pack("<QQI", address, size, 0))

    def launch(self, module=1, name=b"", grid=(4, 1, 1), block=(64, 1, 1), cluster=(1, 1, 1)):
        name = name or open(sys.argv[2], "rb").read()
        head = struct.pack("<I9II8s", module, *grid, *block, *cluster, 0, bytes(8))
        arguments = struct.pack("<QI4x", 0x7F0000000000, 100)
        self.put(4, head + text(name) + arguments)

def text(content):
    return struct.pack("<I", len(content)) + content

c = Client()
c.put(1)
c.answer()
"""
NAME = b"kernel_with_a_long_name"


@pytest.fixture
def recorded_client(tmp_path, recorded):
    """Return a function that records a client whose kernel has a given name."""
    need_host_compiler()
    for name in ("nvrtc", "nvdisasm"):
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")

    def run(steps, name=NAME, **more):
        source, script = tmp_path / "k.cu", tmp_path / "client.py"
        source.write_text(
            f'extern "C" __global__ void {NAME.decode()}(float* a, int n) {{ a[n] = 1; }}'
        )
        content = compiled_module(Source(source, "cuda"), "sm_80").cubin.replace(NAME, name)
        (tmp_path / "code").write_bytes(content)
        (tmp_path / "name").write_bytes(name)
        script.write_text(f"{CLIENT}{steps}\n")
        return recorded(sys.executable, script, tmp_path / "code", tmp_path / "name", **more)

    return run


USUAL = f"c.module(); c.allocate({POINTER}, 4096); c.launch()"


def test_a_client_that_does_what_the_runtime_does(recorded_client):
    (launch,) = recorded_client(USUAL).findings.launches.values()
    assert (launch.grid, launch.block) == ((4, 1, 1), (64, 1, 1))
    assert launch.args["n"] == 100


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ("c.put(2, size=2**63)", "a message of 9223372036854775808 bytes"),
        ("c.put(2, size=2**40)", "a message of 1099511627776 bytes"),
        ("c.put(77, b'abc')", "a message of kind 77"),
        ("c.put(4, b'abc')", "a launch that ends too early"),
        ("c.put(5, b'abc')", "a message that ends too early"),
        ("c.module(); c.put(3, struct.pack('<II', 1, 2**32 - 1))", "a message that ends too early"),
        ("c.launch(module=9)", "the number 9 of a module"),
        ("c.put(13, struct.pack('<QI', 0, 9) + text(b'v'))", "the number 9 of a module"),
        (
            "c.put(9, struct.pack('<IQ', 1, 2**62) + text(b'v') + b'x')",
            "1 bytes at 4611686018427387904 of the constant 'v'",
        ),
        ("c.module(); c.launch(grid=(2**32 - 1,) * 3)", "that is impossible: the grid has"),
        ("c.module(); c.launch(block=(2**31, 1, 1))", "that is impossible: the block has"),
        ("c.module(); c.launch(cluster=(0, 1, 1))", "that is impossible: cluster must be"),
    ],
)
def test_messages_that_no_runtime_sends(recorded_client, steps, reason):
    with pytest.raises(RecordError, match=f"the recorder was sent .*{reason}.*, which the record"):
        recorded_client(f"c.module()\n{USUAL}\n{steps}")


@pytest.mark.parametrize("size", [2**63, 2**40, 10])
def test_memory_that_is_another_amount_than_was_asked_for(recorded_client, size):
    steps = f"{USUAL}\nc.answer()\nc.put(0, b'x' * 10, size={size})"
    with pytest.raises(RecordError, match=f"{size} bytes of memory instead of 4096"):
        recorded_client(steps, contents_limit=1 << 20)


def test_a_block_without_threads_has_no_occupancy(recorded_client):
    asks = "c.put(11, struct.pack('<IiI', 1, {}, 0) + text(open(sys.argv[2], 'rb').read()))"
    checks = "".join(
        f"{asks.format(threads)}; assert c.answer()[1] == bytes(4)\n" for threads in (0, -5, 2000)
    )
    assert recorded_client(f"{USUAL}\n{checks}").status == 0


def test_more_processes_than_can_be_recorded(recorded_client):
    opened = f"kept = [Client() for _ in range({_MOST_PROCESSES + 50})]; kept[-1].recv(1)"
    with pytest.raises(RecordError, match=f"more than {_MOST_PROCESSES} processes use CUDA"):
        recorded_client(f"{USUAL}\n{opened}")


def test_memory_is_taken_as_it_comes(recorded_client):
    """A message of 8 GiB was announced, and as much memory was taken; then the program ended."""
    assert len(recorded_client(f"{USUAL}\nc.put(2, b'x', size=2**33)").findings.launches) == 1


@pytest.mark.parametrize(
    "name", [b"k\n[kernels.evil]\nx=1\n#", b"k\x1b[31m\x07::error::x#", "k\r\n‮  x".encode()]
)
def test_names_are_no_lines_of_the_launches_file(recorded_client, tmp_path, name):
    made = files(recorded_client(USUAL, name=name.ljust(len(NAME), b"#")), "launches")
    (tmp_path / "launches.toml").write_text(made.text)
    for file, content in made.beside.items():
        (tmp_path / file).write_bytes(content)
    (entry,) = pa.launches(tmp_path / "launches.toml")
    assert entry.launch.grid == (4, 1, 1)
    assert not any(
        line.startswith(("[kernels.evil", "x=1", "::error")) for line in made.text.split("\n")
    )
    assert "\x1b" not in made.text


def test_a_long_list_of_failures_is_cut(recorded_client, tmp_path, capsys, monkeypatch):
    from perfassert.cli import record as command

    recording = recorded_client(
        f"{USUAL}\nfor i in range(1000): c.put(10, text(b'call \\x1b]0;x\\x07 %d' % i))"
    )
    summary = command._summary(recording, tmp_path / "launches.toml")
    lines = command._describe_recording(summary, recording).splitlines()
    assert len(lines) < 30
    assert lines[-1] == "… and 980 more (--json has all)"
    assert len(summary["refused"]) == 1000


def test_writes_of_single_bytes():
    """Written ranges are found by search, and neighbouring ranges are merged."""
    allocation = Allocation(0, 1000)
    for start in range(0, 1000, 2):
        allocation.write(start, start + 1)
    assert len(allocation.written) == 500
    allocation.write(401, 402)
    assert (400, 403) in allocation.written
    allocation.write(1, 1000)
    assert allocation.written == [(0, 1000)]
    assert allocation.known
