"""Listings of machine code: what is read out of them, and what damaged ones do."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfassert as pa
from perfassert.errors import KernelSourceError, PerfAssertError
from perfassert.frontends.analysis.describe import describe
from perfassert.frontends.machine.sass import NO_BARRIER, Control, parse_listing, parse_operand
from perfassert.frontends.toolchain.fixture import from_fixture
from perfassert.source import SourceSpan

FIXTURES = Path(__file__).parent / "fixtures"
ARCHITECTURES = {"saxpy": "sm_80", "reduction": "sm_80", "transpose": "sm_90"}
DEVICES = {"sm_80": "A100-SXM4-40GB", "sm_90": "H100-SXM5-80GB"}
ARGUMENTS = {"n": 5000, "rows": 100, "columns": 90}
TEXTS = {name: (FIXTURES / f"{name}.sass").read_text() for name in ARCHITECTURES}
GOOD = """\
\t.section\t.text.k,"ax",@progbits
        .type           k,@function
k:
.text.k:
\t//## File "/a/k.cu", line 4
\t//## File ".nv_debug_ptx_txt", line 31
        /*0000*/                   MOV R1, c[0x0][0x28] ;      /* 0x00000a0000017a02 */
                                                               /* 0x000fe40000000f00 */
\t//## File "/a/k.h", line 7 inlined at "/a/k.cu", line 5
\t//## File "/a/k.cu", line 5
        /*0010*/              @!P0 LDG.E.64 R4, [R2.64+UR6+-0x10] ;  /* 0x0000000402047981 */
                                                               /* 0x0041640008101b00 */
.L_x_1:
\t//## File "/a/k.cu", line 6
        /*0020*/               @P1 BRA P2, `(.L_x_1) ;         /* 0x0000000000017947 */
                                                               /* 0x000fea0003800000 */
.L_x_9:
"""


def binary(text, arch="sm_80"):
    return from_fixture(text, None, arch, "x.sass")


class TestListing:
    listing = parse_listing(GOOD, "k.sass")

    def test_labels_and_functions(self):
        assert self.listing.labels == {"k": 0, ".text.k": 0, ".L_x_1": 2, ".L_x_9": 3}
        assert self.listing.functions == ("k",)
        assert [i.address for i in self.listing.instructions] == [0, 16, 32]

    def test_a_function_that_is_not_named(self):
        text = GOOD.replace("        .type           k,@function", "     ,@function\n.type")
        assert parse_listing(text, "k.sass").functions == ()

    def test_opcodes_and_guards(self):
        first, load, jump = self.listing.instructions
        assert (first.base, first.modifiers, first.guard) == ("MOV", (), None)
        assert (load.base, load.modifiers, load.guard) == ("LDG", ("E", "64"), ("P0", True))
        assert jump.guard == ("P1", False)
        assert load.text == "@!P0 LDG.E.64 R4, [R2.64+UR6+-0x10]"

    def test_operands(self):
        first, load, jump = self.listing.instructions
        assert [(o.kind, o.name, o.bank, o.value) for o in first.operands] == [
            ("register", "R1", -1, 0),
            ("constant", "0x0", 0, 0x28),
        ]
        assert [(p.name, p.suffix, p.value) for p in load.operands[1].parts] == [
            ("R2", ".64", 0),
            ("UR6", "", 0),
            ("", "", -16),
        ]
        assert [(o.kind, o.name) for o in jump.operands] == [
            ("predicate", "P2"),
            ("target", ".L_x_1"),
        ]

    def test_places(self):
        first, load, jump = self.listing.instructions
        assert (first.span, first.inlined) == (SourceSpan("/a/k.cu", 4), ())
        assert load.span == SourceSpan("/a/k.h", 7)
        assert load.inlined[0] == SourceSpan("/a/k.cu", 5)
        assert (jump.span, jump.inlined) == (SourceSpan("/a/k.cu", 6), ())

    def test_control_codes(self):
        first, load, _ = (i.control for i in self.listing.instructions)
        assert (first.stall, first.write_barrier, first.read_barrier) == (2, NO_BARRIER, NO_BARRIER)
        assert load.waits() == (2,)
        assert load.write_barrier == 5

    @pytest.mark.parametrize(
        ("field", "bit", "width"),
        [("stall", 41, 4), ("write_barrier", 46, 3), ("read_barrier", 49, 3), ("wait", 52, 6),
         ("reuse", 58, 4)],
    )  # fmt: skip
    def test_each_field_has_its_bits(self, field, bit, width):
        for value in range(1 << width):
            assert getattr(Control.from_word(value << bit), field) == value
        assert getattr(Control.from_word(~(((1 << width) - 1) << bit) & 2**64 - 1), field) == 0


@pytest.mark.parametrize(
    ("text", "kind", "sign", "suffix"),
    [
        ("-R4", "register", "-", ""),
        ("~UR4.H1", "register", "~", ".H1"),
        ("|R4|", "register", "", ""),
        ("R4.reuse", "register", "", ""),
        ("!UP3", "predicate", "!", ""),
        ("-0x10", "number", "", ""),
        ("-1.5", "float", "", ""),
        ("+INF", "float", "", ""),
        ("cx[UR4][0x10]", "constant", "", ""),
        ("-c[0x3][R2+0x8].H0_H0", "constant", "-", ".H0_H0"),
        ("desc[UR4][R2.64+0x4]", "memory", "", ""),
        ("SR_TID.X", "special", "", ""),
        ("", "special", "", ""),
        ("R", "special", "", ""),
        ("[", "special", "", ""),
    ],
)
def test_operand_forms(text, kind, sign, suffix):
    operand = parse_operand(text)
    assert (operand.kind, operand.sign, operand.suffix) == (kind, sign, suffix)


LINES = GOOD.split("\n")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", r"^k\.sass: no instruction"),
        ("\0\xff garbage\n" * 3, r"^k\.sass: no instruction"),
        ("\n".join(LINES[:7]), r"^k\.sass:7: the listing ends in the middle"),
        ("\n".join([*LINES[:7], *LINES[8:]]), r"^k\.sass:8: the second word .* missing"),
        ("\n".join(LINES[7:]), r"^k\.sass:1: .*second word without its first"),
        (GOOD.replace("MOV R1, c[0x0][0x28]", ""), r"^k\.sass:7: an instruction without"),
        (GOOD.replace("c[0x0][0x28]", "9" * 5000), r"^k\.sass:7: "),
        (GOOD.replace("c[0x0][0x28]", "[" * 5000 + "]" * 5000), r"^k\.sass:7: .*nested too deep"),
    ],
)
def test_broken_listings_say_where(text, error):
    with pytest.raises(KernelSourceError, match=error):
        parse_listing(text, "k.sass")


@pytest.mark.parametrize(
    "code",
    [
        "MOV", "IMAD R1", "LDSM R2, [R1]", "LEA R1, R2, R3, 0xffffffff", "SHF R1",
        "SHF.R.U32.HI R1, RZ, 0xffffffffff, R2", "SHF.R.U32.HI R1, RZ, -0x5, R2",
        "SGXT.U32 R1, R2, 0xffffffffff", "SGXT.U32 R1, R2, -0x1", "HFMA2.MMA R1, -RZ, RZ, 1e30, 2",
        "ISETP.GE P0, P1", "IMAD.WIDE RZ, R1, R2, RZ", "LDC.64 RZ, c[0x0][0x160]", "LDC P0, R2",
        "CS2R 5, SRZ", "R2P PR, R2, 0x7f", "PLOP3.LUT P0, P1", "BRX R2 -0x10",
        "CALL.REL.NOINC 0x20",
        "CALL.REL `(k)", "RET.REL.NODEC R20 `(k)", "BRA 0xffff", "BRA `(.L_x_9)", "BRA",
        "DEPBAR.LE SB9",
        "LDG R4, [R2.X4+-R9]", "LDG R4, []", "ATOMG R1", "LOP3.LUT R1, R2, R3, R4, -0x1",
        "DMMA R1, R2", "HMMA.16816.F32", "VOTE.ANY R1, P1, P2", "LDGSTS.E [R1], [R2.64]",
        "{ NOP ;}",
        "MOV R1, 0x" + "f" * 500, "IMNMX R1, R2, R3, P9", "LDG.E R1, [R2.64+0xffffffffffffffffff]",
    ],
)  # fmt: skip
def test_instructions_with_unusual_operands(code):
    text = TEXTS["saxpy"].replace("MOV R1, c[0x0][0x28]", code + " ;\n" * code.endswith("\n"), 1)
    after = text.replace("@P0 EXIT", "STG.E [R1.64], R1", 1)
    for version in (text, after):
        assert describe(binary(version)).instructions


