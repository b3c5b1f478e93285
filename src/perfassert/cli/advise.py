"""``perfassert advise``: what would help a kernel, from its source or from measured samples."""

from __future__ import annotations

import argparse
import json
from typing import Any

from perfassert.cli.sources import add_launch, add_source, kernel_of, launch_of


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("advise", help="say what would help a kernel, and by how much")
    add_source(parser)
    add_launch(parser, required=True)
    parser.add_argument("--samples", metavar="CSV", help="source page of Nsight Compute, as SASS")
    parser.add_argument("--sampled-launch", type=int, metavar="N", help="of several in --samples")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=_advise)


def _advise(options: argparse.Namespace) -> int:
    from perfassert.predictor import advise, predict
    from perfassert.report.advice import report, to_dict

    launch, kernel = launch_of(options), kernel_of(options)
    assert launch is not None
    prediction = predict(kernel, launch, options.device)
    if options.samples is None:
        advice, source = prediction.advice or (), "simulation"
    else:
        from perfassert.frontends.nsight import read_samples

        samples = read_samples(options.samples, options.kernel, options.sampled_launch)
        advice, source = advise(kernel, samples, launch, options.device), samples.file
    if options.json:
        print(json.dumps(to_dict(prediction, advice, source)))
    else:
        print(report(prediction, advice, source))
    return 0
