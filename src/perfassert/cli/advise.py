"""``perfassert advise``: what would help a kernel, from its source or from measured samples."""

from __future__ import annotations

import argparse
import json
from typing import Any

from perfassert.cli.launches import Work, add_work, work
from perfassert.errors import LaunchError


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("advise", help="say what would help a kernel, and by how much")
    add_work(parser)
    parser.add_argument("--samples", metavar="CSV", help="source page of Nsight Compute, as SASS")
    parser.add_argument("--sampled-launch", type=int, metavar="N", help="of several in --samples")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=_advise)


def _advise(options: argparse.Namespace) -> int:
    asked = work(options)
    if options.samples is not None and len(asked) > 1:
        raise LaunchError("--samples are of one launch; choose it with --kernel")
    made = [_advised(one, options) for one in asked]
    if options.json:
        found = [{"label": one.label, **m} for one, m in zip(asked, made, strict=True)]
        print(json.dumps({"launches": found} if options.launches is not None else made[0]))
    else:
        print("\n\n".join(made))
    return 0


def _advised(one: Work, options: argparse.Namespace) -> Any:
    """Text, or data for JSON."""
    from perfassert.predictor import advise, predict
    from perfassert.report.advice import report, to_dict

    prediction = predict(one.kernel, one.launch, one.device)
    if options.samples is None:
        advice, source = prediction.advice or (), "simulation"
    else:
        from perfassert.frontends.nsight import read_samples

        samples = read_samples(options.samples, options.kernel, options.sampled_launch)
        advice, source = advise(one.kernel, samples, one.launch, one.device), samples.file
    return (to_dict if options.json else report)(prediction, advice, source)
