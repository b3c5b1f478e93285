"""Valid inputs of parsers, each short and with all syntax that its parser knows."""

from __future__ import annotations

import sqlite3
import struct
import tempfile
from contextlib import closing
from io import BytesIO
from pathlib import Path

import numpy as np

import perfassert as pa
from perfassert.baseline.entry import BaselineKey, entry_of
from perfassert.baseline.text import format_file
from perfassert.report.document import document, to_json

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "frontends" / "fixtures"
MEMBER = b"\n==== "  # begins each file that `cuobjdump` is said to have taken out
_STRINGS, _SYMBOLS, _CODE = 3, 2, 1  # kinds of sections


def seed(name: str) -> bytes:
    """A file of ``seeds``."""
    return (Path(__file__).parent / "seeds" / name).read_bytes()


def arrays() -> list[bytes]:
    """Return an array as numpy writes it, and an archive of one."""
    plain, archive = BytesIO(), BytesIO()
    np.save(plain, np.arange(3, dtype="int16"))
    np.savez_compressed(archive, np.arange(3, dtype="int16"))
    return [plain.getvalue(), archive.getvalue()]


def database() -> bytes:
    """Return a database as Nsight Systems exports it."""
    extents = ", ".join(f"{what}{axis}" for what in ("grid", "block") for axis in "XYZ")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "p.sqlite")
        with closing(sqlite3.connect(path)) as database:
            database.executescript(
                "PRAGMA page_size = 512;"
                "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
                f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, {extents}, demangledName);"
                "INSERT INTO StringIds VALUES (1, 'copy(float *)');"
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 900, 8, 1, 1, 64, 1, 1, 1);"
            )
        return path.read_bytes()


def prediction() -> pa.Prediction:
    kernel = pa.Kernel.from_accesses("k", [pa.Field("a", shape=(4096,))], ["a[x]"])
    return pa.predict(kernel, pa.Launch.cover(4096, 64), "a100")


def report(short: bool = False) -> bytes:
    """Return the report of one test; ``short``: of each list, one or two entries."""
    data = prediction().to_dict(diagnosis=False)
    if short:
        for name in ("error_bands", "diagnostics"):
            data[name] = dict(list(data[name].items())[:1])
    told = {**data, "label": "k", "note": "", "metrics": {}, "expectations": [], "sources": {}}
    test = {"nodeid": "t.py::t", "file": "t.py", "line": 1, "device": data["device"],
            "outcome": "passed", "message": None, "predictions": [told], "rankings": [],
            "baselines": []}  # fmt: skip
    return to_json(document([test])).encode()


def baselines() -> bytes:
    found = entry_of(prediction())
    return format_file({BaselineKey("t", "default", found["device_digest"]): found}).encode()


def short_baselines() -> bytes:
    """Return baselines with one key of each kind, and comments of people."""
    found = entry_of(prediction())
    one = ("grid", "time", "limiter", "occupancy", "shared_bytes", "kernel_digest", "model_version",
           "device_digest")  # fmt: skip
    entry = {name: found[name] for name in one}
    entry |= {"bounds": {"l2": 0.5}, "fields": {"a b": {"dram_load": {"capacity": 8}}}}
    text = format_file(
        {BaselineKey("t", "default", "d"): entry}, {("t", "default", "d", "time"): ["# c"]}
    )
    return text.partition("\n")[2].encode()


