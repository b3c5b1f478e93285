"""``perfassert advise``: its text, its JSON, its exit codes."""

import csv
import json
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.kernel.samples import STALLS
from perfassert.predictor.model import bind_launch, make_model
from perfassert.predictor.session import DEFAULT

SOURCE = Path(__file__).parents[1] / "advisor_kernels" / "pairs.cu"
N = 1 << 20
LAUNCH = ["--device", "a100", "--grid", "216", "--block", "64", "--arg", f"n={N}"]
ROLLED = ["advise", str(SOURCE), "--kernel", "rolled", *LAUNCH]
ADVICE = {"optimizer", "category", "speedup", "importance", "suggestion", "hotspots",
          "formula_speedup", "context", "proof"}  # fmt: skip
HOTSPOT = {"def", "use", "distance", "importance", "speedup", "instructions", "function", "loop",
           "stall", "call_path", "file", "line"}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def program():
    launch = pa.Launch(216, 64, args={"n": N})
    kernel, device = pa.from_cuda(SOURCE, kernel="rolled"), pa.device("a100")
    try:
        model = make_model(bind_launch(DEFAULT.ask(kernel, launch, device)), launch, device)
        return model.bound_launch.kernel.program
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def page(program, tmp_path):
    """A profile with waits for the load of the loop."""
    path = tmp_path / "profile.csv"
    load = next(i.index for i in program.instructions if i.opcode.startswith("LDG"))
    use = next(i.index for i in program.instructions[load:] if i.opcode == "FFMA")
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["Kernel Name", "rolled(float *, const float *, int)"])
        rows.writerow(["Address", "Source", "stall_selected", "stall_long_sb",
                       "stall_selected (Not Issued)", "stall_long_sb (Not Issued)"])  # fmt: skip
        for i in program.instructions:
            waits = 40 if i.index == use else 0
            rows.writerow([f"{i.address:#x}", i.text, 4, waits, 0, waits])
    return path


class TestText:
    def test_of_the_simulation(self, capsys):
        assert main(ROLLED) == 0
        out = capsys.readouterr().out
        assert out.startswith("rolled on A100-SXM4-40GB: grid 216×1×1, block 64×1×1\npredicted ")
        assert "samples: simulation" in out
        assert "warps are" in out
        assert "memory_dependency" in out
        assert "Code optimizers\n===" in out
        assert "1. Loop Unrolling: 5." in out
        assert "x as fast (formula 1." in out
        assert "the launch simulated again with the change made" in " ".join(out.split())
        assert "loop at pairs.cu:88, 64 trips" in out
        assert "pairs.cu:88: for (int k = 0; k < N; ++k) s = s * 0.5f + in[i + k * n];" in out
        assert "instructions apart" in out

    def test_of_a_profile(self, capsys, page):
        assert main([*ROLLED, "--samples", str(page)]) == 0
        out = capsys.readouterr().out
        assert f"samples: {page}" in out
        assert "warps are" not in out
        assert "x as fast by the formula, importance" in out
        assert "1. Code Reordering" in out or "1. Loop Unrolling" in out

    def test_nothing_to_say(self, capsys, program, tmp_path):
        path = tmp_path / "fine.csv"
        lines = ["Address,Source,stall_selected,stall_selected (Not Issued)"]
        lines += [f'{i.address:#x},"{i.text}",4,0' for i in program.instructions]
        path.write_text("\n".join(['"Kernel Name","rolled"', *lines]))
        assert main([*ROLLED, "--samples", str(path)]) == 0
        assert "No suggestion" in capsys.readouterr().out


class TestJson:
    def read(self, capsys, *more):
        assert main([*ROLLED, "--json", *more]) == 0
        return json.loads(capsys.readouterr().out)

    def test_of_the_simulation(self, capsys):
        data = self.read(capsys)
        assert set(data) == {"kernel", "device", "grid", "block", "time", "limiter", "samples",
                             "stalls", "bound", "advice", "confidence", "confidence_reasons",
                             "assumptions", "tried", "left_out", "left_out_because"}  # fmt: skip
        assert (data["kernel"], data["samples"]) == ("rolled", "simulation")
        assert (data["grid"], data["block"]) == ([216, 1, 1], [64, 1, 1])
        assert set(data["stalls"]) <= set(STALLS)
        assert sum(data["stalls"].values()) == pytest.approx(1)
        speedups = [a["speedup"] for a in data["advice"]]
        assert speedups == sorted(speedups, reverse=True)
        for advice in data["advice"]:
            assert set(advice) == ADVICE
            assert all(set(hotspot) == HOTSPOT for hotspot in advice["hotspots"])
        assert data == self.read(capsys)

    def test_of_a_profile(self, capsys, page):
        data = self.read(capsys, "--samples", str(page))
        assert (data["samples"], data["stalls"]) == (str(page), {})
        assert {"Loop Unrolling", "Code Reordering"} <= {a["optimizer"] for a in data["advice"]}
        for advice in data["advice"]:
            assert advice["speedup"] == advice["formula_speedup"]
            assert advice["context"]["estimate"] == "formula"


class TestCoverage:
    def test_before_and_after_pruning(self, capsys):
        assert main([*ROLLED, "--coverage"]) == 0
        assert "\nSingle-dependency coverage: " in capsys.readouterr().out
        assert main([*ROLLED, "--coverage", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["coverage"]
        assert 0 < found["before"] <= found["after"] <= 1

    def test_of_a_profile_it_is_not(self, page, capsys):
        assert main([*ROLLED, "--coverage", "--samples", str(page)]) == 2
        assert "leave --coverage out" in capsys.readouterr().err


def test_what_the_busiest_server_leaves(capsys):
    launch = ["--device", "a100", "--grid", "4096", "--block", "256", "--arg", f"n={N}"]
    assert main(["advise", str(SOURCE), "--kernel", "contiguous", *launch]) == 0
    out = capsys.readouterr().out
    assert "Limited by DRAM at 100.0 %: only less traffic helps." in out
    assert "No suggestion" in out


class TestErrors:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (["--kernel", "no-such"], "no kernel 'no-such'"),
            (["--device", "b100x"], "b100x"),
            (["--grid", "a"], "not an integer"),
            (["--samples", "none.csv"], "none.csv: cannot be read"),
            (["--samples", str(SOURCE)], "not a source page of Nsight Compute"),
        ],
    )
    def test_usage(self, capsys, change, message):
        assert main([*ROLLED, *change]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert "Traceback" not in error

    def test_launch_is_required(self, capsys):
        assert main(ROLLED[:6]) == 2
        assert "--grid" in capsys.readouterr().err

    def test_another_build(self, capsys, page):
        page.write_text(page.read_text().replace("FFMA", "FADD"))
        assert main([*ROLLED, "--samples", str(page)]) == 2
        assert "must be of the same build" in capsys.readouterr().err

    def test_another_launch(self, capsys, page):
        assert main([*ROLLED, "--samples", str(page), "--sampled-launch", "3"]) == 2
        assert "choose by" in capsys.readouterr().err
