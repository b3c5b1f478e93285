"""Tests of the cases that a ``*.perf.toml`` file gives, and of its errors."""

import textwrap

import numpy as np
import pytest

import perfassert as pa
from perfassert.kernel.contents import contents
from perfassert.kernel.launch import Buffer
from perfassert.perf_toml.read import read_perf_file

COPY = """
[kernels.copy]
name = "copy"
[kernels.copy.accesses]
fields = [{ name = "a", shape = "{n}" }, { name = "b", shape = "{n}" }]
loads = ["a[x]"]
stores = ["b[x]"]
[constants]
n = 1048576
"""
TEST = """
[[test]]
name = "copy"
kernel = "copy"
launch = { domain = "{n}", block = 256 }
expect = { limiter = "dram" }
"""
CUDA = 'extern "C" __global__ void copy(int n, const float* a, float* b) {}'


MATRIX = "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 4.0\n2 1 5.0\n2 2 6.0\n"


@pytest.fixture
def read(tmp_path):
    (tmp_path / "copy.cu").write_text(CUDA)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "m.mtx").write_text(MATRIX)
    np.save(tmp_path / "data" / "a.npy", np.arange(6, dtype=np.int64))
    np.savez(tmp_path / "data" / "b.npz", rows=np.arange(3), columns=np.arange(4))

    def reading(text, common=COPY):
        path = tmp_path / "x.perf.toml"
        path.write_text(textwrap.dedent(text) + common, "utf-8")
        return read_perf_file(path, "x.perf.toml")

    return reading


def ids(cases):
    found = (case.header.case_id("D").removesuffix("]") for case in cases)
    return [name.replace("[D-", "[").removesuffix("[D") for name in found]


def test_a_test(read):
    (case,) = read(TEST)
    assert case.header.case_id("L40") == "copy[L40]"
    assert case.kernel.name == "copy"
    assert case.kernel.fields["a"].shape == (1 << 20,)
    assert case.launch == pa.Launch.cover(1 << 20, 256)
    assert dict(case.expect) == {"limiter": "dram"}
    assert case.baseline is None
    assert case.header.devices is None
    assert case.header.place("expect.limiter") == "x.perf.toml:6: test[0].expect.limiter"


def test_a_compiled_kernel(read, tmp_path):
    (case,) = read(
        """
        [[test]]
        name = "copy"
        expect = { spill_bytes = 0 }
        [test.kernel]
        cuda = "copy.cu"
        name = "copy"
        defines = { T = "float", N = 2 }
        options = ["-O1"]
        include_dirs = ["include"]
        updates_per_thread = "2 * 2"
        trip_counts = { "copy.cu:1" = 3 }
        assume = { a = "x" }
        [test.launch]
        grid = [2, 3]
        block = [32, 4]
        shared_bytes = 1024
        args = ["{n}", 1.5, { shape = "{n} + 1", dtype = "float32" }, { shape = 4, alignment = 16 }]
        """
    )
    source, hints = case.kernel.compiled.source, case.kernel.compiled.hints
    assert (source.path, source.kind, source.kernel) == (tmp_path / "copy.cu", "cuda", "copy")
    assert source.defines == {"T": "float", "N": 2}
    assert (source.options, source.include_dirs) == (("-O1",), (str(tmp_path / "include"),))
    assert (hints.updates_per_thread, hints.trip_counts) == (4, {"copy.cu:1": 3})
    n = 1 << 20
    assert case.launch == pa.Launch(
        (2, 3), (32, 4), (n, 1.5, Buffer((n + 1,)), Buffer((4,), alignment=16)), 1024
    )


def test_parametrize_is_a_product_or_a_list(read):
    product = TEST.replace('"copy"\nkernel', '"p"\nkernel').replace("256", '"{BLOCK}"')
    listed = TEST.replace("256", '"{BLOCK}"').replace('"dram"', '"{limiter}"')
    cases = read(
        f"""{product}
        [test.parametrize]
        BLOCK = [128, [16, 2, 8]]
        unused = ["a", true, 1.5]
        {listed}
        parametrize = [{{ BLOCK = 64, limiter = "l2" }}, {{ limiter = "dram", BLOCK = 32 }},
                       {{ id = "wide", BLOCK = 512, limiter = "dram" }}]
        """
    )
    blocks = [f"p[{b}-{u}" for b in ("128", "16x2x8") for u in ("a", "true", "1.5")]
    assert ids(cases) == [*blocks, "copy[64-l2", "copy[32-dram", "copy[wide"]
    assert cases[3].launch.block == (16, 2, 8)
    assert cases[7].launch.block == (32, 1, 1)
    assert cases[6].expect["limiter"] == "l2"