def cubin() -> bytes:
    """Sections and attributes that are read, of a kernel ``k`` with a parameter and a constant."""
    names = b"\0k\0c\0"
    symbols = (
        bytes(24)
        + struct.pack("<IBBHQQ", 1, 0x12, 0x10, 4, 0, 16)
        + struct.pack("<IBBHQQ", 3, 0x11, 0, 5, 0, 4)
    )
    attributes = struct.pack("<BBHII", 4, 0x2F, 8, 1, 12) + struct.pack("<BBHII", 4, 0x11, 8, 1, 8)
    own = (
        struct.pack("<BBHIHH", 4, 0x0A, 8, 0, 0x160, 8)
        + struct.pack("<BBHIHHI", 4, 0x17, 12, 0, 0, 0, 8 << 18)
        + struct.pack("<BBH", 3, 0x4C, 1)
    )
    sections = [
        ("", 0, b""), (".shstrtab", _STRINGS, b""), (".strtab", _STRINGS, names),
        (".symtab", _SYMBOLS, symbols), (".text.k", _CODE, bytes(16)),
        (".nv.constant3", _CODE, b"\1\0\0\0"), (".nv.info", _CODE, attributes),
        (".nv.info.k", _CODE, own), (".nv.shared.k", 8, b""),
        (".note.nv.tkinfo", 7, b"-arch sm_90a "), (".nv.compat", _CODE, b"\3\x09\1\0"),
        (".rel.nv.constant3", 9, b""), (".nv_debug_ptx_txt", _CODE, b".version 8.0\0"),
    ]  # fmt: skip
    table = b"".join(name.encode() + b"\0" for name, *_ in sections)
    sections[1] = (".shstrtab", _STRINGS, table)
    heads, body, named = b"", b"", 0
    start = 64 + 64 * len(sections)
    for name, kind, held in sections:
        place = (named, kind, 0, 0, start + len(body), len(held), 0, 0, 1, 0)
        heads += struct.pack("<IIQQQQIIQQ", *place)
        body, named = body + held, named + len(name) + 1
    head = b"\x7fELF\2\1\1" + bytes([51, 7]) + bytes(7)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64, 80, 64, 0, 0, 64, len(sections), 1)
    return head + heads + body


PTX = """.version 8.0
.target sm_80
.visible .entry k(.param .u64 .ptr .global .align 4 a, // an array
  .param .align 4 .b8 s[4]) { ret; }
"""
PROFILE = b"""==PROF== Connected
"ID","Process ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"
"0","7","copy(float *)","(64, 1, 1)","(8, 1, 1)","Duration","nsecond","1,205"
"0","7","copy(float *)","(64, 1, 1)","(8, 1, 1)","Dynamic Shared Memory Per Block","byte/block","64"
"""
COMMANDS = b"""[{"directory": "/b", "file": "k.cu", "command": "nvcc -I inc -O3 -c k.cu -o k.o"},
 {"directory": "/b", "file": "l.cu", "arguments": ["nvcc", "-DN=3", "-std=c++17", "l.cu"]}]"""
LAUNCHES = b"""schema = 1
[kernels.k]
accesses = { fields = [{ name = "a", shape = [64] }], loads = ["a[x]"] }
[[launch]]
kernel = "k"
grid = 8
block = [64, 2]
args = { n = 3 }
"""
PERF = b"""[constants]\nn = 4096
[[test]]\nname = "t"
kernel = { accesses = { fields = [{ name = "a", shape = ["{n}"] }], loads = ["a[x + 1]"] } }
launch = { domain = "{n}", block = "{B}", args = { x = { shape = 8, fill = "random(0, 8)" } } }
expect = { time = "< 1 s", dram_load = "8 B/thread +- 1 %" }
parametrize = { B = [64] }
"""
MATRIX = b"""%%MatrixMarket matrix coordinate real symmetric
% c
3 3 2
1 1 1.5
3 2 -2
"""
HEADER = """//perfassert: arch=sm_80 kernel=k mangled=k registers=12 shared_bytes=0x10
//perfassert: parameters=n:0:4:value:int,x:8:8:pointer constants=3:01ff unset=c:3:0:4
//perfassert: assumption=a%20b:k.cu:3:1
.text.k:
        /*0000*/ EXIT ; /* 0x1 */
//file: k.cu
//src: void
//ptx: .version 8.0
"""
BARE = """\t.headerflags @"EF_CUDA_SM80"
//--------------------- .text.k --------------------------
	.section .text.k,"ax",@progbits
	.sectioninfo @"SHI_REGISTERS=12"
        /*0000*/ EXIT ; /* 0x1 */
"""
PARTS = MEMBER + b"k.1.sm_80.ptx\n.visible .entry k ()\0" + MEMBER + b"k.2.sm_80.cubin\n"
