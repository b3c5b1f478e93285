"""``python -m tests.random_kernels.run COUNT SEED``: how many random kernels are predicted right.

Kernel after kernel is for the next of the architectures, with ``--each`` for all of them. A kernel
is right where the volumes of all of its fields are, within 1 %. ``--show N`` prints one kernel,
its launch, volumes and assumptions.

Example:
    python -m tests.random_kernels.run 2000 1 --jobs 2
    python -m tests.random_kernels.run 2000 1 --show 17
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from .generator import generate
from .measure import DEVICES, device_of, measure_all, measure_alone, without_cache
from .reduce import reduced

_TOGETHER = 20  # kernels in a file
_FAILURES = ("raises", "wrong volume", "wider grid", "wrong and guessed", "disagreement", "guessed",
             "corrected by execution")  # fmt: skip


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.random_kernels.run")
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--arch", nargs="+", default=list(DEVICES))
    parser.add_argument("--each", action="store_true", help="each kernel for all architectures")
    parser.add_argument("--first", type=int, default=0, help="number of the first kernel")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--kind", help="only kernels of a kind")
    parser.add_argument("--show", type=int, metavar="N", help="print kernel N instead")
    parser.add_argument("--reduce", action="store_true", help="with --show: make it smaller first")
    return parser.parse_args(arguments)


def batches(options):
    """Numbers of kernels that are compiled together, with their architecture."""
    numbers = range(options.first, options.first + options.count)
    if options.kind:
        numbers = [n for n in numbers if generate(options.seed, n)[0].kind == options.kind]
    for start in range(0, len(options.arch)):
        own = numbers if options.each else [
            n for n in numbers if n % len(options.arch) == start
        ]  # fmt: skip
        for i in range(0, len(own), _TOGETHER):
            yield own[i : i + _TOGETHER], options.arch[start]


def measured(options):
    """Outcomes, as they come."""
    jobs = list(batches(options))
    of_batch = partial(_batch, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        without_cache(folder)
        if options.jobs == 1:
            for job in jobs:
                yield from of_batch(job)
            return
        with ProcessPoolExecutor(options.jobs) as pool:
            for outcomes in pool.map(of_batch, jobs):
                yield from outcomes


def _batch(seed, job):
    return measure_all(seed, *job)


def table(outcomes):
    """A line for each architecture, and one for all."""
    head = ["", "kernels", "right", "right, not guessed", "guessed", "disagree", "executed",
            "raise", "s each"]  # fmt: skip
    groups = {
        arch: [o for o in outcomes if o.arch == arch] for arch in {o.arch: 0 for o in outcomes}
    }
    rows = [_row(arch, own) for arch, own in groups.items()]
    rows.append(_row("all", outcomes))
    widths = [max(len(str(r[i])) for r in (head, *rows)) for i in range(len(head))]
    return "\n".join(
        "  ".join(f"{cell!s:>{w}}" for cell, w in zip(row, widths, strict=True))
        for row in (head, *rows)
    )


def _row(name, own):
    def count(test):
        return f"{sum(map(test, own))} ({sum(map(test, own)) / len(own):.1%})"

    right = [o for o in own if not o.error and not o.wrong]
    return [
        name, len(own), f"{len(right)} ({len(right) / len(own):.1%})",
        count(lambda o: not o.error and not o.wrong and o.confidence != "guessed"),
        count(lambda o: o.confidence == "guessed"), count(lambda o: o.disagrees),
        count(lambda o: o.executed), count(lambda o: bool(o.error)),
        f"{sum(o.seconds for o in own) / len(own):.2f}",
    ]  # fmt: skip


def by_kind(outcomes):
    """Return, as text, how many kernels of each kind are right."""
    total = Counter(o.kind for o in outcomes)
    right = Counter(o.kind for o in outcomes if not o.failure)
    return "\n".join(f"{kind:>18}  {right[kind]} of {total[kind]}" for kind in sorted(total))


def failures(outcomes, seed):
    """Yield lines about the kernels that are not right, by kind of failure."""
    for failure in _FAILURES:
        own = [o for o in outcomes if o.failure == failure]
        if own:
            yield f"\n{failure}: {len(own)}"
        for o in sorted(own, key=lambda o: o.number):
            yield f"  seed {seed} kernel {o.number} {o.arch} {o.kind}: {_why(o)}"


def _why(outcome):
    if outcome.error:
        return outcome.error.splitlines()[0][:200]
    volumes = (
        f"{quantity} of {name} {outcome.volumes[quantity, name][0]:g}, "
        f"counted {outcome.volumes[quantity, name][1]:g}"
        for quantity, name in outcome.wrong[:2]
    )
    reasons = (f"[{kind} {share:.0%}] {text[:150]}" for kind, share, text in outcome.reasons[:1])
    return "; ".join([*volumes, *reasons])


def show(options):
    """Print one kernel with all that is known about it."""
    kernel, run = generate(options.seed, options.show)
    arch = options.arch[options.show % len(options.arch)]
    with tempfile.TemporaryDirectory() as folder:
        without_cache(folder)
        if options.reduce:
            kernel, outcome = reduced(kernel, arch)
        else:
            outcome = measure_alone(kernel, run, folder, device_of(arch))
    print(kernel.source())
    print(f"grid {kernel.grid}, block {kernel.block}, {kernel.kind}, {arch}")
    print(", ".join(f"{name}={value}" for name, value in kernel.given().items()
                    if isinstance(value, int)))  # fmt: skip
    if kernel.structure:
        print({name: value for _, name, value in kernel.structure.members})
    if outcome.error:
        print(outcome.error)
    for (quantity, name), (predicted, counted) in outcome.volumes.items():
        mark = "  <-- wrong" if (quantity, name) in outcome.wrong else ""
        print(f"{quantity:>12} {name:>10} predicted {predicted:g}, counted {counted:g}{mark}")
    print(f"confidence {outcome.confidence}")
    for text in outcome.assumptions:
        print(f"  {text}")


def main(arguments=None):
    options = parse(arguments)
    if options.show is not None:
        show(options)
        return 0
    start = time.time()
    outcomes = []
    for outcome in measured(options):
        outcomes.append(outcome)
        if len(outcomes) % 100 == 0:
            print(f"{len(outcomes)} kernels, {time.time() - start:.0f} s", file=sys.stderr)
    print(table(outcomes))
    print()
    print(by_kind(outcomes))
    print("\n".join(failures(outcomes, options.seed)))
    return 1 if any(o.failure for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