def test_launches_by_name(read):
    cases = read(
        TEST.replace("launch =", "launches.small =")
        + """
        [test.launches.large]
        grid = "ceil_div({n}, 256) * 4"
        block = 256
        """
    )
    assert ids(cases) == ["copy[small", "copy[large"]
    assert cases[1].launch.grid == (4 * 4096, 1, 1)


def test_devices_reasons_and_baselines(read, tmp_path):
    assert pa.device("L40").name == "L40"
    cases = read(
        "devices = ['l40', 'h100']\n"
        + TEST
        + 'skip = "not now"\nbaseline = true\n'
        + TEST.replace('"copy"\nk', '"two"\nk').replace("expect", "#")
        + 'devices = ["a100"]\nxfail = { l40 = "why" }\n'
        + 'baseline = { tolerance = false, dram = "1 %", dram_load = false, registers = "0" }\n'
    )
    first, second = cases
    assert first.header.devices == ("l40", "h100")
    assert first.header.skip == {"": "not now"}
    assert first.baseline == {"tolerance": "2 %"}
    assert second.header.devices == ("a100",)
    assert second.header.xfail == {"L40": "why"}
    assert second.expect == {}
    assert second.baseline == {
        "tolerance": None, "dram": "1 %", "dram_load": None, "registers": "0",
    }  # fmt: skip


RANK = """
[[rank]]
name = "shapes"
kernel = "copy"
domain = "{n}"
candidates = [128, [256], [16, 2, 8]]
expect = { best = 128, best_in = [[256], 128], order = [256, 128], within = "5 %", of = [16, 2, 8] }
"""


def test_ranking_of_blocks(read):
    (case,) = read(RANK)
    assert {k: v[1].block for k, v in case.candidates.items()} == {
        "128×1×1": (128, 1, 1), "256×1×1": (256, 1, 1), "16×2×8": (16, 2, 8),
    }  # fmt: skip
    assert len({id(kernel) for kernel, _ in case.candidates.values()}) == 1
    assert all(launch.domain == (1 << 20, 1, 1) for _, launch in case.candidates.values())
    assert case.claims == {
        "best": "128×1×1", "best_in": ["256×1×1", "128×1×1"], "order": ["256×1×1", "128×1×1"],
        "within": "5 %", "of": "16×2×8",
    }  # fmt: skip


def test_ranking_of_variants(read):
    (case,) = read(
        """
        [[rank]]
        name = "tiles"
        kernel = { cuda = "copy.cu", defines = { A = 1, B = 1 } }
        launch = { domain = 1024, args = { n = 1, m = 2 } }
        expect.best = "two"
        [rank.candidates]
        one = { launch = { block = 64 } }
        two.kernel.defines = { B = 2 }
        two.launch = { grid = 4, block = 128, args = { m = 3 } }
        three = { kernel = "copy", launch = { block = 32 } }
        """.replace('kernel = "copy"', 'kernel = { cuda = "copy.cu", options = ["-O1"] }')
    )
    one, two, three = case.candidates.values()
    assert one[0].compiled.source.defines == {"A": 1, "B": 1}
    assert two[0].compiled.source.defines == {"A": 1, "B": 2}
    assert three[0].compiled.source.options == ("-O1",)
    assert one[1] == pa.Launch.cover(1024, 64, {"n": 1, "m": 2})
    assert two[1] == pa.Launch(4, 128, {"n": 1, "m": 3})


