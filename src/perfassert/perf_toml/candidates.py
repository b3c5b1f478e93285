"""The candidates of a ``[[rank]]`` and the claims about them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from perfassert.errors import ExpectationError, LaunchError, close_matches
from perfassert.expect.check import check_undecided
from perfassert.expect.condition import parse_share
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Launch, extent
from perfassert.perf_toml.descriptions import DescriptionReader

VARIANT = ("kernel", "launch")
CLAIMS = ("best", "best_in", "order", "within", "of", "undecided")
Described = Callable[[str, Any], "tuple[str, Any]"]
"""A kernel's table, or the name of one → where it is described, and the table."""


def read_candidates(
    reader: DescriptionReader, key: str, name: str, table: Mapping[str, Any], described: Described
) -> dict[str, tuple[Kernel, Launch]]:
    """Label → kernel and launch; the label of a block is ``"16×2×8"``."""
    given, where = table.get("candidates"), f"{key}.candidates"
    launch = _common_launch(reader, key, table)
    kernel = described(f"{key}.kernel", table["kernel"]) if "kernel" in table else ("", {})
    if isinstance(given, list) and given:
        return _blocks(reader, where, name, given, kernel, (f"{key}.launch", launch))
    if not isinstance(given, dict) or not given:
        reader.fail(where, "must be a list of blocks, or a table label → { kernel, launch }")
    candidates = {}
    for label, value in given.items():
        at = f"{where}.{label}"
        variant = reader.section(at, value)
        reader.check_keys(at, variant, VARIANT)
        own = described(f"{at}.kernel", variant["kernel"]) if "kernel" in variant else ("", {})
        place = own[0] or kernel[0] or f"{at}.kernel"
        made = reader.kernel(place, _merge_tables(kernel[1], own[1]), name)
        over = reader.section(f"{at}.launch", variant.get("launch", {}))
        candidates[label] = (made, reader.make_launch(f"{at}.launch", _launch_over(launch, over)))
    return candidates


def _common_launch(reader: DescriptionReader, key: str, table: Mapping[str, Any]) -> dict[str, Any]:
    launch = dict(reader.section(f"{key}.launch", table.get("launch", {})))
    if "domain" in table:
        if "domain" in launch or "grid" in launch:
            reader.fail(f"{key}.domain", "launch says it, too; give one of them")
        launch["domain"] = table["domain"]
    return launch


def _blocks(
    reader: DescriptionReader,
    where: str,
    name: str,
    given: list[Any],
    kernel: tuple[str, Any],
    launch: tuple[str, dict[str, Any]],
) -> dict[str, tuple[Kernel, Launch]]:
    launch_key, common = launch
    if "domain" not in common:
        reader.fail(where, "blocks need a domain (counted in threads); give domain = [...]")
    if "block" in common:
        reader.fail(f"{launch_key}.block", "the candidates are the blocks; leave it out")
    made = reader.kernel(kernel[0] or f"{where.rpartition('.')[0]}.kernel", kernel[1] or None, name)
    candidates: dict[str, tuple[Kernel, Launch]] = {}
    for i, block in enumerate(given):
        label = block_label(reader, f"{where}[{i}]", block)
        if label in candidates:
            reader.fail(f"{where}[{i}]", f"{label} is there twice")
        candidates[label] = (made, reader.make_launch(launch_key, {**common, "block": block}))
    return candidates


def block_label(reader: DescriptionReader, key: str, block: Any) -> str:
    """``[16, 2, 8]`` → ``"16×2×8"``."""
    if isinstance(block, dict):
        reader.fail(key, "a launch needs a label: candidates = { LABEL = { launch = {…} } }")
    numbers = reader.expressions(key, block)
    try:
        return "×".join(map(str, extent("block", numbers)))  # type: ignore[arg-type]
    except LaunchError as error:
        reader.fail(key, str(error))


def _merge_tables(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables: ``own`` overrides ``common``; tables such as ``defines`` are joined."""
    joined = {
        k: {**common[k], **v}
        for k, v in own.items()
        if isinstance(v, dict) and isinstance(common.get(k), dict)
    }
    return {**common, **own, **joined}


def _launch_over(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge as :func:`_merge_tables`; a grid or domain in ``own`` replaces both of ``common``."""
    hidden = {"grid", "domain"} if {"grid", "domain"} & set(own) else set()
    return _merge_tables({k: v for k, v in common.items() if k not in hidden}, own)


def read_claims(
    reader: DescriptionReader, key: str, given: Any, labels: Collection[str]
) -> dict[str, Any]:
    """Read the arguments of :meth:`Ranking.expect`, with candidates by their labels."""
    table = reader.section(key, given)
    reader.check_keys(key, table, CLAIMS)
    if not table.keys() - {"undecided"}:
        reader.fail(key, f"claims nothing; give one of {', '.join(CLAIMS[:4])}")
    if ("within" in table) != ("of" in table):
        reader.fail(key, "within and of go together")
    claims: dict[str, Any] = {}
    for claim, value in table.items():
        at = f"{key}.{claim}"
        if claim == "within":
            claims[claim] = _share(reader, at, value)
        elif claim == "undecided":
            reader.locate_errors(at, check_undecided, value)
            claims[claim] = value
        elif claim in ("best_in", "order"):
            claims[claim] = _read_candidates(reader, at, value, labels)
        else:
            claims[claim] = _label(reader, at, value, labels)
    if len(set(order := claims.get("order", "ab"))) < max(2, len(order)):
        reader.fail(f"{key}.order", "needs at least two candidates, each once")
    return claims


def _share(reader: DescriptionReader, key: str, value: Any) -> Any:
    if not isinstance(value, str):
        reader.number(key, value)
    try:
        parse_share(value)
    except ExpectationError as error:
        reader.fail(key, str(error).removeprefix("within: "))
    return value


def _read_candidates(
    reader: DescriptionReader, key: str, value: Any, labels: Collection[str]
) -> list[str]:
    if not isinstance(value, list) or not value:
        reader.fail(key, f"must be a list of candidates, not {value!r}")
    return [_label(reader, f"{key}[{i}]", v, labels) for i, v in enumerate(value)]


def _label(reader: DescriptionReader, key: str, value: Any, labels: Collection[str]) -> str:
    """A label as it stands, or a block."""
    label = value if isinstance(value, str) else block_label(reader, key, value)
    if label not in labels:
        hint = close_matches(label, labels) or f"; candidates: {', '.join(labels)}"
        reader.fail(key, f"{label!r} is no candidate{hint}")
    return label
