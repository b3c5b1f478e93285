"""Dominators and endless loops against networkx, on random graphs."""

import random

import networkx as nx
import pytest

from perfassert.frontends.machine.control_flow import EXIT, immediate_postdominators
from perfassert.frontends.machine.dominators import immediate_dominators, postorder, reachable


def draw(seed):
    """A random graph as node → successors; some of it may be endless or out of reach."""
    chance = random.Random(seed)
    nodes = range(chance.randint(1, 12))
    return {n: chance.sample([*nodes, EXIT], chance.randint(0, min(3, len(nodes)))) for n in nodes}


def digraph(successors):
    graph = nx.DiGraph()
    graph.add_nodes_from(successors)
    graph.add_edges_from((n, t) for n, targets in successors.items() for t in targets)
    return graph


@pytest.mark.parametrize("start", range(0, 1000, 100))
def test_orders_and_dominators_are_those_of_networkx(start):
    for seed in range(start, start + 100):
        successors = {**draw(seed), EXIT: []}
        graph = digraph(successors)
        assert reachable(successors, 0) == {0, *nx.descendants(graph, 0)}, seed
        assert postorder(successors, 0) == list(nx.dfs_postorder_nodes(graph, 0)), seed
        oracle = {n: d for n, d in nx.immediate_dominators(graph, 0).items() if n != 0}
        assert immediate_dominators(successors, 0) == oracle, seed


@pytest.mark.parametrize("start", range(0, 1000, 100))
def test_endless_loops_are_given_an_exit(start):
    for seed in range(start, start + 100):
        successors = {n: targets or [EXIT] for n, targets in draw(seed).items()} | {EXIT: []}
        graph = digraph(successors)
        for component in list(nx.strongly_connected_components(graph)):
            leaves = any(t not in component for n in component for t in graph.successors(n))
            if not leaves and EXIT not in component:
                graph.add_edge(min(component), EXIT)
        oracle = nx.immediate_dominators(graph.reverse(), EXIT)
        expected = {n: d for n, d in oracle.items() if n != EXIT}
        assert immediate_postdominators(successors) == expected, seed
