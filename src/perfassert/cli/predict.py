"""``perfassert predict``: one launch of one kernel from source, or all that were recorded."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.command import add_command
from perfassert.cli.launches import RequestedLaunch, add_work, work
from perfassert.cli.terminal import progress, say
from perfassert.cli.wording import command_line_text
from perfassert.errors import LaunchError, PerfAssertError
from perfassert.facade.prediction import Prediction

if TYPE_CHECKING:
    from perfassert.report.plausibility import Plausibility


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "predict", "predict launches of a kernel from source",
        "Compiles a kernel for a device and predicts one launch of it: time, what limits it, L2 "
        "and DRAM volumes, and every assumption. With --launches: all launches of a recorded "
        "program.",
        "saxpy.cu --device a100 --grid 4096 --block 256 --arg n=1048576",
        "--launches launches.toml --device h100 --json",
        "saxpy.cu --device a100 --grid 4096 --block 256 --arg n=1048576 --measured '12.3 us'",
    )  # fmt: skip
    add_work(parser)
    parser.add_argument(
        "--measured", metavar="TIME|FILE",
        help="exit code 1 if no run can be that fast; else how far from the speed of light it is; "
        "a time, or a profile: .ncu-rep, ncu's CSV, nsys' SQLite, nvbench's JSON",
    )  # fmt: skip
    parser.add_argument(
        "--measured-launch", type=int, metavar="N",
        help="which measurement of the file, from 0, where several may be meant",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=_predict)


def _predict(options: argparse.Namespace) -> int:
    from perfassert.facade.session import recall
    from perfassert.report import plausibility
    from perfassert.report.prediction import text

    asked = work(options, propose=True)
    if options.launches is not None and (len(asked) > 1 or options.json):
        if options.measured:
            raise LaunchError("--measured: is the time of one launch; choose it by --kernel")
        return _all(asked, options)
    with progress(f"prediction of {options.source or options.launches}"):
        prediction = recall(asked[0].kernel, asked[0].launch, asked[0].device)
    judged = _judge(prediction, asked[0], options) if options.measured else None
    if options.json:
        more = {"measured": plausibility.to_dict(judged)} if judged else {}
        print(json.dumps(_to_dict(prediction) | more))
    else:
        say(text(prediction))
        if judged:
            say("\n" + plausibility.text(judged, prediction))
    return int(judged is not None and judged.verdict == plausibility.IMPOSSIBLE)


def _judge(
    prediction: Prediction, asked: RequestedLaunch, options: argparse.Namespace
) -> Plausibility:
    """Compare the prediction with the given time, or with a file's measurement of this launch."""
    from perfassert.report.plausibility import judge_measured, judge_profile

    path = Path(options.measured)
    if not path.is_file():
        if options.measured_launch is not None:
            raise LaunchError(f"--measured-launch: {options.measured!r} is no file of measurements")
        return judge_measured(prediction, options.measured)
    from perfassert.frontends.profiles.read import read_measurements
    from perfassert.report.measured import choose_measurement

    measured = choose_measurement(
        read_measurements(path), str(path), prediction, asked.device.sector_bytes,
        options.measured_launch,
    )  # fmt: skip
    return judge_profile(prediction, measured)


def _to_dict(prediction: Prediction) -> dict[str, Any]:
    from perfassert.report.sources import sources

    return {**prediction.to_dict(), "sources": sources(prediction, Path.cwd())}


def _all(asked: tuple[RequestedLaunch, ...], options: argparse.Namespace) -> int:
    """Predict every launch of a file; one that cannot be predicted does not stop the others."""
    from perfassert.facade.session import recall
    from perfassert.predictor.ahead import compile_ahead
    from perfassert.report.launches import Predicted, text

    predictions = []
    ahead = compile_ahead((one.kernel, one.launch, one.device) for one in asked)
    with progress("predictions") as bar, ahead:
        for number, one in enumerate(asked):
            bar(number, len(asked), one.label)
            try:
                prediction, why = recall(one.kernel, one.launch, one.device), ""
            except PerfAssertError as error:
                prediction, why = None, command_line_text(error)
            predictions.append(
                Predicted(one.label, one.count, one.launch.describe(), prediction, why)
            )
    if options.json:
        print(json.dumps({"launches": [_launch_to_dict(p) for p in predictions]}))
    else:
        say(text(predictions))
    return 1 if any(p.prediction is None for p in predictions) else 0


def _launch_to_dict(one: Any) -> dict[str, Any]:
    made = _to_dict(one.prediction) if one.prediction is not None else None
    return {"label": one.label, "count": one.count, "prediction": made, "error": one.error}
