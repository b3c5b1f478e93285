"""``perfassert predict``: one launch of one kernel from source."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from perfassert.cli.sources import add_launch, add_source, kernel_of, launch_of


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("predict", help="predict one launch of a kernel from source")
    add_source(parser)
    add_launch(parser, required=True)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=_predict)


def _predict(options: argparse.Namespace) -> int:
    from perfassert.predictor import predict
    from perfassert.report.prediction import text
    from perfassert.report.sources import sources

    launch = launch_of(options)
    assert launch is not None
    prediction = predict(kernel_of(options), launch, options.device)
    if options.json:
        print(json.dumps({**prediction.to_dict(), "sources": sources(prediction, Path.cwd())}))
    else:
        print(text(prediction))
    return 0
