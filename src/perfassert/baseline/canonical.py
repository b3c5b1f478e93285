"""A description as plain data that digests are made of.

The words are those of the first version and stay: what a class or a field is called in the code
does not enter, and a field that is new in the code enters when it is written down here. Names of
kernels and nodes, source lines and assumptions do not, as only people read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perfassert.errors import BaselineError
from perfassert.kernel.access import Access
from perfassert.kernel.affine import Affine, AffineCall, Quotient, Symbol
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import AccessKernel, BoundKernel, Description, GraphKernel
from perfassert.kernel.expression import to_text
from perfassert.kernel.field import Field
from perfassert.kernel.graph import (
    EdgeSource,
    InstructionGraph,
    Latency,
    LatencyRule,
    Loop,
    Node,
    Signal,
)
from perfassert.kernel.names import BoxCounter, LoopCounter, Name

_WARPS = (1, 2, 4, 8, 16, 32, 64)  # where a latency that is a function of them is looked at
Plain = Any
"""What JSON writes in one way only."""


def canonical(kernel: Description) -> Plain:
    """Raises :class:`~perfassert.BaselineError` for values that are no numbers."""
    return {
        "": "Kernel",
        "fields": {name: _field(f) for name, f in kernel.fields.items()},
        "flops": _number(kernel.flops),
        "dtype": kernel.dtype,
        "registers": _number(kernel.registers),
        "shared_bytes": _number(kernel.shared_bytes),
        "updates_per_thread": _number(kernel.updates_per_thread),
        **_NOTHING,
        **_kind_attributes(kernel),
    }


_NOTHING = {
    "accesses": [], "ilp": 1, "graph": None, "latencies": {}, "spill_bytes": None, "bound": None,
    "code_bytes": 0,
}  # fmt: skip
"""What kernels of other kinds have."""


def _kind_attributes(kernel: Description) -> Plain:
    """Return the attributes that kernels of this kind have."""
    if isinstance(kernel, BoundKernel):
        return {
            "spill_bytes": _number(kernel.spill_bytes),
            "graph": _graph(kernel.graph),
            "bound": [_bound_access(a) for a in kernel.bound],
            "code_bytes": _number(kernel.code_bytes),
        }
    assert isinstance(kernel, (AccessKernel, GraphKernel))
    accesses = [_access(a) for a in kernel.accesses]
    if isinstance(kernel, AccessKernel):
        return {"accesses": accesses, "ilp": _number(kernel.ilp)}
    latencies = {key: _rule(rule) for key, rule in kernel.latencies.items()}
    return {"accesses": accesses, "graph": _graph(kernel.graph), "latencies": latencies}


def _field(field: Field) -> Plain:
    return {
        "": "Field",
        "dtype": field.dtype,
        "shape": _numbers(field.shape),
        "halo": _numbers(field.halo),
        "pitch": _number(field.pitch),
        "alignment": _number(field.alignment),
        "offset": _number(field.offset),
    }


def _access(access: Access) -> Plain:
    return {
        "": "Access",
        "field": access.field,
        "direction": access.direction.value,
        "subscripts": [to_text(s) for s in access.subscripts],
    }


def _graph(graph: InstructionGraph) -> Plain:
    """Graphs without channels are written as they were before there were any."""
    channels = {"channels": [c.arrivals for c in graph.channels]} if graph.channels else {}
    return {
        "": "InstructionGraph",
        "nodes": [_node(n) for n in graph.nodes],
        "loops": [_loop(x) for x in graph.loops],
        "body": [list(item) for item in graph.body],
        **channels,
    }


def _loop(loop: Loop) -> Plain:
    return {
        "": "Loop",
        "index": loop.index,
        "parent": loop.parent,
        "trips": loop.trips if isinstance(loop.trips, str) else _number(loop.trips),
        "body": [list(item) for item in loop.body],
    }


def _signal(signal: Signal) -> Plain:
    return {
        "": "Signal",
        "channel": signal.channel,
        "arrives": signal.arrives,
        "waits": signal.waits,
        "copies": signal.copies,
        "lead": signal.lead,
        "expects": signal.expects,
    }


def _node(node: Node) -> Plain:
    signal = {"signal": _signal(node.signal)} if node.signal is not None else {}
    return {
        "": "Node",
        "index": node.index,
        "operation": node.operation,
        "edges": [{"": "Edge", "sources": [_source(s) for s in e.sources]} for e in node.edges],
        "produces": node.produces,
        "loop": node.loop,
        "warps": None if node.warps is None else sorted(map(_number, node.warps)),
        "fence": node.fence,
        "partial": node.partial,
        "access": None if node.access is None else "".join(node.access.split()),
        "space": node.space,
        "stall": _number(node.stall),
        "touches": _numbers(node.touches),
        "demands": [[server, _number(cycles)] for server, cycles in node.demands],
        **signal,
    }


def _source(source: EdgeSource) -> Plain:
    return {
        "": "Source",
        "producer": source.producer,
        "loop": source.loop,
        "distance": source.distance,
    }


def _rule(rule: LatencyRule) -> Plain:
    """A function, by what it says for a few counts of resident warps."""
    return _latency(rule) if isinstance(rule, Latency) else [_apply_rule(rule, w) for w in _WARPS]


def _apply_rule(rule: Callable[[int], Any], warps: int) -> Plain:
    try:
        result = rule(warps)
        return _latency(result) if isinstance(result, Latency) else _number(result)
    except Exception as error:  # whatever the author's function raises
        return type(error).__name__


def _latency(latency: Latency) -> Plain:
    return {
        "": "Latency",
        "issue": _number(latency.issue),
        "completion": _number(latency.completion),
        "pipeline": latency.pipeline,
        "scope": latency.scope,
    }


def _bound_access(access: BoundAccess) -> Plain:
    return {
        "": "BoundAccess",
        "field": access.field,
        "space": access.space,
        "direction": access.direction.value,
        "bytes": _number(access.bytes),
        "address": _affine(access.address),
        "ranges": _ranges(access.ranges),
        "conditions": [_affine(c) for c in access.conditions],
        "loops": [_name(loop) for loop in access.loops],
        "atomic": access.atomic,
    }


def _ranges(ranges: Mapping[Name, tuple[int, int]]) -> Plain:
    return {_name(symbol): _numbers(ends) for symbol, ends in ranges.items()}


def _affine(form: Affine) -> Plain:
    terms = [[_symbol(symbol), _number(factor)] for symbol, factor in form.terms]
    return {"": "Affine", "constant": _number(form.constant), "terms": terms}


def _symbol(symbol: Symbol) -> Plain:
    if isinstance(symbol, Quotient):
        dividend = _affine(symbol.dividend)
        return {"": "Quotient", "dividend": dividend, "divisor": _number(symbol.divisor)}
    if isinstance(symbol, AffineCall):
        arguments = [_affine(a) for a in symbol.arguments]
        return {"": "Call", "function": symbol.function, "arguments": arguments}
    return _name(symbol)


def _name(name: Name) -> str:
    if isinstance(name, LoopCounter):
        return f"loop:{name.loop}"
    if isinstance(name, BoxCounter):
        return f"box:{name.instruction}.{name.axis}"
    return str(name)


def _numbers(values: tuple[Any, ...]) -> list[int | str]:
    return [_number(v) for v in values]


def _number(value: Any) -> int | str:
    """25 and 25.0 are one, whatever library they come from."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BaselineError(f"a kernel with {value!r} in it cannot be told from others") from None
    return int(number) if number.is_integer() else repr(number)
