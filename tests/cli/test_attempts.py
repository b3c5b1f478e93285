"""``advise --try``: edits of a source's text, and what becomes of a copy with them."""

import json
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.cli.source_edits import add_launch_bounds, add_restrict, relocate, unroll_loop

SOURCE = """template <class T>
__global__ void scale(T* out, const T* in,
                      int n) {
#pragma unroll 1
  for (int k = 0; k < 4; ++k) out[k] = in[k];
}
extern "C" __global__ void bound(const float* __restrict__ in, float (*out)[4]) {
    while (in[0] > 0) out[0][0] = 1;
}
"""


class TestEdits:
    def test_a_pragma_takes_the_place_of_another(self):
        made = unroll_loop(SOURCE, 5, 8)
        assert "\n  #pragma unroll 8\n  for (" in made
        assert "unroll 1\n" not in made
        assert len(made.splitlines()) == len(SOURCE.splitlines())

    def test_a_pragma_before_a_loop_without_one(self):
        assert "\n    #pragma unroll 2\n    while (" in unroll_loop(SOURCE, 8, 2)

    def test_places_move_with_the_lines(self):
        """A trip count names a line of the source before the edit."""
        made = unroll_loop(SOURCE, 8, 2)  # which is line 9 then
        counts = ("a.cu:5=4", "a.cu:8=128", "C:/a.cu:8#2=n", "a.cu:9=3", "elsewhere")
        after = ("a.cu:5=4", "a.cu:9=128", "C:/a.cu:9#2=n", "a.cu:10=3", "elsewhere")
        assert tuple(relocate(c, SOURCE, made) for c in counts) == after
        replaced = unroll_loop(SOURCE, 5, 8)
        assert tuple(relocate(c, SOURCE, replaced) for c in counts) == counts

    @pytest.mark.parametrize("line", [0, 1, 4, 99])
    def test_what_is_no_loop_stays(self, line):
        assert unroll_loop(SOURCE, line, 4) is None

    def test_bounds(self):
        made = add_launch_bounds(SOURCE, "scale<float>", 128)
        assert "__global__ void __launch_bounds__(128) scale(" in made
        assert add_launch_bounds(made, "scale<float>", 128) is None
        assert add_launch_bounds(SOURCE, "absent", 128) is None

    def test_every_pointer_is_restricted_once(self):
        made = add_restrict(SOURCE, "scale")
        assert "scale(T* __restrict__ out, const T* __restrict__ in,\n" in made
        assert add_restrict(made, "scale") is None
        assert add_restrict(SOURCE, "bound") is None  # a pointer to an array is left alone


PAIRS = Path(__file__).parents[1] / "advisor_kernels" / "pairs.cu"
LISTING = Path(pa.__file__).parent / "sensitivity/saxpy.sass"
ROLLED = ["advise", str(PAIRS), "--kernel", "rolled", "--device", "a100", "--grid", "216",
          "--block", "64", "--arg", f"n={1 << 20}"]  # fmt: skip


@pytest.mark.usefixtures("toolchain")
class TestCopies:
    def test_what_wins_comes_with_a_patch(self, capsys):
        before = PAIRS.read_text()
        assert main([*ROLLED, "--try", "2", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["tried"]
        lines = [f"#pragma unroll {n}, line 88" for n in (4, 8)]
        assert [t["change"] for t in found] == lines
        for one in found:
            assert one["optimizer"] == "Loop Unrolling"
            assert one["speedup"] > 2
            assert "+  #pragma unroll" in one["patch"]
        assert found[1]["speedup"] == pytest.approx(found[1]["estimate"], rel=0.1)
        assert PAIRS.read_text() == before

    def test_a_block_with_a_row_of_its_own_is_not_resized(self, capsys):
        source = Path(__file__).parents[2] / "examples" / "kernels" / "softmax.cu"
        launch = ["--device", "a100", "--grid", "4096", "--block", "256", "--arg", "n=4096"]
        assert main(["advise", str(source), *launch, "--try", "3", "--json"]) == 0
        tried = {t["change"]: t for t in json.loads(capsys.readouterr().out)["tried"]}
        assert tried["block 512×1×1"]["speedup"] is None
        assert tried["block 512×1×1"]["error"] == "other blocks do other work"

    def test_as_text(self, capsys):
        assert main([*ROLLED, "--try", "1"]) == 0
        out = capsys.readouterr().out
        assert "tried on a copy" in out
        assert "#pragma unroll 4, line 88: " in out
        assert "--- a/pairs.cu" in out


@pytest.mark.parametrize(
    ("more", "message"),
    [(["--try", "0"], "at least 1"), (["--try", "2", "--samples", "x.csv"], "leave the profile")],
)
def test_what_does_not_go_together(more, message, capsys):
    assert main([*ROLLED, *more]) == 2
    assert message in capsys.readouterr().err


def test_only_source_can_be_changed(capsys):
    command = ["advise", str(LISTING), "--device", "a100", "--grid", "4", "--block", "256"]
    assert main([*command, "--arg", "n=1024", "--try", "1"]) == 2
    assert "give a .cu" in capsys.readouterr().err
