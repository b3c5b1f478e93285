"""Advice from a measured profile: pages with the stalls of a pattern on the right instructions."""

from pathlib import Path

import pytest
from nsight_page import GENERATIONS, program_of, write_page

import perfassert as pa
from perfassert.errors import KernelError

pytestmark = pytest.mark.exhaustive(one_in=2)

SOURCE = Path(__file__).parents[1] / "advisor_kernels" / "pairs.cu"
APART = """
extern "C" __global__ void apart(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0;
  _Pragma("unroll 1") for (int k = 0; k < 64; ++k) {
    float b = in[i + k * n];
    s = s * 0.5f + b;
  }
  out[i] = s;
}
"""
N = 1 << 20
LAUNCH = pa.Launch(N // 256, 256, args={"n": N})
DEVICE = pa.device("a100")


class Measured:
    """A kernel and the page of its profile."""

    def __init__(self, folder, name, generation="samples.csv", source=SOURCE, **settings):
        self.path, self.name, self.generation = folder / "page.csv", name, generation
        self.kernel = pa.from_cuda(source, kernel=name, **settings)
        try:
            self.program = program_of(self.kernel, LAUNCH, DEVICE)
        except pa.ToolchainMissing as missing:
            pytest.skip(str(missing))

    def numbers(self, *opcodes):
        """Instructions by opcode without modifiers."""
        found = [i.index for i in self.program.instructions if i.opcode.split(".")[0] in opcodes]
        assert found, opcodes
        return found

    def after(self, *opcodes):
        """The first users of what such an instruction defines."""
        made = self.program.instructions
        return [
            next(i.index for i in made[n + 1 :] if set(made[n].defines) & set(i.uses))
            for n in self.numbers(*opcodes)
        ]

    def page(self, stalls):
        return write_page(self.path, self.program, stalls, self.generation, f"{self.name}(float *)")

    def advice(self, numbers, column, count=500):
        page = self.page({(n, column): count for n in numbers})
        return pa.advise(self.kernel, pa.read_samples(page), LAUNCH, DEVICE)


@pytest.fixture
def measured(tmp_path):
    return lambda name, *rest, **settings: Measured(tmp_path, name, *rest, **settings)


def first_three(advice):
    return [a.optimizer for a in advice[:3]]


@pytest.mark.parametrize("generation", GENERATIONS)
class TestPatterns:
    def test_definition_and_use_are_lines(self, measured, generation, tmp_path):
        source = tmp_path / "apart.cu"
        source.write_text(APART)
        m = measured("apart", generation, source=source)
        advice = m.advice(m.after("LDG"), "stall_long_sb", 40)
        assert {"Loop Unrolling", "Code Reordering"} <= set(first_three(advice)), advice
        for name in ("Loop Unrolling", "Code Reordering"):
            hot = next(a for a in advice if a.optimizer == name).hotspots[0]
            assert (hot["def"], hot["use"]) == ("apart.cu:6", "apart.cu:7")
            assert hot["instructions"] == ["LDG.E", "FFMA"]
            assert hot["distance"] > 0

    def test_of_a_rolled_loop(self, measured, generation):
        m = measured("rolled", generation)
        advice = m.advice(m.after("LDG"), "stall_long_sb", 40)
        assert {"Loop Unrolling", "Code Reordering"} <= set(first_three(advice)), advice
        unrolling = next(a for a in advice if a.optimizer == "Loop Unrolling")
        assert unrolling.hotspots[0]["instructions"] == ["LDG.E", "FFMA"]
        assert unrolling.hotspots[0]["distance"] == 4
        assert 1 < unrolling.speedup <= 2
        assert unrolling.speedup == unrolling.formula_speedup

    def test_waits_before_the_loop(self, measured, generation):
        m = measured("precise", generation)
        advice = m.advice(m.after("LDG"), "stall_long_sb")
        assert first_three(advice)[0] == "Code Reordering"
        assert "Loop Unrolling" not in [a.optimizer for a in advice]
        assert advice[0].hotspots[0]["instructions"][0].startswith("LDG")

    def test_instruction_fetch(self, measured, generation):
        m = measured("rolled", generation)
        advice = m.advice(range(18), "stall_no_inst")
        assert first_three(advice) == ["Function Split"]
        total = 18 * 504 + 14 * 4
        assert advice[0].speedup == pytest.approx(total / (total - 18 * 500))
        assert advice[0].importance == pytest.approx(18 * 500 / total)

    @pytest.mark.parametrize("late", [0, 1])
    def test_barriers(self, measured, generation, late):
        m = measured("imbalanced", generation)
        advice = m.advice([n + late for n in m.numbers("BAR")[:1]], "stall_barrier")
        assert first_three(advice)[0] == "Warp Balance"
        place = m.program.instructions[m.numbers("BAR")[0]].span.short
        assert advice[0].hotspots[0]["def"] == place
        assert place in advice[0].suggestion

    @pytest.mark.parametrize(
        ("kernel", "optimizer"),
        [("contiguous", "Memory Transaction Reduction"), ("strided", "Coalescing")],
    )
    def test_throttled_loads(self, measured, generation, kernel, optimizer):
        m = measured(kernel, generation)
        column = "stall_lg" if generation == "samples.csv" else "stall_tex"
        advice = m.advice(m.numbers("LDG"), column)
        assert first_three(advice)[0] == optimizer
        other = {"Memory Transaction Reduction", "Coalescing"} - {optimizer}
        assert not other & {a.optimizer for a in advice}

    def test_local_memory(self, measured, generation):
        m = measured("many_values", generation, options=("-maxrregcount=32",))
        advice = m.advice(m.after("LDL"), "stall_long_sb")
        assert first_three(advice)[0] == "Register Reuse"
        assert "bytes per thread" in advice[0].suggestion

    def test_shared_memory(self, measured, generation):
        m = measured("conflicts", generation)
        advice = m.advice(m.after("LDS"), "stall_short_sb")
        assert "Shared Bank Conflict Removal" in first_three(advice)

    def test_mathematical_functions(self, measured, generation):
        m = measured("precise", generation)
        advice = m.advice(m.after("MUFU"), "stall_short_sb")
        assert "Fast Math" in first_three(advice)

    def test_called_functions(self, measured, generation):
        m = measured("calls", generation)
        inside = [i.index for i in m.program.instructions if i.function and i.opcode != "NOP"]
        for place in (inside[:4], m.numbers("CALL")):
            advice = m.advice(place, "stall_wait", 20)
            assert first_three(advice)[0] == "Function Inlining", advice

    def test_loads_that_are_off_by_one_element_are_coalesced(self, measured, generation):
        m = measured("double_constant", generation)
        advice = m.advice(m.numbers("LDG"), "stall_lg")
        assert first_three(advice)[0] == "Memory Transaction Reduction"
        assert "Coalescing" not in [a.optimizer for a in advice]


class TestJoining:
    def test_another_build(self, measured):
        m = measured("rolled")
        page = m.page({(13, "stall_long_sb"): 40})
        other = pa.from_cuda(SOURCE, kernel="unrolled")
        with pytest.raises(pa.SamplesError, match=r"page\.csv:\d+: .*must be of the same build"):
            pa.advise(other, pa.read_samples(page), LAUNCH, DEVICE)

    def test_another_architecture(self, measured):
        m = measured("rolled")
        page = m.page({(13, "stall_long_sb"): 40})
        with pytest.raises(pa.SamplesError, match="same build"):
            pa.advise(m.kernel, pa.read_samples(page), LAUNCH, "RTX-2080-Ti")

    def test_kernels_that_are_not_compiled(self, measured):
        m = measured("rolled")
        samples = pa.read_samples(m.page({(13, "stall_long_sb"): 40}))
        g = pa.InstructionGraph.builder()
        g.op("mem")
        latencies = {"mem": pa.Latency(issue=2, completion=500, pipeline="global")}
        drawn = pa.Kernel.from_graph("drawn", g.build(), latencies=latencies, registers=20)
        with pytest.raises(KernelError, match="compiled code"):
            pa.advise(drawn, samples, LAUNCH, DEVICE)
        with pytest.raises(KernelError, match="read_samples"):
            pa.advise(m.kernel, {"counts": 1}, LAUNCH, DEVICE)

    def test_generations_give_the_same_advice(self, measured):
        found = []
        for generation in GENERATIONS:
            m = measured("rolled", generation)
            found.append(m.advice(m.after("LDG"), "stall_long_sb", 40))
        assert found[0] == found[1]

    def test_template_arguments_may_be_spelt_differently(self, measured):
        m = measured("rolled")
        page = m.page({(13, "stall_long_sb"): 40})
        page.write_text(page.read_text().replace("rolled(float *)", "void ns::rolled<(int)4>(int)"))
        for name in ("ns::rolled<4>", "rolled", "ns::rolled"):
            assert pa.read_samples(page, kernel=name).kernel == "void ns::rolled<(int)4>(int)"
        with pytest.raises(pa.SamplesError, match="no kernel"):
            pa.read_samples(page, kernel="other::rolled<4>")

    def test_headline_names_of_the_launch_do_not_matter(self, measured):
        m = measured("rolled")
        page = m.page({(13, "stall_long_sb"): 40})
        by_name = pa.read_samples(page, kernel="rolled")
        assert pa.advise(m.kernel, by_name, LAUNCH, DEVICE)
