"""Channels of a block: barriers by the instructions that mean the same one, and their phases.

Barriers that one instruction goes round in turn (a ring of stages) are one channel, whose phases
follow one another through the ring; so are those that only unrolled copies of it mean. A warp's
first wait says by its parity whether it waits for the first round or passes it. Whether all waits
end is found out by going through arrivals and waits without any times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import NamedTuple

from perfassert.frontends.graph.items import GraphItem
from perfassert.kernel.graph import Channel, Signal
from perfassert.kernel.program import BarrierUse
from perfassert.kernel.roles import Role

_EVENTS = 200_000
"""Largest number of arrivals and waits that are gone through."""
_TRIED = 8
"""Largest number of channels for which a wait for the first round is tried out."""


class ItemPlace(NamedTuple):
    """Item with the loops around it, outermost first."""

    item: GraphItem
    loops: tuple[GraphItem, ...]


@dataclass(slots=True)
class _Ring:
    """Channel in the making; ``lead`` None: not known yet."""

    barriers: set[tuple[str, int]] = field(default_factory=set)
    places: list[ItemPlace] = field(default_factory=list)
    arrivals: int = 0
    lead: int | None = None
    broken: bool = False

    @property
    def name(self) -> str:
        kind, first = min(self.barriers)
        return {"shared": f"mbarrier {first:#x}", "named": f"barrier {first}"}.get(kind, kind)

    @property
    def copies(self) -> bool:
        return any(_use(p.item).copies for p in self.places)


def assign_channels(
    items: list[GraphItem], warps: int, warp_size: int, note: Callable[[str, GraphItem], None]
) -> tuple[Channel, ...]:
    """Give items that arrive, wait or copy their signals; ``note`` reports unclear ones."""
    for body in list(_bodies(items)):
        _gather(body)
    rings = _rings(items)
    for ring in rings:
        _hoist(items, ring)
    for order, place in enumerate(_item_places(items)):
        place.item.order = order
    for ring in rings:
        ring.places.sort(key=lambda p: p.item.order)
        arriving = _arriving(ring, warps)
        ring.arrivals = _arrivals(ring, warps, warp_size, len(arriving))
        ring.lead = _lead(ring)
        if not ring.arrivals:
            _break(ring, note, "nothing is known to arrive there")
        elif len(arriving) > ring.arrivals:
            _break(ring, note, f"{len(arriving)} warps arrive, {ring.arrivals} at a time")
    _signal(rings)
    for ring in rings:
        if not ring.broken and not _expect(ring):
            _break(ring, note, "its copies do not follow an arrival of their warp")
    while (stuck := _choose_leads(items, rings, warps)) is not None:
        _break(rings[stuck], note, "its arrivals and waits do not fit one another")
    return tuple(Channel(ring.name, max(ring.arrivals, 1)) for ring in rings)


def _use(item: GraphItem) -> BarrierUse:
    assert item.use is not None
    return item.use


def _item_places(
    items: Iterable[GraphItem], loops: tuple[GraphItem, ...] = ()
) -> Iterator[ItemPlace]:
    for item in items:
        if item.instruction is None:
            yield from _item_places(item.body, (*loops, item))
        elif item.barriers:
            yield ItemPlace(item, loops)


def _rings(items: Sequence[GraphItem]) -> list[_Ring]:
    """Return the rings of the items: items that share a barrier share a ring."""
    rings: list[_Ring] = []
    for place in _item_places(items):
        own = _Ring(set(place.item.barriers))
        for ring in [r for r in rings if r.barriers & own.barriers]:
            own.barriers |= ring.barriers
            own.places = sorted([*own.places, *ring.places], key=lambda p: p.item.order)
            rings.remove(ring)
        own.places.append(place)
        rings.append(own)
    return sorted(rings, key=lambda r: r.places[0].item.order)


def _gather(body: list[GraphItem]) -> None:
    """Copies that an arrival after them waits for (``cp.async.mbarrier.arrive``) belong to it: it
    is put before them."""
    copies: list[GraphItem] = []
    for item in list(body):
        if _copies(item):
            copies.append(item)
        if item.use is None or not item.use.gathers:
            continue
        own = [copy for copy in copies if copy.warps == item.warps]
        for copy in own:
            copy.barriers = item.barriers
            copy.use = BarrierUse(item.use.kind, item.use.barrier, copies=True)
        if own:
            body.remove(item)
            body.insert(body.index(own[0]), item)
        copies = []


def _copies(item: GraphItem) -> bool:
    """Return True if the instruction is an asynchronous copy that no barrier is known of."""
    instruction = item.instruction if item.active and item.use is None else None
    return instruction is not None and Role.COPIES_ASYNCHRONOUSLY in instruction.roles


def _hoist(items: list[GraphItem], ring: _Ring) -> None:
    """Put arrivals before the copies that they expect, where the copies come first.

    Copies and arrivals of an unrolled loop, ``c c a c c a``, become ``a c c a c c``.
    """
    for body in {id(b): b for b in _bodies(items)}.values():
        first: GraphItem | None = None  # of the copies that no arrival has come after
        own = [i for i in body if i.barriers & ring.barriers and i.instruction is not None]
        for item in own:
            if _use(item).copies:
                first = first or item
            elif _use(item).arrives:
                if first is None:
                    break  # arrivals come before their copies
                body.remove(item)
                body.insert(body.index(first), item)
                first = None


def _bodies(items: list[GraphItem]) -> Iterator[list[GraphItem]]:
    yield items
    for item in items:
        if item.instruction is None:
            yield from _bodies(item.body)


def _arriving(ring: _Ring, warps: int) -> set[int]:
    """Return the warps that arrive at all."""
    arriving: set[int] = set()
    for place in ring.places:
        if _use(place.item).arrives:
            arriving.update(range(warps) if place.item.warps is None else place.item.warps)
    return arriving


def _arrivals(ring: _Ring, warps: int, warp_size: int, arriving: int) -> int:
    """Return the warps that arrive in a phase; a named barrier gives its number of threads."""
    threads = [p.item.threads for p in ring.places if p.item.threads]
    if threads:
        return -(-threads[0] // warp_size)
    if min(ring.barriers)[0] == "named":
        return warps
    return arriving


def _lead(ring: _Ring) -> int | None:
    """An odd parity at first: the round before the first one is waited for, which is over."""
    waits = [p.item for p in ring.places if _use(p.item).waits and not _use(p.item).arrives]
    parities = {waits[0].parity} if waits else {0}
    (parity,) = parities
    return None if parity is None else len(ring.barriers) * parity


def _signal(rings: Sequence[_Ring]) -> None:
    for number, ring in enumerate(rings):
        for place in ring.places:
            use = _use(place.item)
            waits = _use(place.item).waits and not _use(place.item).arrives
            lead = (ring.lead or 0) if waits else 0
            place.item.signal = (
                None if ring.broken else Signal(number, use.arrives, use.waits, use.copies, lead)
            )


def _break(ring: _Ring, note: Callable[[str, GraphItem], None], why: str) -> None:
    """Drop a barrier: no instruction waits for it."""
    ring.broken = True
    for place in ring.places:
        place.item.signal = None
    note(f"{ring.name} is taken to keep no warp waiting: {why}", ring.places[0].item)


def _expect(ring: _Ring) -> bool:
    """Count the copies that follow each arrival, in the loops that the two do not share."""
    arrival: ItemPlace | None = None
    for place in ring.places:
        item = place.item
        if _use(place.item).arrives:
            arrival = place
        if not _use(place.item).copies:
            continue
        if arrival is None or arrival.item.warps != item.warps or arrival.item.signal is None:
            return False
        around = place.loops[: len(arrival.loops)]
        if [id(x) for x in around] != [id(x) for x in arrival.loops]:
            return False
        copies = prod(x.trips for x in place.loops[len(arrival.loops) :])
        signal = arrival.item.signal
        arrival.item.signal = replace(signal, expects=signal.expects + copies)
    return True


# Whether all waits end


def _choose_leads(items: Sequence[GraphItem], rings: Sequence[_Ring], warps: int) -> int | None:
    """Choose leads that are not known, so that all waits end; else return a channel at which one
    does not."""
    open_rings = [r for r in rings if r.lead is None and not r.broken]
    open_rings.sort(key=lambda r: r.copies)
    first: int | None = None
    for choice in product((0, 1), repeat=min(len(open_rings), _TRIED)):
        for ring, late in zip(open_rings, reversed(choice), strict=False):
            _set_lead(ring, late * len(ring.barriers))
        stuck = _find_deadlock(items, rings, warps)
        if stuck is None:
            return None
        first = stuck if first is None else first
    return first


def _set_lead(ring: _Ring, lead: int) -> None:
    for place in ring.places:
        signal = place.item.signal
        if signal is not None and signal.waits and not signal.arrives:
            place.item.signal = replace(signal, lead=lead)


def _find_deadlock(items: Sequence[GraphItem], rings: Sequence[_Ring], warps: int) -> int | None:
    """Return a channel at which a warp waits for ever; None if there is none."""
    run = _Untimed(rings)
    going = {w: _events(items, w) for w in range(warps)}
    waiting: dict[int, Signal] = {}
    progress = True
    while going and progress and run.events < _EVENTS:
        progress = False
        for warp, events in list(going.items()):
            pending = waiting.pop(warp, None)
            while (signal := pending or next(events, None)) is not None:
                if not run.passes(warp, signal, again=pending is not None):
                    waiting[warp] = signal
                    break
                pending, progress = None, True
            if signal is None:
                del going[warp]
    return min(s.channel for s in waiting.values()) if waiting and not progress else None


def _events(items: Sequence[GraphItem], warp: int) -> Iterator[Signal]:
    """Yield the signals of one warp in order, loop by loop."""
    for item in items:
        if item.instruction is None:
            if item.signals:
                for _ in range(item.each[warp] if item.each else item.trips):
                    yield from _events(item.body, warp)
            continue
        signal, here = item.signal, item.warps is None or warp in item.warps
        if here and signal is not None and not signal.copies:
            yield signal


class _Untimed:
    """Simulation without time: the arrivals by channel and phase."""

    def __init__(self, rings: Sequence[_Ring]) -> None:
        self.rings = rings
        self.arrived: dict[tuple[int, int], int] = {}
        self.done: dict[tuple[int, int, bool], int] = {}
        self.events = 0

    def passes(self, warp: int, signal: Signal, again: bool) -> bool:
        """Return True if a warp can go on; ``again``: it has arrived before."""
        self.events += 1
        only_waits = not signal.arrives
        key = warp, signal.channel, only_waits
        phase = self.done.get(key, 0)
        if signal.arrives and not again:
            arrived = self.arrived.get((signal.channel, phase), 0)
            self.arrived[signal.channel, phase] = arrived + 1
        wanted = phase - signal.lead
        complete = self.arrived.get((signal.channel, wanted), 0)
        if signal.waits and wanted >= 0 and complete < self.rings[signal.channel].arrivals:
            return False
        self.done[key] = phase + 1
        return True
