"""``perfassert advise``: optimisations for a kernel, from its source or from measured samples."""

from __future__ import annotations

import argparse
import json
from typing import Any

from perfassert.cli.command import add_command
from perfassert.cli.launches import RequestedLaunch, add_work, work
from perfassert.cli.terminal import progress, say
from perfassert.errors import LaunchError
from perfassert.facade.prediction import Prediction
from perfassert.quantity import round_significant
from perfassert.report.tables import Table, Text, join, percent


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "advise", "say what would help a kernel, and by how much",
        "Stall reasons by source line, and optimizations with their estimated speedup, from the "
        "simulation or from samples of Nsight Compute.",
        "matmul.cu --device a100 --grid 64,64 --block 16,16 --arg n=1024",
        "matmul.cu --device a100 --samples source-page.csv --grid 64,64 --block 16,16",
    )  # fmt: skip
    add_work(parser)
    parser.add_argument(
        "--samples", metavar="FILE", help="report of Nsight Compute, or its source page as CSV"
    )
    parser.add_argument("--sampled-launch", type=int, metavar="N", help="of several in --samples")
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="single-dependency coverage before, after pruning",
    )
    parser.add_argument(
        "--try",
        type=int,
        metavar="N",
        dest="attempts",
        help="make up to N changes on a copy, compile and predict them (default: 4)",
    )
    parser.add_argument(
        "--prove",
        action="store_const",
        const=_ALL,
        dest="attempts",
        help="make all of them, however large the kernel",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=_advise)


def _advise(options: argparse.Namespace) -> int:
    from perfassert.facade.session import predict

    asked = work(options)
    if options.samples is not None and (len(asked) > 1 or options.coverage):
        remedy = "choose it with --kernel" if len(asked) > 1 else "leave --coverage out"
        raise LaunchError(f"--samples are of one launch of a real GPU; {remedy}")
    if options.attempts is not None and options.samples:
        raise LaunchError("--try and --prove are of a prediction; leave the profile out")
    if options.attempts is not None and options.attempts < 0:
        raise LaunchError(f"--try: how many changes, at least 0, not {options.attempts}")
    predictions = [
        (one, predict(one.kernel, one.launch, one.device, prove=options.attempts)) for one in asked
    ]
    predictions.sort(key=lambda pair: -_seconds(*pair))
    whole = sum(_seconds(*pair) for pair in predictions)
    outputs = []
    with progress("advice") as bar:
        for number, (one, prediction) in enumerate(predictions):
            bar(number, len(predictions), one.label)
            outputs.append(_advice_output(one, prediction, options))
    if options.json:
        shares = [_seconds(*pair) / whole for pair in predictions]
        data = [
            {"label": one.label, "count": one.count, "share": round_significant(share), **m}
            for (one, _), share, m in zip(predictions, shares, outputs, strict=True)
        ]
        print(json.dumps({"launches": data} if options.launches is not None else outputs[0]))
    else:
        several = len(predictions) > 1
        say(join(
            join((_heading(*pair, whole), text)) if several else text
            for pair, text in zip(predictions, outputs, strict=True)
        ))  # fmt: skip
    return 0


def _seconds(one: RequestedLaunch, prediction: Prediction) -> float:
    return float(prediction.time) * one.count


def _heading(one: RequestedLaunch, prediction: Prediction, whole: float) -> str:
    """Return a launch's label, its share of the time of all launches, and its count above one."""
    share = percent(_seconds(one, prediction) / whole, signed=False)
    text = f"{one.label}: {share} of the time of all launches"
    return f"{text} ({one.count} alike)" if one.count > 1 else text


def _advice_output(
    one: RequestedLaunch, prediction: Prediction, options: argparse.Namespace
) -> Any:
    """Return the advice as text, or as data for JSON."""
    from perfassert.facade.session import predict
    from perfassert.predictor.diagnose.diagnose import dependency_coverage
    from perfassert.predictor.diagnose.measured_advice import advise
    from perfassert.report.advice import coverage, report, to_dict
    from perfassert.report.trials import trials_data, trials_report

    if options.samples is None:
        advice, source = prediction.advice or (), "simulation"
    else:
        from perfassert.frontends.nsight import read_samples

        samples = read_samples(options.samples, options.kernel, options.sampled_launch)
        advice, source = advise(one.kernel, samples, one.launch, one.device), samples.file
    single = dependency_coverage(prediction, predict) if options.coverage else None
    if options.json:
        more: dict[str, Any] = {} if options.samples else trials_data(prediction)
        if single is not None:
            more["coverage"] = dict(zip(_PRUNING, single, strict=True))
        return to_dict(prediction, advice, source) | more
    parts: list[str | Table | Text] = [report(prediction, advice, source)]
    if options.samples is None:
        parts += trials_report(prediction, options.attempts is not None)
    parts += [] if single is None else [coverage(*single)]
    return join(parts)


_PRUNING = ("before", "after")
_ALL = 1000  # changes: no kernel has so many
