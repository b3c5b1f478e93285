"""List scheduling of the instructions between two barriers, and the stall counts that remain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from heapq import heappop, heappush
from itertools import accumulate, pairwise
from operator import or_
from types import MappingProxyType

from perfassert.kernel.graph import BodyItem, Node
from perfassert.kernel.roles import node_space
from perfassert.shipped import model_integer

IN_FLIGHT = model_integer("loads_in_flight")
"""Loads that may be on their way beside those of the code as it is: each needs a register."""
NONE: Mapping[int, int] = MappingProxyType({})


@dataclass(slots=True)
class Step:
    """An item of a body, with what it waits for: step → cycles after its issue.

    ``cycles`` that it takes to issue; ``length`` until the next item of the body is issued."""

    item: BodyItem
    node: Node | None
    cycles: int
    length: int
    waits: dict[int, int] = field(default_factory=dict)
    fixed: dict[int, int] = field(default_factory=dict)
    height: int = 0
    feeds: bool = False


def stall_counts(
    order: Sequence[Step], steps: Sequence[Step], least: Mapping[int, int] = NONE
) -> dict[int, int]:
    """Return the cycles from each node to its successor, by the node's number.

    They are those that fixed latencies need, and no fewer than ``least``.
    """
    place = {id(s): n for n, s in enumerate(steps)}
    issue: dict[int, int] = {}
    stalls: dict[int, int] = {}
    now, before = 0, None
    for step in order:
        own = 1 if before is None else least.get(before.index, 1)
        at = max([now + own, *(issue[p] + c for p, c in step.fixed.items())])
        if before is not None:
            stalls[before.index] = at - now
        issue[place[id(step)]] = at
        now, before = at, step.node
    return stalls


def limit_latencies(steps: Sequence[Step]) -> None:
    """No fixed latency is longer than the distance at which the compiler left definition and
    use."""
    place = [0, *accumulate(step.length for step in steps)]
    for k, step in enumerate(steps):
        step.fixed = {b: min(cycles, place[k] - place[b]) for b, cycles in step.fixed.items()}


def unexplained_stalls(steps: Sequence[Step]) -> dict[int, int]:
    """Return stall counts of the compiler that are longer than fixed latencies need.

    Branches, barriers and half-width pipelines have them. They stay, so that the present order
    costs what it did.
    """
    place = [0, *accumulate(step.length for step in steps)]
    least: dict[int, int] = {}
    for k, (step, following) in enumerate(pairwise(steps)):
        needed = max((place[b] + c for b, c in following.fixed.items()), default=0) - place[k]
        if step.node is not None and step.length > max(1, needed):
            least[step.node.index] = step.length
    return least


def pass_on_waits(steps: Sequence[Step], gone: frozenset[int]) -> None:
    """Let steps wait for what the removed steps that they waited for have waited for.

    Removed stores 1, 2 and 3 wait for each other: a reader of 3 takes what 3 has inherited, which
    includes what 1 and 2 have waited for, and need not look at these.
    """
    covered: dict[int, int] = {}  # by removed step, a bit for each one whose waits it has inherited
    for k, step in enumerate(steps):
        removed = sorted(gone.intersection(step.waits))
        inherited = reduce(or_, (covered[before] for before in removed), 0)
        for before in removed:
            del step.waits[before]
            step.fixed.pop(before, None)
            if inherited >> before & 1:
                continue
            for own, theirs in ((step.waits, steps[before].waits),
                                (step.fixed, steps[before].fixed)):  # fmt: skip
                for source, cycles in theirs.items():
                    own[source] = max(own.get(source, 0), cycles)
        if k in gone:
            covered[k] = reduce(or_, (1 << before for before in removed), inherited)


def greedy_order(steps: Sequence[Step]) -> list[int]:
    """Schedule greedily: what loads need first, while registers last, then the longest path."""
    users: list[list[int]] = [[] for _ in steps]
    for k, step in enumerate(steps):
        for before in step.waits:
            users[before].append(k)
    for k in range(len(steps) - 1, -1, -1):
        step = steps[k]
        step.height = step.cycles + max(
            (steps[u].waits[k] + steps[u].height for u in users[k]), default=0
        )
        step.feeds = _loads(step) or any(steps[u].feeds for u in users[k] if steps[u].node)
    return _Greedy(steps, users).order()


def _loads(step: Step) -> bool:
    return step.node is not None and step.node.produces and node_space(step.node) == "global"


def most_unread(steps: Sequence[Step], order: Iterable[int]) -> int:
    """Loads whose results are still to be read, at most, in that order."""
    readers = [0] * len(steps)
    for step in steps:
        for before in step.waits:
            readers[before] += _loads(steps[before])
    live = most = 0
    for k in order:
        for before in steps[k].waits:
            if readers[before]:
                readers[before] -= 1
                live -= not readers[before]
        live += bool(readers[k])
        most = max(most, live)
    return most


class _Greedy:
    """List scheduling of one segment.

    ``left``: what steps still wait for. ``unread``: who is still to read what was loaded.
    """

    def __init__(self, steps: Sequence[Step], users: Sequence[Sequence[int]]) -> None:
        self.steps = steps
        self.users = users
        self.left = [len(step.waits) for step in steps]
        self.unread = [len(u) if _loads(s) else 0 for s, u in zip(steps, users, strict=True)]
        self.at = [0] * len(steps)
        self.first: list[tuple[int, int]] = []
        self.others: list[tuple[int, int]] = []
        self.later = [(0, k) for k, n in enumerate(self.left) if not n]
        self.live = 0
        self.most = most_unread(steps, range(len(steps))) + IN_FLIGHT

    def order(self) -> list[int]:
        result: list[int] = []
        now = 0
        while self.first or self.others or self.later:
            while self.later and self.later[0][0] <= now:
                _, k = heappop(self.later)
                heap = self.first if self.steps[k].feeds else self.others
                heappush(heap, (-self.steps[k].height, k))
            chosen = self.next()
            if chosen is None:
                now = self.later[0][0]
                continue
            result.append(chosen)
            self.issue(chosen, now)
            now += self.steps[chosen].cycles
        return result

    def next(self) -> int | None:
        """Return the next step, or None to wait.

        A loop waits while steps that feed loads are still to come and registers are left.
        """
        full = self.live >= self.most
        if self.first and not (full and (self.others or self.later)):
            return heappop(self.first)[1]
        loop = bool(self.others) and self.steps[self.others[0][1]].node is None
        if self.others and not (
            loop and not full and any(self.steps[k].feeds for _, k in self.later)
        ):
            return heappop(self.others)[1]
        return None if self.later else heappop(self.first or self.others)[1]

    def issue(self, k: int, now: int) -> None:
        for before in self.steps[k].waits:
            if self.unread[before]:
                self.unread[before] -= 1
                self.live -= not self.unread[before]
        self.live += bool(self.unread[k])
        for user in self.users[k]:
            self.at[user] = max(self.at[user], now + self.steps[user].waits[k])
            self.left[user] -= 1
            if not self.left[user]:
                heappush(self.later, (self.at[user], user))
