"""Orders and dominators of a graph that is given as node → successors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Successors = Mapping[int, Sequence[int]]


def reachable(successors: Successors, start: int) -> set[int]:
    """Return the nodes that paths from ``start`` come to, and itself.

    >>> sorted(reachable({0: [1], 1: [0], 2: [1]}, 0))
    [0, 1]
    """
    reached, stack = {start}, [start]
    while stack:
        for target in successors[stack.pop()]:
            if target not in reached:
                reached.add(target)
                stack.append(target)
    return reached


def postorder(successors: Successors, start: int) -> list[int]:
    """Return the nodes in the order in which a depth-first search leaves them.

    >>> postorder({0: [1, 2], 1: [3], 2: [3], 3: []}, 0)
    [3, 1, 2, 0]
    """
    left: list[int] = []
    entered, path = {start}, [(start, iter(successors[start]))]
    while path:
        node, targets = path[-1]
        for target in targets:
            if target not in entered:
                entered.add(target)
                path.append((target, iter(successors[target])))
                break
        else:
            left.append(node)
            path.pop()
    return left


def reverse(successors: Successors) -> dict[int, list[int]]:
    """Return node → predecessors, which are in the order of the nodes.

    >>> reverse({0: [1], 1: [1]})
    {0: [], 1: [0, 1]}
    """
    predecessors: dict[int, list[int]] = {node: [] for node in successors}
    for node, targets in successors.items():
        for target in targets:
            predecessors[target].append(node)
    return predecessors


def immediate_dominators(successors: Successors, start: int) -> dict[int, int]:
    """Return the immediate dominator of each node that ``start`` reaches, which has none itself.

    Example:
        >>> immediate_dominators({0: [1, 2], 1: [3], 2: [3], 3: [0]}, 0)
        {2: 0, 1: 0, 3: 0}

    Source:
        Cooper, Harvey and Kennedy, *A Simple, Fast Dominance Algorithm*, 2001.
    """
    order = postorder(successors, start)
    place = {node: at for at, node in enumerate(order)}
    predecessors = reverse(successors)
    above = {start: start}

    def meet(a: int, b: int) -> int:
        """Return the nearest node above both: of two nodes the one left earlier lies deeper."""
        while a != b:
            if place[a] < place[b]:
                a = above[a]
            else:
                b = above[b]
        return a

    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            known = [p for p in predecessors[node] if p in above]
            nearest = known[0]
            for other in known[1:]:
                nearest = meet(nearest, other)
            changed |= above.get(node) != nearest
            above[node] = nearest
    del above[start]
    return above
