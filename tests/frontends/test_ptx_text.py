"""PTX text: instructions, places, parameters; damaged text is refused or read without harm."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfassert.errors import KernelSourceError
from perfassert.frontends.cuda.describe import describe
from perfassert.frontends.cuda.evaluate import evaluate
from perfassert.frontends.cuda.ptx import PtxCode, memory_of, parse_ptx
from perfassert.frontends.cuda.ptx_text import kernels
from perfassert.frontends.toolchain.fixture import from_fixture
from perfassert.kernel.symbols import Symbols

FIXTURES = Path(__file__).parent / "fixtures"
BINARIES = [
    from_fixture((FIXTURES / f"{name}.sass").read_text(), None, arch, name)
    for name, arch in (("saxpy", "sm_80"), ("reduction", "sm_80"), ("transpose", "sm_90"))
]
PTX = """\
.version 8.0
.target sm_80
.address_size 64
.shared .align 4 .b8 tile[512];

.visible .entry other() { ret; }
.visible .entry scale(
    .param .u64 data, // the array
    .param .u32 n
)
{
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<5>;
    .loc 1 3 0
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x; add.s32 %r3, %r2, -1;
$L1:
    mad.lo.s32 %r4, %r3, %r1,
               7;
    mul.wide.s32 %rd2, %r4, 4;
    add.s64 %rd3, %rd1, %rd2;
    setp.ge.s32 %p1, %r4, %r1;
    @!%p1 st.global.v2.f32 [%rd3+-8], {%f1, %f2};
    {
    atom.shared.add.u32 %r5, [tile+16], 1;
    }
    @%p1 bra $L1;
    ret;
}
"""


def accesses(text, kernel="scale"):
    symbols = Symbols()
    code = PtxCode(parse_ptx(text, kernel, "k.ptx"), symbols)
    return code, evaluate(code, symbols, "k:")


def test_instructions_and_places():
    kernel = parse_ptx(PTX, "scale", "k.ptx")
    assert kernels(PTX) == ("other", "scale")
    assert kernel.parameters == ("data", "n")
    assert kernel.labels == {"$L1": 4}
    assert kernel.variables == {"tile"}
    assert [(i.line, i.opcode) for i in kernel.instructions[2:6]] == [
        (16, "mov.u32"),
        (16, "add.s32"),
        (18, "mad.lo.s32"),
        (20, "mul.wide.s32"),
    ]
    store, atomic, jump = kernel.instructions[8:11]
    assert (store.guard, jump.guard) == (("%p1", True), ("%p1", False))
    assert store.operands == ("[%rd3+-8]", "{%f1, %f2}")
    assert memory_of(store).bytes == 8
    assert memory_of(store).store
    assert memory_of(atomic).space == "shared"
    assert memory_of(atomic).atomic
    assert memory_of(jump) is None
    assert len(kernel.flow.loops) == 1


def test_addresses_are_closed_forms():
    code, result = accesses(PTX)
    s = code.symbols
    x = s.add(s.variable("threadIdx.x"), s.number(-1))
    index = s.add(s.mul(x, s.variable("arg:1")), s.number(7))
    assert result.addresses[8][0] is s.add(s.variable("arg:0"), s.scale(index, 4), s.number(-8))
    assert result.addresses[9][0] is s.add(s.variable("array:tile"), s.number(16))


@pytest.mark.parametrize(
    ("text", "kernel", "error"),
    [
        ("", "k", r"^k\.ptx: no entry 'k'; it has none"),
        (PTX, "scales", r"^k\.ptx: no entry 'scales'; it has other, scale"),
        (PTX[: PTX.index("    ret;\n}")], "scale", r"^k\.ptx: the body of 'scale' has no end"),
        (PTX.replace("setp.ge.s32", "%%%"), "scale", r"^k\.ptx:22: not an instruction"),
    ],
)
def test_errors_say_where(text, kernel, error):
    with pytest.raises(KernelSourceError, match=error):
        parse_ptx(text, kernel, "k.ptx")


@pytest.mark.parametrize(
    "statement",
    [
        "bra", "setp", "setp.lt.s32 %p1", "setp.lt.and.s32 %p1, %r1, %r2, ", "mov", "mov.u32 %r1",
        "mov.b64 {%r1, %r2}", "mad.lo.s32 %r1, %r2", "mul.hi %r1, %r2, %r3", "cvt.u32 %r1, %r2",
        "cvt.u16.ux %r1, %r2", "shr %r1, %r2, 3", "shr.u99999999999 %r1, %r2, 3",
        "bfe.u32 %r1, %r2",
        "bfe.u32 %r1, %r2, 3, 99999999999", "bfe.u32 %r1, %r2, 3, -1", "selp.b32 %r1, %r2, %r3",
        "shr.u32 %r1, %r2, -3", "shl.b32 %r1, %r2, 99999999999", "ld.global.u32 %r1, [%rd1+x]",
        "ld.param.u64 %rd1, [data+x]", "ld.param.u64", "ld", "st.global.u32 [], %r1", "cp.async",
        "cp.async.ca.shared.global [%r1], [%rd1], \u00b2", "brx.idx %r1, $T",
        "call (%r1), f, (%r2)",
        "call", "and.pred %p1, %p2", "not.b32", "div.u32 %r1, %r2, 0", "rem.s32 %r1, %r2, -5",
        "ld.global.v2.u32 {%r1, %r2}, [%rd1]", "add.s32 %r1, %r2, 0x" + "f" * 900, "%r1 = 5",
        "add.s32 %r1, %r2, " + "9" * 5000, "prefetch", "ld.global.u\u00b2 %r1, [%rd1]",
    ],
)  # fmt: skip
def test_statements_with_unusual_operands(statement):
    for at in ("    @%p1 bra $L1;", "    mul.wide.s32"):
        try:
            _, result = accesses(PTX.replace(at, f"    {statement};\n{at}", 1))
        except KernelSourceError:
            continue
        assert result.conditions


def damaged(text, data):
    lines = text.split("\n")
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(lines) - 1))
        line, how = lines[at], data.draw(st.integers(0, 5))
        place = data.draw(st.integers(0, len(line)))
        if how == 0:
            del lines[at]
        elif how == 1:
            lines.insert(at, line)
        elif how == 2:
            lines[at] = line[:place] + data.draw(st.text(max_size=8)) + line[place + 1 :]
        elif how == 3:
            lines[at] = line[:place] + data.draw(st.sampled_from("0;%rd{}[]-,.@!$:")) + line[place:]
        elif how == 4:
            other = lines[data.draw(st.integers(0, len(lines) - 1))]
            lines[at] = line[:place] + other[place:]
        else:
            words = line.split(",")
            del words[data.draw(st.integers(0, len(words) - 1))]
            lines[at] = ",".join(words)
        lines = lines or [""]
    return "\n".join(lines)


@settings(max_examples=80)
@given(st.data())
def test_damaged_text_is_evaluated_or_refused(data):
    binary = data.draw(st.sampled_from(BINARIES))
    text = damaged(binary.ptx, data)
    try:
        accesses(text, binary.mangled)
    except KernelSourceError as error:
        assert str(error).startswith("k.ptx")


def test_a_loop_that_a_number_decides():
    """A predicate that is a sum, which no compiler writes, says nothing about trips."""
    binary = BINARIES[2]
    text = binary.ptx.replace("setp.lt.s32 \t%p4, %r34, 32", "add.s32 \t%p4, %r34, 32")
    assert text != binary.ptx
    assert describe(replace(binary, ptx=text).sealed()).instructions
