"""Parsers of what comes from outside: what each reads, and texts that it takes as they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import mutations
from texts import (
    BARE,
    COMMANDS,
    FIXTURES,
    HEADER,
    LAUNCHES,
    MATRIX,
    MEMBER,
    PARTS,
    PERF,
    PROFILE,
    PTX,
    ROOT,
    arrays,
    baselines,
    cubin,
    database,
    report,
    seed,
    short_baselines,
)

import perfassert as pa
from perfassert.baseline import tolerance
from perfassert.baseline.text import format_file, parse_file, remarks_of
from perfassert.cli.values import values
from perfassert.comparison import limits, read
from perfassert.errors import KernelError
from perfassert.expect.condition import parse_condition
from perfassert.expect.metrics import metric
from perfassert.frontends.cuda.compile_commands import device_options, entries
from perfassert.frontends.machine.inlining import place
from perfassert.frontends.machine.sass import parse_listing
from perfassert.frontends.nsight import read_samples
from perfassert.frontends.profiles.read import read_profile
from perfassert.frontends.toolchain import containers, names, options, signature
from perfassert.frontends.toolchain.architecture import architecture
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.elf import is_host_elf
from perfassert.frontends.toolchain.fixture import from_fixture
from perfassert.hardware import load
from perfassert.kernel.contents import check_generator, contents
from perfassert.kernel.integers import evaluate_integer, integer_names
from perfassert.lab.validation.read import read_suite
from perfassert.perf_toml.launches import launches
from perfassert.perf_toml.read import read_perf_file
from perfassert.quantity import parse_quantity
from perfassert.system.confined import included_names, reaches_outside

NUMBERS = ["0", "1", "-1", "0x7fffffff", "2**63", "1e999", "nan", "inf", "9" * 400, "1_000", "٣"]
SIGNS = [*"()[]{}<>=!+-*/%,.;:@#$&|^~\"'\\ \t\r\n\0`?_", "//", "**", "<<", ">>", "==", "\u202e"]


@dataclass(frozen=True)
class Target:
    """``read`` takes content and an empty folder; ``seeds`` are read without an error and are as
    short as what they show allows; ``words``: what damage puts in; ``whole``: files as they are,
    which guided fuzzing has no time for."""

    read: Callable[[bytes, Path], object]
    seeds: tuple[bytes, ...]
    words: tuple[str, ...] = ()
    whole: tuple[bytes, ...] = ()


def of_text(
    read: Callable[[str], object], seeds: list[str], words: str = "", whole: tuple[bytes, ...] = ()
) -> Target:
    """Return the fuzz target of a parser of text."""
    return Target(
        lambda content, folder: read(content.decode("utf-8", "replace")),
        tuple(s.encode() for s in seeds),
        (*words.split(), *NUMBERS, *SIGNS),
        whole,
    )


def of_file(
    read: Callable[[Path], object],
    name: str,
    seeds: list[bytes],
    words: str = "",
    whole: tuple[bytes, ...] = (),
) -> Target:
    """Return the fuzz target of a parser of a file."""

    def written(content: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(content)
        return read(path)

    return Target(written, tuple(seeds), (*words.split(), *NUMBERS, *SIGNS), whole)


def _access(text: str) -> object:
    fields = [pa.Field("a", shape=(64, 64)), pa.Field("i", "int32", shape=(64,))]
    return pa.Kernel.from_accesses(
        "k", fields, [text], assume=dict.fromkeys(["i[x]"] if "i[x]" in text else [], "x")
    )


def _generator(text: str) -> object:
    buffer = pa.Buffer((8,), "int32", fill=text, seed=1)
    check_generator(buffer, {"n": 5})
    return contents(buffer, {"n": 5})


def _array(content: bytes, folder: Path) -> object:
    """Read an array file, whose format follows from its first bytes."""
    matrix = "a.mtx:rows" if b"general" in content else "a.mtx:columns"
    kinds = {b"PK": "a.npz", b"%%": matrix}
    name = kinds.get(content[:2], "a.npy")
    path = folder / name
    path.with_name(name.partition(":")[0]).write_bytes(content)
    return pa.Buffer(data=path)


def _integer(text: str) -> int:
    integer_names(text, KernelError)
    return evaluate_integer(text, {"n": 5, "m": 70000}, KernelError)


def _condition(text: str) -> list[object]:
    found: list[object] = []
    for name in ("time", "dram_load", "occupancy", "registers", "limiter"):
        try:
            found.append(parse_condition(metric(name), text))
        except pa.ExpectationError as error:
            found.append(error)
    if all(isinstance(f, pa.ExpectationError) for f in found):
        raise found[0]  # type: ignore[misc]
    return found


def _device(path: Path) -> object:
    """Load a device file without the cache by name and time of writing, which inputs share."""
    base = path.parent / "base.toml"
    if not base.exists():
        base.write_bytes(seed("device.toml"))
    load._load.cache_clear()
    return load.load_device(path)


def _members(content: bytes, folder: Path) -> object:
    """Parts, each with the name of a file that ``cuobjdump`` takes out of a container, and which
    kernel of them a device gets."""
    parts = content.split(MEMBER)[1:]
    for old in folder.iterdir():
        old.unlink()
    for part in parts:
        name, _, held = part.partition(b"\n")
        if re.fullmatch(rb"[\w.]{1,40}", name) and name.strip(b"."):
            (folder / name.decode()).write_bytes(held)
    found = containers.extracted_members(folder, "k")
    return containers.choose_code(found, None, architecture("sm_80"), "k.fatbin")


def _baseline(text: bytes) -> object:
    entries = parse_file(text, "f.toml")
    return format_file(entries, remarks_of(text.decode("utf-8-sig")))


def _ptx(text: str) -> object:
    """Names of parameters; ptxas reads the rest."""
    layout = [(0, 8), (8, 4)]
    return [signature.parameters(name, layout, [], text) for name in containers.entries(text)]


def _named(text: str) -> object:
    plain = names.demangle(text)
    return (
        plain,
        names.without_parameters(plain),
        names.parameter_types(plain),
        names.base_name(plain),
    )


def _source(text: str) -> object:
    return (
        signature.global_functions(text),
        reaches_outside(text.encode()),
        included_names(text.encode()),
    )


def _options(text: str) -> object:
    source = Source(Path("k.cu"), "cuda", options=tuple(text.splitlines()))
    options.check_of_file(source)
    return options.for_nvrtc(source), options.targets(source)


def _tensor_map(text: str) -> object:
    numbers = re.compile(r"-?[0-9]{1,30}")
    given = [int(word) if numbers.fullmatch(word) else word for word in text.split()]
    half = len(given) // 2
    return pa.TensorMap(given[:half], given[half:])  # type: ignore[arg-type]


def _helion(path: Path) -> object:
    types = dict.fromkeys(("x", "out"), "*fp16")
    return pa.from_helion(path, types, sizes={"x.size(0)": 64, "n": 8})


def _inductor(path: Path) -> object:
    """No kernel is compiled; what is refused is an error, too."""
    return [kernel.launch for kernel in pa.from_inductor(path, sizes={"s0": 28})]


def _commands(path: Path) -> object:
    """Read compile commands, but not the files that they name, which would be compiled."""
    return [device_options(words) for _, _, words in entries(path)]


TARGETS: dict[str, Target] = {
    "addresses": of_text(_access, ["a[y, x]", "a[y + 1, 2 * (x - 3)]", "a[i[x], x % 8 // 2]"],
                         "a i x y z threadIdx.x blockIdx.y blockDim"),
    "integers": of_text(_integer, ["n // 16 + 3", "-(n * m) % 7", "-7 // 2"], "n m"),
    "conditions": of_text(_condition, ["< 1 ms", "8 B/thread ± 1 %", "== 4 B/update", "dram | l2",
                                       "1 us .. 2 us", ">= 50 %"], "us B/thread % or ±"),
    "quantities": of_text(parse_quantity, ["3 us", "1.5 GB/s", "8 B/thread"], "us GB/s B/update"),
    "tolerances": of_text(lambda t: tolerance.parse(metric("time"), t),
                          ["2 %", "2 % or 1 us", "+2 % -10 %"], "% us or + - same"),
    "limits": of_text(limits.parse, ["registers +8", "spill_bytes +0, occupancy -10 %, new"],
                      "registers occupancy time + - % new"),
    "generators": of_text(
        _generator,
        ["random(0, 8)", "arange % 7", "constant 3", "sorted random(0, n)", "permutation",
         "random(0, 5)"], "random arange constant csr_rows n sorted"),
    "arrays": Target(_array, (*arrays(), MATRIX, MATRIX.replace(b"symmetric", b"general")), (
        "<f8 |V4 |O 'shape': (8,) symmetric pattern real complex".split() + NUMBERS + SIGNS)),
    "arguments": of_text(
        lambda t: values([f"x={t}"], "--arg"), ["3", "1.5", "Buffer(65, fill='arange')", "1, 2"],
        "Buffer( fill='random(0, 3)' dtype='int32' null (2, 3)"),
    "tensor maps": of_text(_tensor_map, ["64 64 8 8", "128 64"], "8 64 256 65536"),
    "names": of_text(_named, ["_Z4copyIfEvPT_i", "_ZN1a3addB3twoB3oneEi", "ns::f<3, int>(int*)"],
                     "_Z N I E K S_ T_ B"),
    "sources": of_text(_source, ["__global__ void k(float* a) {}\n", '#include "a.h"\n',
                                 "template <int N> __global__ void __launch_bounds__(64) k() {}"],
                       "__global__ void template < > #include /* */ //"),
    "options": of_text(_options, ["-O1\n-DN=3", "-arch=sm_80", "-Xptxas=-v,-O3"],
                       "-arch -gencode arch=compute_80,code=sm_80 -Xptxas -D"),
    "PTX": of_text(_ptx, [PTX], ".param .u64 .ptr .align .b8 .visible .entry k_param_0"),
    "listings": of_text(lambda t: place(parse_listing(t, "k.sass")),
                        [seed("listing.sass").decode()],
                        "R1 UR4 P0 @!P0 LDG.E IMAD.WIDE c[0x0][0x160] .L_x_1 desc[UR4]",
                        ((FIXTURES / "saxpy.sass").read_bytes(),)),
    "headers of listings": of_text(lambda t: from_fixture(t, None, "sm_80", "k.sass"),
                                   [HEADER, BARE],
                                   "registers= parameters= constants= assumption= %20 //ptx:"),
    "machine code": Target(lambda c, f: (containers.begins_as_code(c), is_host_elf(c),
                                         mutations.elf(c, f / "k.cubin")),
                           (cubin(),), (*NUMBERS, *SIGNS),
                           ((FIXTURES / "loop.cubin").read_bytes(),)),
    "containers": Target(_members, (PARTS + cubin(),),
                         (MEMBER.decode(), "a.sm_80.ptx", ".entry k", *NUMBERS)),
    "device files": of_file(_device, "d.toml", [seed("device.toml"), seed("extends.toml")],
                            "value source grade [a] [[a]] = extends",
                            ((ROOT / "devices" / "A100-SXM4-40GB.toml").read_bytes(),)),
    "baselines": Target(lambda c, f: _baseline(c), (short_baselines(),), (*NUMBERS, *SIGNS),
                        (baselines(),)),
    "perf.toml": of_file(read_perf_file, "t.perf.toml", [PERF], "kernel launch expect {B} cuda"),
    "launches": of_file(launches, "l.toml", [LAUNCHES], "kernel grid block args data shape"),
    "suites": of_file(read_suite, "s.toml", [seed("suite.toml")], "[[metric]] cuda each column",
                      ((ROOT / "validation" / "stars_v100.toml").read_bytes(),)),
    "samples": of_file(read_samples, "s.csv", [seed("samples.csv")],
                       "stall_wait Address Source , 0x10",
                       ((FIXTURES / "nsight" / "samples.csv").read_bytes(),)),
    "profiles": of_file(read_profile, "p.csv", [PROFILE],
                        "Duration (64,1,1) 1,205 nsecond byte/block launch__cluster_dim_x"),
    "databases": of_file(read_profile, "p.sqlite", [database()]),
    "compilation databases": of_file(_commands, "compile_commands.json", [COMMANDS],
                                     "arguments command -I -optf -o output"),
    "reports": of_file(read.read, "r.json", [report(short=True)],
                       "null true [] {} tests predictions NaN", (report(),)),
}  # fmt: skip
if find_spec("triton"):
    TARGETS |= {
        "Inductor files": of_file(_inductor, "k.py", [seed("inductor.txt")],
                                  "tl. getattr : \n    if for in return = ( ) ''' num_warps "),
        "Helion files": of_file(_helion, "f.py", [seed("helion.txt")],
                                "tl. getattr : \n    if for in return = ( ) _launcher"),
    }  # fmt: skip
