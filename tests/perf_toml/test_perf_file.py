"""What a ``*.perf.toml`` file comes to, and what is wrong with others."""

import textwrap

import pytest

import perfassert as pa
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


@pytest.fixture
def read(tmp_path):
    (tmp_path / "copy.cu").write_text(CUDA)

    def reading(text, common=COPY):
        path = tmp_path / "x.perf.toml"
        path.write_text(textwrap.dedent(text) + common, "utf-8")
        return read_perf_file(path, "x.perf.toml")

    return reading


def ids(cases):
    return [case.header.case_id("D").removesuffix("-D]").removesuffix("[D]") for case in cases]


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
        proxies = { a = "x" }
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
        "4: test[0].kernel.cuda: trip_counts['i'] must be a whole number ≥ 0, not -1",
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
    "extent": (TEST.replace("256", "0"), "5: test[0].launch: block must be at least 1 in every"),
    "not whole": (TEST.replace("256", "2.5"), "5: test[0].launch.block: must be a whole number or"),
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
        "7: test[0].baseline.drm: no_regression() knows no metric 'drm'; did you mean 'dram'",
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


def test_not_toml(tmp_path):
    path = tmp_path / "x.perf.toml"
    path.write_text("a = \n")
    with pytest.raises(pa.PerfFileError, match="not valid TOML.*line 1"):
        read_perf_file(path)
    with pytest.raises(pa.PerfFileError, match="cannot be read"):
        read_perf_file(tmp_path / "y.perf.toml")