WRONG = {
    "nothing": ("", "1: there is nothing to check; add"),
    "top": ("tests = 1", "1: tests: unknown key; did you mean 'test'?"),
    "key": (TEST + "kernal = 1", "7: test[0].kernal: unknown key; did you mean 'kernel'?"),
    "no name": ("[[test]]\n", "1: test[0].name: missing"),
    "bad name": (TEST.replace('"copy"\nk', '"a[1]"\nk'), "3: test[0].name: must be a text without"),
    "twice": (TEST + TEST, "9: test[1].name: 'copy' is there twice"),
    "metric": (
        TEST.replace("limiter", "limitr"),
        "6: test[0].expect.limitr: unknown metric 'limitr'; did you mean 'limiter'",
    ),
    "condition": (
        TEST.replace('limiter = "dram"', 'time = "< 5 B"'),
        "6: test[0].expect.time: time: cannot understand '< 5 B': time",
    ),
    "filled condition": (
        TEST.replace('"dram"', '"{what}"') + 'parametrize.what = ["l2", "dramm"]',
        "6: test[0].expect.limiter: limiter: cannot understand 'dramm': unknown name 'dramm'; did",
    ),
    "checks nothing": (TEST.replace("expect", "#"), "2: test[0]: checks nothing; add expect or"),
    "no baseline": (
        TEST.replace("expect", "baseline = false\n#"),
        "2: test[0]: checks nothing; add expect or",
    ),
    "kernel name": (
        TEST.replace('kernel = "copy"', 'kernel = "coppy"'),
        "4: test[0].kernel: there is no kernel 'coppy'; did you mean 'copy'?",
    ),
    "no kernel": (TEST.replace("kernel", "#"), "2: test[0].kernel: missing"),
    "no source": (
        TEST.replace('kernel = "copy"', 'kernel = { name = "copy" }'),
        "4: test[0].kernel: give one of accesses, cuda, ptx, cubin",
    ),
    "no file": (
        TEST.replace('kernel = "copy"', 'kernel = { cuda = "cpy.cu" }'),
        "4: test[0].kernel.cuda: there is no file 'cpy.cu'; did you mean 'copy.cu'?",
    ),
    "a generator": (
        TEST.replace('kernel = "copy"', 'kernel = { numba = "k.py:axpy" }'),
        "4: test[0].kernel.numba: names a generator whose kernels are objects of Python, and "
        "nothing in this file is run; gate it in a Python test, or give what the generator writes",
    ),
    "stray": (
        TEST.replace('kernel = "copy"', 'kernel = { ptx = "copy.cu", defines = { A = 1 } }'),
        "4: test[0].kernel.defines: does not go with ptx",
    ),
    "define": (
        TEST.replace('kernel = "copy"', 'kernel = { cuda = "copy.cu", defines = { A = true } }'),
        "4: test[0].kernel.defines.A: must be a number or a string, not True",
    ),
    "options": (
        TEST.replace('kernel = "copy"', 'kernel = { cuda = "copy.cu", options = [1] }'),
        "4: test[0].kernel.options: must be a string, not 1",
    ),
    "trip count": (
        TEST.replace('kernel = "copy"', 'kernel = { cuda = "copy.cu", trip_counts = { i = -1 } }'),
        "4: test[0].kernel.cuda: trip_counts['i'] must be at least 0, not -1",
    ),
    "launch": (TEST.replace(", block = 256", ""), "5: test[0].launch.block: missing"),
    "both launches": (
        TEST + "launches.a = { grid = 1, block = 1 }",
        "2: test[0]: give launch, or launches as a table name → launch",
    ),
    "rivals": (
        TEST.replace("block", "grid = 1, block"),
        "5: test[0].launch.domain: does not go with grid; give one of them",
    ),
    "extent": (TEST.replace("256", "0"), "5: test[0].launch: block must be at least 1, not 0"),
    "not whole": (TEST.replace("256", "2.5"), "5: test[0].launch.block: must be an integer or"),
    "expression": (
        TEST.replace("256", "\"__import__('os').getpid()\""),
        "5: test[0].launch.block: \"__import__('os').getpid()\": ",
    ),
    "bare name": (
        TEST.replace('"{n}"', '"n * 2"'),
        "5: test[0].launch.domain: unknown name 'n'; parameters and constants go in braces",
    ),
    "division": (TEST.replace('"{n}"', '"{n} // 0"'), "5: test[0].launch.domain: '1048576 // 0': "),
    "parameter": (
        TEST.replace('"{n}"', '"{nn}"'),
        "5: test[0].launch.domain: no parameter or constant 'nn'; did you mean 'n'?",
    ),
    "parameter's values": (
        TEST + "parametrize.B = 1",
        "7: test[0].parametrize.B: must be a list of values, not 1",
    ),
    "parameter's type": (
        TEST + "parametrize.B = [1, {}]",
        "7: test[0].parametrize.B[1]: must be a number, a string or a list of them, not {}",
    ),
    "rows": (
        TEST + "parametrize = [{ A = 1 }, { B = 1 }]",
        "7: test[0].parametrize[1]: must have the names of the first: A",
    ),
    "same cases": (TEST + "parametrize.B = [1, 1]", "7: test[0].parametrize: there are two cases"),
    "constant, too": (TEST + "parametrize.n = [1]", "7: test[0].parametrize.n: is a constant, too"),
    "device": (
        "devices = ['A100-SXM4-40G']\n" + TEST,
        "1: devices[0]: unknown device 'A100-SXM4-40G'; did you mean",
    ),
    "no devices": (TEST + "devices = []", "7: test[0].devices: must be a list of devices, not []"),
    "device twice": (
        "devices = ['a100', 'A100-SXM4-40GB']\n" + TEST,
        "1: devices[1]: device A100-SXM4-40GB is given twice",
    ),
    "reason": (TEST + "skip = true", "7: test[0].skip: must be a string, not True"),
    "empty reason": (TEST + 'xfail = { l40 = "" }', "7: test[0].xfail.l40: is empty; say why"),
    "reason's device": (
        TEST + 'xfail = { l41 = "a" }',
        "7: test[0].xfail.l41: unknown device 'l41'",
    ),
    "tolerance": (
        TEST + 'baseline = { tolerance = "2 B" }',
        "7: test[0].baseline: tolerance of time: cannot understand '2 B'",
    ),
    "baseline's metric": (
        TEST + 'baseline = { drm = "2 %" }',
        "7: test[0].baseline.drm: no_regression() has no metric 'drm'; did you mean 'dram'",
    ),
    "candidates": (
        RANK.replace("[128, [256], [16, 2, 8]]", "[]"),
        "6: rank[0].candidates: must be",
    ),
    "a block twice": (RANK.replace("[256],", "[128, 1],"), "6: rank[0].candidates[1]: 128×1×1 is"),
    "a bad block": (
        RANK.replace("[256],", "[0],"),
        "6: rank[0].candidates[1]: block must be at least 1",
    ),
    "a launch in a list": (
        RANK.replace("[256],", "{},"),
        "6: rank[0].candidates[1]: a launch needs a",
    ),
    "no candidate": (
        RANK.replace("best = 128", "best = 129"),
        "7: rank[0].expect.best: '129×1×1' is no candidate; did you mean '128×1×1'",
    ),
    "no domain": (RANK.replace("domain", "#"), "6: rank[0].candidates: blocks need a domain"),
    "claims": (RANK.replace("expect", "#"), "2: rank[0].expect: missing"),
    "claim": (
        RANK.replace("best =", "bset ="),
        "7: rank[0].expect.bset: unknown key; did you mean 'best'",
    ),
    "within": (
        RANK.replace(", of = [16, 2, 8]", ""),
        "7: rank[0].expect: within and of go together",
    ),
    "share": (RANK.replace("5 %", "5 us"), "7: rank[0].expect.within: '5 us' is no percentage"),
    "order": (RANK.replace("[256, 128],", "[256],"), "7: rank[0].expect.order: needs at least two"),
    "domain twice": (
        RANK + "launch.domain = 1",
        "5: rank[0].domain: launch says it, too; give one of them",
    ),
    "variant": (
        RANK.replace("[128, [256], [16, 2, 8]]", "{ a = { lunch = 1 } }"),
        "6: rank[0].candidates.a.lunch: unknown key; did you mean 'launch'?",
    ),
}


