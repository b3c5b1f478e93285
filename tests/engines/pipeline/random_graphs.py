"""Random graphs and units, from any source of random choices."""

from dataclasses import replace

from perfassert.kernel.graph import InstructionGraph, Latency

OPERATIONS = ("a", "b", "c", "d")
ISSUES = (0.25, 0.5, 1, 1.75, 2, 3, 7)
COMPLETIONS = (0.5, 1, 2, 5, 9.5, 18, 40)


class Maker:
    """``pick(sequence)`` chooses; everything else follows from it."""

    def __init__(self, pick, warps, max_trips=9, max_items=4):
        self.pick = pick
        self.warps = warps
        self.max_trips = max_trips
        self.max_items = max_items
        self.builder = InstructionGraph.builder()
        self.names = 0

    def graph(self):
        self.items([], [], depth=0, only=False)
        self.builder.op(self.pick(OPERATIONS))
        return self.builder.build()

    def items(self, visible, bodies, depth, only):
        """Add items; ``visible``: nodes that may be used; ``bodies``: open loops, with names."""
        for _ in range(self.pick(range(1, self.max_items + 1))):
            kind = self.pick(("op", "op", "op", "loop", "barrier", "partial", "only"))
            if kind == "loop" and depth < 3:
                self.loop(visible, bodies, depth, only)
            elif kind == "barrier" and not only:
                self.builder.barrier()
            elif kind == "partial" and not only:
                self.builder.barrier(*[self.pick(visible)] if visible else ())
            elif kind == "only" and not only and self.warps > 1 and not bodies:
                with self.builder.only(warps={self.pick(range(self.warps))}):
                    self.op(visible, bodies)
            else:
                self.op(visible, bodies)

    def op(self, visible, bodies):
        inputs = [self.pick(visible) for _ in range(self.pick((0, 0, 1, 2))) if visible]
        carried = [body for body in bodies if body[1]]
        if carried and self.pick((True, False)):
            body, names = self.pick(carried)
            inputs.append(body.carried(self.pick(names), distance=self.pick((1, 1, 2, 3))))
        visible.append(
            self.builder.op(
                self.pick(OPERATIONS), *inputs, produces=self.pick((True, True, True, False))
            )
        )

    def loop(self, visible, bodies, depth, only):
        before = list(visible)
        with self.builder.loop(self.pick(range(self.max_trips + 1))) as body:
            self.names += 1
            name = f"n{self.names}"
            init = self.pick(before) if before and self.pick((True, False)) else None
            outer = [b for b in bodies if b[1]]
            if outer and self.pick((True, False, False)):
                around, names = self.pick(outer)
                init = around.carried(self.pick(names))
            chained = self.pick((True, True, False))
            inputs = (
                [body.carried(name, init=init, distance=self.pick((1, 1, 2)))] if chained else []
            )
            inside = list(visible)
            inside.append(self.builder.op(self.pick(OPERATIONS), *inputs, name=name))
            names = [name]
            self.items(inside, [*bodies, (body, names)], depth + 1, only)
            for _, around in bodies:
                around.append(name)
        visible.extend(inside[len(visible) :])


def latencies(pick, scoped):
    pipes = {}
    result = {}
    for operation in (*OPERATIONS, "barrier"):
        pipeline = pick(("p", "q", "r")) if operation != "barrier" else "barrier"
        scope = pipes.setdefault(pipeline, pick(("unit", "scheduler")) if scoped else "unit")
        result[operation] = Latency(pick(ISSUES), pick(COMPLETIONS), pipeline, scope)
    return result


def behind_servers(pick, graph, fill=(0, 0.5, 1, 3, 4.25, 12)):
    """The graph with stall counts, and with demands for operations ``a`` and ``b``."""
    chains = {
        "a": (("lsu", pick(fill)), ("l2", pick(fill)), ("dram", pick(fill))),
        "b": (("lsu", pick(fill)),),
    }
    nodes = tuple(
        replace(
            n,
            stall=pick((1, 1, 2, 5)),
            demands=() if n.fence else chains.get(n.operation, ()),
        )
        for n in graph.nodes
    )
    return replace(graph, nodes=nodes)


def unit(pick):
    """Arguments of ``simulate`` but for graph and latencies."""
    schedulers = pick((1, 1, 2, 4))
    return {
        "warps_per_block": pick((1, 2, 3, 5)),
        "blocks": pick((1, 2, 3, 5, 8)),
        "resident_blocks": pick((1, 2, 3)),
        "issue_order": pick(("dataflow", "in-order")),
        "scheduler": pick(("loose-round-robin", "greedy-then-oldest")),
        "schedulers": schedulers,
        "issue_width": pick((None, None, 1, 1, 2)),
    }
