"""Calls of isl for each prediction of the examples and of the suites in the repository.

``python benchmarks/integer_sets.py``; isl finds exact ends of subscripts with quotients or a masked
edge. Kernels from code have closed forms of ours, or are executed.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import perfassert as pa
from benchmarks.same_predictions import examples, suites
from perfassert.engines.volume import integer_sets


def main() -> None:
    spent: Counter[str] = Counter()
    ask = integer_sets.ends

    def count(*arguments):
        start = time.process_time()
        try:
            return ask(*arguments)
        finally:
            spent["calls"] += 1
            spent["isl"] += time.process_time() - start

    integer_sets.ends = count
    print(f"{'predictions of':16} {'number':>7} {'with isl':>9} {'calls':>6} {'share of time':>14}")
    for name, questions in (("examples", examples()), ("suites", suites())):
        spent.clear()
        asked = list(questions)
        start, with_isl = time.process_time(), 0
        for _, kernel, launch, device in asked:
            before = spent["calls"]
            pa.predict(kernel, launch, device)
            with_isl += spent["calls"] > before
        share = spent["isl"] / (time.process_time() - start)
        print(f"{name:16} {len(asked):7} {with_isl:9} {spent['calls']:6} {share:14.2%}")


if __name__ == "__main__":
    main()
