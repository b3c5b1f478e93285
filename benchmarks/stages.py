"""Shares of the stages in the time of a prediction: the table of ``docs/results/speed.md``.

``python benchmarks/stages.py`` profiles warm predictions in this process, and prints for each
scenario of ``turns.py`` that stays in it the share of the time that each stage takes.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import tempfile
from collections.abc import Callable
from pathlib import Path

import compiled
import turns
import volumes

import perfassert as pa

STAGES = {
    "read the source, find the binary": (("build.py", "build"),),
    "describe the code": (("describe.py", "describe"),),
    "execute blocks": (("executed.py", "sample_blocks"), ("checked.py", "compare")),
    "bind addresses": (("bound_accesses.py", "bind_accesses"),),
    "graph of the launch": (("launch_graph.py", "launch_graph"),),
    "volumes": (("estimate.py", "estimate_volumes"),),
    "costs of nodes, programs": (("model.py", "make_model"),),
    "simulation": (("simulate.py", "run_bounded"),),
}
"""Functions whose calls are disjoint."""


def shares(work: Callable[[], object]) -> dict[str, float]:
    """Return each stage's share of the profiled time; ``rest`` is the time of no stage."""
    profile = cProfile.Profile()
    profile.runcall(work)
    stats = pstats.Stats(profile)
    spent = dict.fromkeys(STAGES, 0.0)
    for (file, _, name), (_, _, _, cumulative, _) in stats.stats.items():  # type: ignore[attr-defined]
        for stage, functions in STAGES.items():
            if (Path(file).name, name) in functions:
                spent[stage] += cumulative
    total = stats.total_tt  # type: ignore[attr-defined]
    return {
        **{s: t / total for s, t in spent.items()},
        "rest": max(0.0, 1 - sum(spent.values()) / total),
    }


def scenarios(folder: Path) -> dict[str, Callable[[], object]]:
    device = pa.device("a100")
    convolution = compiled.convolution("about 1,000")
    (folder / "product.cu").write_text(turns.product())
    product = pa.from_cuda(folder / "product.cu", "product")
    args, shared = {"n": 16 * turns.STEPS}, 512 * turns.STEPS

    def ask(number: int) -> object:
        launch = pa.Launch((32 + number, 32), (8, 8), args, shared_bytes=shared)
        return pa.predict(product, launch, device)

    compiled.warm(convolution, range(1))
    ask(0)
    return {
        "168 block shapes of the star": lambda: volumes.all_configurations(device, volumes.DOMAIN),
        "1,000 instructions, ten launches": lambda: compiled.warm(convolution, range(1, 11)),
        "product of 20,000 instructions, two launches": lambda: [ask(1), ask(2)],
    }


def main() -> None:
    os.environ.setdefault("PERFASSERT_TOOL_TIMEOUT", "600")
    with tempfile.TemporaryDirectory() as folder:
        columns = {name: shares(work) for name, work in scenarios(Path(folder)).items()}
    print("| stage |", " | ".join(columns), "|")
    print("|---|" + "---|" * len(columns))
    for stage in (*STAGES, "rest"):
        print(f"| {stage} |", " | ".join(f"{c[stage]:.0%}" for c in columns.values()), "|")


if __name__ == "__main__":
    main()
