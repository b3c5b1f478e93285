"""``perfassert rank``: the fastest block shape for a kernel from source."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from perfassert.cli.command import add_command
from perfassert.cli.executors import add_executor, executor_of, positive
from perfassert.cli.sources import add_arguments, add_source, arguments_of, extent_of, kernel_of
from perfassert.cli.terminal import Bar, progress, say
from perfassert.cli.wording import command_line_text
from perfassert.errors import LaunchError
from perfassert.kernel.launch import Launch
from perfassert.report.tables import Table, Text, join, percent

if TYPE_CHECKING:
    from perfassert.hardware.model import Device
    from perfassert.kernel.description import Kernel
    from perfassert.ranking.ranking import Ranking

Block = tuple[int, int, int]
_SERIAL_SECONDS = 2.0  # seconds of predictions one by one, after which starting processes pays
_CHUNKS = 4  # for each process, so that none waits long for the last


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "rank", "order block shapes by predicted time",
        "Predicts a kernel with each block shape over the same domain and prints them from the "
        "fastest to the slowest.",
        "stencil.cu --device a100 --domain 640,512,256 --all-blocks 256 --arg nx=640",
        "stencil.cu --device a100 --domain 4096,4096 --blocks '32,8; 16,16; 256,1'",
    )  # fmt: skip
    add_source(parser)
    parser.add_argument("--domain", required=True, metavar="X[,Y[,Z]]", help="in threads")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--blocks", metavar="BLOCKS", help='as in "16,2,8; 256,1,2"')
    which.add_argument(
        "--all-blocks", metavar="THREADS[,…]", help="every shape of powers of two with so many"
    )
    add_arguments(parser)
    parser.add_argument("--top", type=positive, metavar="N", help="show only the first N")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="draw the ranking curve")
    add_executor(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=_rank)


def _rank(options: argparse.Namespace) -> int:
    from perfassert.hardware.load import device as load_device
    from perfassert.ranking.plot import plot

    kernel_of(options)  # whose file may be missing
    device = load_device(options.device)
    blocks = _blocks(options, device)
    with progress("blocks") as bar:
        tried = _predict_all(options, blocks, bar)
    refused = {t.block: t.error for t in tried if t.error}
    if refused and (options.blocks or len(refused) == len(tried)):
        raise LaunchError(next(f"block {_format_block(b)}: {why}" for b, why in refused.items()))
    ranking = make_ranking(tried)
    if options.plot:
        plot(ranking, options.plot)
    if options.json:
        print(json.dumps(ranking_data(ranking, refused, options.top)))
    else:
        say(_ranking_table(ranking, refused, options.top))
    return 0


def _blocks(options: argparse.Namespace, device: Device) -> list[Block]:
    from perfassert.kernel.launch import extent

    if options.blocks:
        texts = [t.strip() for t in options.blocks.split(";") if t.strip()]
        blocks = [extent("block", extent_of(text, "--blocks")) for text in texts]
    else:
        domain = extent("domain", extent_of(options.domain, "--domain"))
        sizes = extent_of(options.all_blocks, "--all-blocks")
        blocks = [b for size in sizes for b in shapes(size, domain, device)]
    if twice := [b for i, b in enumerate(blocks) if b in blocks[:i]]:
        raise LaunchError(f"block {_format_block(twice[0])} occurs twice")
    if not blocks:
        raise LaunchError("there is no block to rank; give --blocks X,Y,Z")
    return blocks


def shapes(threads: int, domain: Block, device: Device) -> Iterator[Block]:
    """Yield shapes of ``threads`` with sides of powers of two, each below twice the domain's.

    Raises :class:`~perfassert.errors.LaunchError` where ``threads`` is none, or too many.
    """
    if threads < 1 or threads & (threads - 1):
        raise LaunchError(f"--all-blocks: {threads} is no power of two")
    if threads > device.max_threads_per_block:
        most = device.max_threads_per_block
        raise LaunchError(f"--all-blocks: {device.name} allows {most} threads, not {threads}")
    log = threads.bit_length() - 1
    for z in range(log + 1):
        for y in range(log - z + 1):
            block = (threads >> (y + z), 1 << y, 1 << z)
            fits = all(side < 2 * n for side, n in zip(block, domain, strict=True))
            if fits and block[2] <= device.max_block_z:
                yield block


@dataclass(frozen=True, slots=True)
class Tried:
    """Block with its prediction as plain data, or with the reason why it cannot be launched."""

    block: Block
    data: dict[str, Any] | None
    error: str = ""


def _predict_all(options: argparse.Namespace, blocks: Sequence[Block], bar: Bar) -> list[Tried]:
    """Predict all blocks: one by one at first, the rest on all cores if much is left.

    With a scheduler, all predictions run there.
    """
    from perfassert.system.process_pool import cores

    one = _predictor(options)
    tried: list[Tried] = []
    start, each = perf_counter(), inf
    while len(tried) < len(blocks) and not options.dask:
        bar(len(tried), len(blocks), _format_block(blocks[len(tried)]))
        begin = perf_counter()
        tried.append(one(blocks[len(tried)]))
        each = min(each, perf_counter() - begin)  # the first one compiles
        left = len(blocks) - len(tried)
        if perf_counter() - start > _SERIAL_SECONDS and left * each > _SERIAL_SECONDS:
            break
    rest = blocks[len(tried) :]
    if not rest:
        return tried
    with executor_of(options) as pool:
        if pool is None:
            for block in rest:
                bar(len(tried), len(blocks), _format_block(block))
                tried.append(one(block))
            return tried
        size = max(1, len(rest) // (_CHUNKS * (options.jobs or cores())))
        plain = argparse.Namespace(**{k: v for k, v in vars(options).items() if k != "command"})
        waiting = [
            pool.submit(predict_blocks, plain, rest[i : i + size])
            for i in range(0, len(rest), size)
        ]
        for future in waiting:
            tried += future.result()
            bar(len(tried), len(blocks))
        return tried


def predict_blocks(options: argparse.Namespace, blocks: Sequence[Block]) -> list[Tried]:
    """Predict a sequence of blocks in a worker process; arguments and result can be pickled."""
    return [*map(_predictor(options), blocks)]


def _predictor(options: argparse.Namespace) -> Callable[[Block], Tried]:
    from perfassert.facade.session import recall
    from perfassert.hardware.load import device as load_device

    kernel: Kernel = kernel_of(options)
    device = load_device(options.device)
    domain, args = extent_of(options.domain, "--domain"), arguments_of(options)

    def one(block: Block) -> Tried:
        nonlocal kernel
        try:
            launch = Launch.cover(domain, block, args, options.shared_bytes)
            prediction = recall(kernel, launch, device)
        except LaunchError as error:
            return Tried(block, None, command_line_text(error))
        if prediction.origin is not None:
            kernel = prediction.origin[0]  # with its code, so that files are read once
        return Tried(block, prediction.to_dict(diagnosis=False))

    return one


def make_ranking(tried: Sequence[Tried]) -> Ranking:
    """Return the predicted blocks in order of their times, fastest first."""
    from perfassert.facade.prediction import Prediction
    from perfassert.ranking.ranking import Ranking

    entries = [(t.block, Prediction.from_dict(t.data)) for t in tried if t.data is not None]
    ordered = sorted(entries, key=lambda entry: float(entry[1].time))
    return Ranking(tuple(ordered))


def _format_block(block: Block) -> str:
    return "×".join(map(str, block))


def _ranking_table(ranking: Ranking, refused: dict[Block, str], top: int | None) -> Text:
    from perfassert.ranking.ranking import ranking_table

    first = ranking.entries[0][1]
    sure = percent(ranking.confidence, signed=False)
    parts: list[str | Table] = [
        f"{first.kernel} on {first.device}: {len(ranking.entries)} blocks",
        ranking_table(ranking, top),
        f"= tied with the best: less than {sure} sure that the best is faster",
    ]
    if refused:
        why = "\n".join(f"- {_format_block(b)}: {reason}" for b, reason in refused.items())
        parts.append(f"left out:\n{why}")
    return join(parts)


def ranking_data(ranking: Ranking, refused: dict[Block, str], top: int | None) -> dict[str, Any]:
    """Return the first ``top`` blocks as plain data, and those that the device refused."""
    first, tied = ranking.entries[0][1], set(ranking.tied_with_best())
    return {
        "kernel": first.kernel,
        "device": first.device,
        "model_version": first.model_version,
        "confidence": ranking.confidence,
        "blocks": [
            {
                "place": place,
                "block": list(p.block),
                "grid": list(p.grid),
                "time": float(p.time),
                "limiter": p.limiter,
                "tied": key in tied,
                "best_is_faster": None if p is first else first.probability_faster(p),
            }
            for place, (key, p) in enumerate(ranking.entries[:top], 1)
        ],
        "left_out": [{"block": list(b), "reason": reason} for b, reason in refused.items()],
    }