CONTENTS = """
[[test]]
name = "contents"
kernel = { cuda = "copy.cu" }
launch = { grid = 1, block = 32, args = { n = 7, b = "null", k = { a = %s } } }
expect = { spill_bytes = 0 }
"""


def described(read, buffer):
    (case,) = read(CONTENTS % buffer)
    return case.launch.args["k"]["a"]


@pytest.mark.parametrize(
    ("buffer", "held", "dtype"),
    [
        ('{ data = "data/a.npy" }', [0, 1, 2, 3, 4, 5], "int64"),
        ('{ data = "data/a.npy", dtype = "int8", shape = [2, 3] }', [0, 1, 2, 3, 4, 5], "int8"),
        ('{ data = "data/b.npz:columns" }', [0, 1, 2, 3], "int64"),
        ('{ data = "data/m.mtx:rows" }', [0, 1, 3], "int32"),
        ('{ data = "data/m.mtx:columns" }', [0, 0, 1], "int32"),
        ('{ data = "data/m.mtx:values" }', [4.0, 5.0, 6.0], "float64"),
        ('{ shape = 3, fill = "constant n" }', [7, 7, 7], "int32"),
        ('{ shape = "2 * 2", fill = "arange % 3", dtype = "uint8" }', [0, 1, 2, 0], "uint8"),
        ('{ shape = 9 }', None, "float32"),
    ],
)  # fmt: skip
def test_contents_of_buffers(read, buffer, held, dtype):
    made = described(read, buffer)
    found = contents(made, {"n": 7})
    assert (None if found is None else found.tolist()) == held
    assert made.dtype == dtype