def damaged(text, data):
    """``text`` with lines deleted, doubled, moved or garbled."""
    lines = text.split("\n")
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(lines) - 1))
        how = data.draw(st.integers(0, 6))
        line = lines[at]
        place = data.draw(st.integers(0, len(line)))
        if how == 0:
            del lines[at]
        elif how == 1:
            lines.insert(at, line)
        elif how == 2:
            lines[at] = line[:place] + data.draw(st.text(max_size=8)) + line[place + 1 :]
        elif how == 3:
            lines[at] = line[:place]
        elif how == 4:
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        elif how == 5:
            lines[at] = line[:place] + data.draw(st.sampled_from("0fRUP[]-,.x!@`(")) + line[place:]
        else:
            other = lines[data.draw(st.integers(0, len(lines) - 1))]
            lines[at] = line[:place] + other[place:]
        lines = lines or [""]
    return "\n".join(lines)


@settings(max_examples=60)
@given(st.data())
def test_a_damaged_listing_is_described_or_refused(data):
    name = data.draw(st.sampled_from(sorted(TEXTS)))
    text = damaged(TEXTS[name], data)
    try:
        parse_listing(text, "x.sass")
    except KernelSourceError as error:
        assert str(error).startswith("x.sass")
    try:
        describe(binary(text, ARCHITECTURES[name]))
    except PerfAssertError:
        return


@settings(max_examples=30)
@given(st.binary(max_size=400))
def test_random_bytes_are_refused(content):
    with pytest.raises(KernelSourceError):
        parse_listing(content.decode(errors="replace"), "x.sass")


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_fixtures_are_predicted_without_a_toolchain(name):
    kernel = pa.from_cubin(FIXTURES / f"{name}.sass")
    names = re.findall(r"[=,](\w+):\d", TEXTS[name])
    given = {n: ARGUMENTS[n] for n in names if n in ARGUMENTS}
    launch = pa.Launch((16, 4), (32, 8), given)
    prediction = pa.predict(kernel, launch, DEVICES[ARCHITECTURES[name]])
    assert prediction.time > pa.Quantity("1 ns")
