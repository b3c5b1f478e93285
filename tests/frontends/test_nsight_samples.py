"""Source pages of Nsight Compute: both generations of columns, the join, and damaged files."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfassert.errors import SamplesError
from perfassert.frontends.nsight import STALL_COLUMNS, read_samples
from perfassert.kernel.samples import REASONS, Count

FIXTURES = Path(__file__).parent / "fixtures" / "nsight"
NEW = FIXTURES / "samples.csv"
OLD = FIXTURES / "cycles.csv"
TEXTS = {path: path.read_text() for path in (NEW, OLD)}
BINARY = [
    (0x00, "MOV R1, c[0x0][0x28]"),
    (0x10, "S2R R0, SR_TID.X"),
    (0x20, "HFMA2.MMA R3, -RZ, RZ, 0, 2.384185791015625e-07"),
    (0x30, "IMAD.WIDE R2, R0, R3, c[0x0][0x160]"),
    (0x40, "LDG.E R4, [R2.64]"),
    (0x50, "STS [R0.X4], R4"),
    (0x60, "BAR.SYNC.DEFER_BLOCKING 0x0"),
    (0x70, "LDS R5, [R0.X4+0x4]"),
    (0x80, "@!P0 FFMA R5, R5, 2, R4"),
    (0x90, "STG.E [R2.64], R5"),
    (0xA0, "EXIT"),
    (0xB0, "BRA `(.L_x_1)"),
]
SMALL = """\
"Kernel Name","k(int)"
"Address","Source","Instructions Executed","stall_selected","stall_wait",\
"stall_selected (Not Issued)","stall_wait (Not Issued)"
"0x100","MOV R1, R2","8","2","3","0","1"
"0x110","EXIT","8","2","0","0","0"
"""
SMALL_BINARY = [(0, "MOV R1, R2"), (16, "EXIT")]


@pytest.fixture
def read(tmp_path):
    def read(text, **choice):
        path = tmp_path / "page.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_samples(path, **choice)

    return read


def replaced(old, new, text=SMALL):
    assert old in text
    return text.replace(old, new)


class TestBothGenerations:
    def test_kernel_and_file(self):
        assert read_samples(NEW).kernel == "smooth(float *, int)"
        assert read_samples(OLD).kernel == "void sim::smooth<(int)4, float>(float *, int)"
        assert read_samples(str(NEW)).file == str(NEW)

    @pytest.mark.parametrize("path", [NEW, OLD], ids=["samples", "cycles"])
    def test_instructions(self, path):
        rows = read_samples(path).instructions
        assert [row.offset for row in rows] == [offset for offset, _ in BINARY]
        assert [row.text for row in rows[:-1]] == [text for _, text in BINARY[:-1]]
        assert [row.line for row in rows] == list(range(3, 15))
        assert [row.executed for row in rows] == [3632.0] * 11 + [0.0]
        assert rows[4].counters["l2_theoretical_sectors_global_excessive"] == 3072
        assert rows[7].counters["l1_wavefronts_shared"] == 512
        assert rows[8].counters["predicated_on_thread_instructions_executed"] == 58112
        assert "l1_tag_requests_global" not in rows[0].counters

    def test_generations_agree(self):
        new, old = (read_samples(path).join_listing(BINARY) for path in (NEW, OLD))
        assert new.counts == old.counts
        assert new.issued == old.issued
        assert (new.source, new.edges) == (str(NEW), None)

    def test_joined_counts(self):
        samples = read_samples(NEW).join_listing(BINARY)
        counts = samples.counts
        assert counts[0, "instruction_fetch"] == Count(32, 30)
        assert counts[2, "constant_dependency"] == Count(4, 4)
        assert counts[3, "execution_dependency"] == Count(26, 19)  # short scoreboard and wait
        assert counts[5, "memory_dependency"] == Count(1204, 1100)
        assert counts[6, "synchronization"] == Count(90, 66)  # barrier and membar
        assert counts[8, "pipe_busy"] == Count(7, 3)
        assert counts[10, "memory_throttle"] == Count(6, 6)
        assert counts[10, "sleeping"] == Count(2, 2)
        assert counts[10, "other"] == Count(1, 1)
        assert counts[10, "selected"] == Count(11, 0)
        assert not [key for key in counts if key[0] == 11]
        assert samples.issued[11] == 0
        totals = [int(n.replace(",", "")) for n in re.findall(r'  ?[^"]+","([\d,]+)"', TEXTS[NEW])]
        assert samples.total.all == sum(totals)


class TestColumns:
    def test_every_reason_is_known(self):
        assert {column.reason for column in STALL_COLUMNS} == set(REASONS)
        spellings = [name for column in STALL_COLUMNS for name in column.spellings]
        assert len(spellings) == len(set(spellings))

    @pytest.mark.parametrize(
        ("spelling", "reason"),
        [
            ("stall_long_scoreboard", "memory_dependency"),
            ("Stall_Long_SB", "memory_dependency"),
            ("smsp__pcsamp_warps_issue_stalled_mio_throttle", "memory_throttle"),
            ("stall_warpgroup_arrive", "other"),
        ],
    )
    def test_spellings(self, read, spelling, reason):
        text = replaced("stall_wait", spelling)
        assert read(text).instructions[0].all == {"selected": 2.0, reason: 3.0}
        assert read(text).instructions[0].latency == {"selected": 0.0, reason: 1.0}

    def test_metric_names(self, read):
        name = "smsp__pcsamp_warps_issue_stalled_wait"
        text = replaced("stall_wait (Not Issued)", f"{name}_not_issued")
        assert read(text).instructions[0].latency["execution_dependency"] == 1

    def test_synonyms_in_one_file_count_once(self, read):
        text = replaced('"stall_selected"', '"stall_wait"')
        assert read(text).instructions[0].all == {"execution_dependency": 2.0}

    @pytest.mark.parametrize(
        ("name", "latency"),
        [("Sampling Data (All)", 1), ("Warp Stall Sampling (Not-issued Cycles)", 2)],
    )
    def test_what_no_column_explains_is_other(self, read, name, latency):
        text = replaced("Instructions Executed", name)
        row = read(replaced('R2","8"', 'R2","7"', text)).instructions[0]
        assert row.all.get("other", 0) == (2 if latency == 1 else 0)
        assert row.latency.get("other", 0) == (6 if latency == 2 else 0)

    def test_issued_without_the_column(self, read):
        samples = read(replaced("Instructions Executed", "x")).join_listing(SMALL_BINARY)
        assert samples.issued == {0: 2, 1: 2}
        assert read(SMALL).join_listing(SMALL_BINARY).issued == {0: 8, 1: 8}

    def test_latency_never_exceeds_all(self, read):
        samples = read(replaced('"3","0","1"', '"3","0","5"')).join_listing(SMALL_BINARY)
        assert samples.counts[0, "execution_dependency"] == Count(3, 3)

    @pytest.mark.parametrize("name", ["Address", "Source"])
    def test_missing_columns(self, read, name):
        with pytest.raises(SamplesError, match=rf"page.csv:2: the source page lacks {name}; "):
            read(replaced(name, "x"))

    def test_missing_stalls(self, read):
        text = re.sub(r"stall_\w+ \(Not Issued\)", "x", SMALL)
        with pytest.raises(SamplesError, match=r"lacks stall_\* \(Not Issued\); profile with"):
            read(text)
        with pytest.raises(SamplesError, match=r"lacks stall_\*, stall_\* \(Not Issued\)"):
            read(text.replace("stall_", "x"))

    def test_source_beside_sass(self, read):
        with pytest.raises(SamplesError, match="more than the SASS was printed"):
            read(replaced("Instructions Executed", "Source"))


class TestCells:
    @pytest.mark.parametrize("cell", ["", "-", "n/a", "12.5 %", "3%"])
    def test_nothing(self, read, cell):
        assert read(replaced('"8","2","3"', f'"8","2","{cell}"')).instructions[0].all == {
            "selected": 2.0,
            "execution_dependency": 0.0,
        }

    @pytest.mark.parametrize(
        ("cell", "value"), [("1,234", 1234), ("1,234,567.5", 1234567.5), ("7.", 7), ("2e3", 2000)]
    )
    def test_numbers(self, read, cell, value):
        row = read(replaced('"8","2","3"', f'"{cell}","2","3"')).instructions[0]
        assert row.executed == value

    @pytest.mark.parametrize("cell", ["1,23", "-3", "nan", "inf", "1e999", "0x3", "a()", "٣"])
    def test_damaged_numbers(self, read, cell):
        with pytest.raises(SamplesError, match=rf"page.csv:3: '{re.escape(cell)}' is not a count"):
            read(replaced('"8","2","3"', f'"8","2","{cell}"'))

    @pytest.mark.parametrize("address", ["00000000 00000100", "100", "0X100"])
    def test_addresses(self, read, address):
        assert [r.offset for r in read(replaced("0x100", address)).instructions] == [0, 16]

    @pytest.mark.parametrize("address", ["", "zz", "0x" + "1" * 17])
    def test_damaged_addresses(self, read, address):
        with pytest.raises(SamplesError, match="page.csv:3: no address"):
            read(replaced("0x100", address))

    def test_rows_in_another_order(self, read):
        head, (move, leave) = SMALL.splitlines()[:2], SMALL.splitlines()[2:]
        rows = read("\n".join([*head, leave, move])).instructions
        assert [(row.text, row.offset) for row in rows] == [("MOV R1, R2", 0), ("EXIT", 16)]

    def test_address_twice(self, read):
        with pytest.raises(SamplesError, match="page.csv:4: same address as in line 3"):
            read(replaced("0x110", "0x100"))

    @pytest.mark.parametrize("ending", ["\n", "\r\n"])
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
    def test_encodings(self, read, encoding, ending):
        text = SMALL.replace("\n", ending)
        assert len(read(text.encode(encoding)).instructions) == 2

    def test_cells_without_quotes(self, read):
        measured = read(SMALL.replace('"', ""))
        assert measured.kernel == "k(int)"
        assert measured.instructions[0].text == "MOV R1, R2"
        assert (
            measured.join_listing(SMALL_BINARY).counts
            == read(SMALL).join_listing(SMALL_BINARY).counts
        )

    def test_last_commas_and_talk(self, read):
        text = "==PROF== connected\n\n" + re.sub("$", ",", SMALL.strip(), flags=re.M)
        assert [row.line for row in read(text).instructions] == [5, 6]

    def test_rows_of_another_width(self, read):
        with pytest.raises(SamplesError, match="page.csv:4: 6 cells below 7 columns"):
            read(SMALL.removesuffix(',"0"\n'))


class TestWhichKernel:
    TWO = SMALL + SMALL.replace("k(int)", "void ns::f<(int)4>(float *)").replace('"8"', '"9"')

    @pytest.mark.parametrize("name", ["void ns::f<(int)4>(float *)", "ns::f", "f"])
    def test_by_name(self, read, name):
        assert read(self.TWO, kernel=name).instructions[0].executed == 9

    def test_by_launch(self, read):
        text = self.TWO + SMALL.replace('"8"', '"7"')
        assert [read(text, launch=n).instructions[0].executed for n in range(3)] == [8, 9, 7]
        assert read(text, kernel="k", launch=1).instructions[0].executed == 7

    def test_none_chosen(self, read):
        with pytest.raises(SamplesError, match=r"choose by kernel= or launch= among 2 launches"):
            read(self.TWO)
        with pytest.raises(SamplesError, match=r", not 2:\n  0: k\(int\) \(line 2\)\n  1: void"):
            read(self.TWO, launch=2)

    def test_unknown_name(self, read):
        with pytest.raises(SamplesError, match=r"no kernel 'kk'; did you mean 'k'.*'k\(int\)'"):
            read(SMALL, kernel="kk")

    def test_without_a_name(self, read):
        assert read(SMALL.split("\n", 1)[1]).kernel == ""


class TestJoin:
    def join_listing(self, binary, path=NEW):
        return read_samples(path).join_listing(binary)

    def test_spelling_of_texts(self):
        spelled = [
            (offset, f" /*{offset:04x}*/  {text.replace(' ', '   ')} ;") for offset, text in BINARY
        ]
        assert self.join_listing(spelled).counts == self.join_listing(BINARY).counts

    def test_modifiers_of_one_disassembler(self):
        binary = [(o, t.replace("LDG.E", "LDG.E.SYS")) for o, t in BINARY]
        assert self.join_listing(binary).counts == self.join_listing(BINARY).counts

    def test_another_opcode(self):
        binary = [(o, t.replace("LDG.E R4", "LDS R4")) for o, t in BINARY]
        message = (
            r"samples.csv:7: at offset 0x0040 the profile has 'LDG.E R4, \[R2.64\]', the binary "
            r"'LDS R4, \[R2.64\]' \(12 and 12 instructions\): they must be of the same build"
        )
        with pytest.raises(SamplesError, match=message):
            self.join_listing(binary)

    def test_other_modifiers(self):
        with pytest.raises(SamplesError, match=r"0x0030 .*'IMAD.WIDE .*'IMAD.MOV "):
            self.join_listing([(o, t.replace("IMAD.WIDE", "IMAD.MOV")) for o, t in BINARY])

    def test_fewer_and_more_instructions(self):
        with pytest.raises(SamplesError, match=r":12: at offset 0x0090 .* binary no instruction "):
            self.join_listing(BINARY[:9])
        with pytest.raises(SamplesError, match=r"profile has no instruction, the binary 'MOV R1"):
            self.join_listing([*BINARY, (0xC0, "MOV R1, R2")])
        with pytest.raises(SamplesError, match="binary no instruction"):
            self.join_listing([])

    def test_padding_may_be_missing(self):
        assert self.join_listing(BINARY[:11]).counts == self.join_listing(BINARY).counts
        padded = self.join_listing([*BINARY, (0xC0, "NOP"), (0xD0, "NOP")])
        assert padded.counts == self.join_listing(BINARY).counts
        assert padded.issued[13] == 0

    def test_numbers_go_by_offset(self):
        samples = self.join_listing([*BINARY[6:], *BINARY[:6]])
        assert samples.counts[11, "memory_dependency"] == Count(1204, 1100)


class TestWrongFiles:
    @pytest.mark.parametrize("text", ["", "\n\n", "==PROF== nothing\n"])
    def test_empty(self, read, text):
        with pytest.raises(SamplesError, match="is empty; print the page again with ncu"):
            read(text)

    def test_another_page(self, read):
        with pytest.raises(SamplesError, match="page.csv:1: not a source page of Nsight Compute"):
            read('"ID","Process ID","Kernel Name"\n"0","1","k"\n')

    def test_no_instructions(self, read):
        with pytest.raises(SamplesError, match="page.csv:2: no instructions"):
            read("\n".join(SMALL.splitlines()[:2]))

    def test_no_samples(self, read):
        with pytest.raises(SamplesError, match=r"no samples of k\(int\); profile a longer launch"):
            read(re.sub('"[238]"', '"0"', SMALL))

    def test_not_a_file(self, tmp_path):
        with pytest.raises(SamplesError, match="cannot be read: No such file"):
            read_samples(tmp_path / "none.csv")
        with pytest.raises(SamplesError, match="cannot be read"):
            read_samples(tmp_path)

    @pytest.mark.parametrize("data", [b"\xff\xfea", b"\x89PNG\r\n\xff", b'"Kernel Name","\xe9"'])
    def test_not_text(self, read, data):
        with pytest.raises(SamplesError, match="is not text"):
            read(data)


def reads_or_says(path, text):
    path.write_bytes(text)
    try:
        read_samples(path).join_listing(BINARY)
    except SamplesError as error:
        assert str(error).startswith(str(path))


@pytest.mark.parametrize("source", [NEW, OLD], ids=["samples", "cycles"])
def test_cut_anywhere(source, tmp_path):
    text = source.read_bytes()
    for end in range(0, len(text), 7):
        reads_or_says(tmp_path / "cut.csv", text[:end])


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_anywhere(tmp_path_factory, data):
    text = data.draw(st.sampled_from([t.encode() for t in TEXTS.values()]))
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 40)))
    junk = data.draw(st.binary(max_size=8) | st.sampled_from([b'"', b",", b"\n", b"\0", b"\r"]))
    reads_or_says(tmp_path_factory.getbasetemp() / "damaged.csv", text[:start] + junk + text[stop:])