def test_generators_have_seeds(read):
    seeded, other = (
        described(read, f'{{ shape = 100, fill = "random(0, n)", seed = {seed} }}')
        for seed in ('"2 + 1"', 4)
    )
    assert seeded == pa.Buffer(100, fill="random(0, n)", seed=3)
    assert (contents(seeded, {"n": 7}) != contents(other, {"n": 7})).any()


def test_parameters_choose_contents(read):
    cases = read(
        CONTENTS % '{ shape = 4, fill = "{made}" }' + 'parametrize.made = ["arange", "permutation"]'
    )
    assert [c.launch.args["k"]["a"].fill for c in cases] == ["arange", "permutation"]


def test_places_and_aliases(read):
    given = '{ alias = "c", offset = 4 }, c = { shape = 8, offset = "4 * 4", alignment = 32 }'
    (case,) = read(CONTENTS.replace('"null"', given) % "1")
    assert case.launch.args["b"] == pa.Buffer(alias="c", offset=4)
    assert case.launch.args["c"] == pa.Buffer(8, offset=16, alignment=32)


GENERATORS = "random, permutation, arange, constant, csr_rows"
WRONG_CONTENTS = {
    '{ shape = 4, fil = "arange" }': ".fil: unknown key; did you mean 'fill'?",
    '{ dtype = "int32", fill = "arange" }': ".shape: missing; a pointer needs the shape",
    '{ shape = 4, fill = 3 }': ".fill: must be a string, not 3",
    '{ shape = 4, fill = "randm(0, 3)" }': f".fill: 'randm(0, 3)' is no generator: {GENERATORS}; "
    "did you mean 'random', 'arange'?",
    '{ shape = 4, fill = "random(0, m)" }': ".fill: generator 'random(0, m)': no integer argument "
    "'m'; the launch has: n",
    '{ shape = 4, fill = "random(3)" }': ".fill: generator 'random(3)': write random(low, high)",
    '{ shape = 4, fill = "random(0, 1 - n)" }': ".fill: generator 'random(0, 1 - n)': write random",
    '{ shape = 4, fill = "csr_rows(nnz_per_row=2, skew=\'band\')" }': ".fill: generator "
    "\"csr_rows(nnz_per_row=2, skew='band')\": write csr_rows(",
    '{ shape = 4, fill = "arange", dtype = "int33" }': ".fill: 'int33' is no type that numpy knows",
    '{ shape = 4, fill = "arange", seed = 1.5 }': ".seed: must be an integer or an expression",
    '{ shape = 4, fill = "arange", seed = -1 }': ".seed: must be at least 0, not -1",
    '{ shape = 4, seed = 1 }': ".seed: goes with fill, and there is none",
    '{ shape = 4, fill = "arange", data = "a.npy" }': ".fill: does not go with data; give one",
    '{ data = "data/c.npy" }': ".data: there is no file 'c.npy'; did you mean 'a.npy'",
    '{ data = "data/none.npz:rows" }': ".data: there is no file 'none.npz'",
    '{ data = "data/b.npz" }': ".data: ",
    '{ data = "data/b.npz:row" }': ".data: ",
    '{ data = "data/m.mtx:colums" }': ".data: ",
    '{ data = "copy.cu" }': ".data: ",
    '{ data = "data/a.npy", shape = 5 }': ".data: data of shape (6,) does not fit a Buffer of (5,)",
    '{ data = "data/a.npy", dtype = "int33" }': ".data: 'int33' is no type that numpy knows",
    '{ shape = 4, alignment = 0 }': ".alignment: must be at least 1, not 0",
    '{ shape = 4, offset = [1] }': ".offset: must be an integer or an expression, not [1]",
    '{ shape = -1 }': ": a Buffer's shape must be at least 0",
    '{ alias = "kk" }': ".alias: there is no argument 'kk'; did you mean 'k'?",
    '{ alias = "n" }': ".alias: 'n' is 7, no buffer",
    '{ alias = "k", fill = "arange" }': ".alias: does not go with fill; give one of them",
}  # fmt: skip
ENDS = {
    '{ data = "data/b.npz" }': "b.npz holds rows, columns; name one behind a colon",
    '{ data = "data/b.npz:row" }': "b.npz holds rows, columns; name one behind a colon; did you "
    "mean 'rows'?",
    '{ data = "data/m.mtx:colums" }': "(rows, columns, values); did you mean 'columns', 'values'?",
    '{ data = "copy.cu" }': "data is read from .npy, .npz and .mtx files",
}


@pytest.mark.parametrize("buffer", WRONG_CONTENTS)
def test_wrong_contents_are_errors_of_their_key(read, buffer):
    with pytest.raises(pa.PerfFileError) as caught:
        described(read, buffer)
    place = "x.perf.toml:5: test[0].launch.args.k.a"
    assert str(caught.value).startswith(place + WRONG_CONTENTS[buffer])
    assert ENDS.get(buffer, "") in str(caught.value)


def test_an_alias_of_itself(read):
    text = CONTENTS.replace('"null"', '{ alias = "c" }, c = { alias = "b" }') % "1"
    with pytest.raises(pa.PerfFileError) as caught:
        read(text)
    assert str(caught.value) == (
        "x.perf.toml:5: test[0].launch.args.b.alias: is an alias of itself: c → b → c"
    )


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_its_line(read, case):
    text, message = WRONG[case]
    with pytest.raises(pa.PerfFileError) as caught:
        read(text)
    assert str(caught.value).startswith(f"x.perf.toml:{message}")


def test_access_errors_name_the_line_of_the_expression(read):
    with pytest.raises(pa.PerfFileError) as caught:
        read(TEST, COPY.replace("b[x]", "c[x]"))
    assert str(caught.value).startswith(
        "x.perf.toml:13: kernels.copy.accesses.stores[0]: stores[0]: unknown field 'c'"
    )
    assert str(caught.value).endswith("\n  c[x]\n  ^")


LONG = "x" * 400_000
NUMBERS = "[" + "1, " * 20_000 + "]"


@pytest.mark.parametrize(
    ("test", "constants", "place"),
    [
        (TEST + f'launches = "{"{A}" * 20_000}"', f'A = "{LONG}"', r"test\[0\]\.launches"),
        (TEST + f"skip = {['{A}b'] * 200}", f'A = "{LONG}"', r"test\[0\]\.skip\[\d+\]"),
        (TEST + f"skip = {['{A}'] * 2000}", f"A = {NUMBERS}", r"test\[0\]\.skip\[\d+\]"),
        (TEST + f"skip = {['{A}'] * 200}", f"A = {[LONG]}", r"test\[0\]\.skip\[\d+\]"),
        (
            TEST + f"parametrize = {{ A = [{NUMBERS}], B = {list(range(2000))} }}",
            "",
            r"test\[0\]\.parametrize",
        ),
        (
            TEST + f'parametrize = {{ A = {list(range(2000))} }}\nskip = "{"y" * 20_000}"',
            "",
            r"test\[0\]\.skip",
        ),
        (
            TEST.replace('"copy"\nkernel', f'"{"c" * 20_000}"\nkernel')
            + f"parametrize = {{ A = {list(range(2000))} }}",
            "",
            r"test\[0\]",
        ),
    ],
    ids=["text", "texts", "numbers", "list", "parameters", "rows", "names"],
)
def test_what_a_short_file_comes_to_is_bounded(read, test, constants, place):
    """Read to the end, each of them takes gigabytes of memory or hours."""
    with pytest.raises(pa.PerfFileError, match=f"{place}: .*16 million characters"):
        read(test, f"{COPY}{constants}\n")


def test_many_rows_of_usual_tables_are_read(read):
    cases = read(TEST + f"parametrize = {{ A = {list(range(1000))} }}")
    assert len(cases) == 1000


def test_not_toml(tmp_path):
    path = tmp_path / "x.perf.toml"
    path.write_text("a = \n")
    with pytest.raises(pa.PerfFileError, match=r"x\.perf\.toml:1: not valid TOML: .*\n    'a ='"):
        read_perf_file(path)
    with pytest.raises(pa.PerfFileError, match="cannot be read"):
        read_perf_file(tmp_path / "y.perf.toml")
