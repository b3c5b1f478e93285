"""Random graphs and units, from any source of random choices."""

from dataclasses import replace

from perfassert.kernel.graph import InstructionGraph, Latency

OPERATIONS = ("a", "b", "c", "d")
ISSUES = (0.25, 0.5, 1, 1.75, 2, 3, 7)
COMPLETIONS = (0.5, 1, 2, 5, 9.5, 18, 40)


class Maker:
    """``pick(sequence)`` chooses; everything else follows from it."""

    def __init__(self, pick, warps, max_trips=9, max_items=4, channels=False):
        self.pick = pick
        self.warps = warps
        self.max_trips = max_trips
        self.max_items = max_items
        self.builder = InstructionGraph.builder()
        self.names = 0
        self.kinds = ("op", "op", "op", "loop", "barrier", "partial", "only")
        if channels:
            self.kinds += ("meet", "split", "group", "ring")

    def graph(self):
        self.items([], [], depth=0, only=False)
        self.builder.op(self.pick(OPERATIONS))
        return self.builder.build()

    def items(self, visible, bodies, depth, only):
        """Add items; ``visible``: nodes that may be used; ``bodies``: open loops, with names."""
        for _ in range(self.pick(range(1, self.max_items + 1))):
            kind = self.pick(self.kinds)
            if kind == "loop" and depth < 3:
                self.loop(visible, bodies, depth, only)
            elif kind == "barrier" and not only:
                self.builder.barrier()
            elif kind == "partial" and not only:
                self.builder.barrier(*[self.pick(visible)] if visible else ())
            elif kind == "meet" and not only:
                self.builder.meet(self.builder.channel(self.warps))
            elif kind == "split" and not only:
                self.split(visible, bodies)
            elif kind == "group" and not only:
                self.group()
            elif kind == "ring" and not only and self.warps > 1 and not bodies:
                self.ring(visible)
            elif kind == "only" and not only and self.warps > 1 and not bodies:
                with self.builder.only(warps={self.pick(range(self.warps))}):
                    self.op(visible, bodies)
            else:
                self.op(visible, bodies)

    def split(self, visible, bodies):
        """Everybody arrives, and waits later on."""
        channel = self.builder.channel(self.warps)
        copies = self.pick((0, 0, 1, 2))
        self.builder.arrive(channel, *self.some(visible), expects=copies)
        for _ in range(copies):
            self.builder.op(self.pick(OPERATIONS), *self.some(visible), completes=channel)
        self.op(visible, bodies)
        self.builder.wait(channel, *self.some(visible), lead=self.pick((0, 0, 1, 2)))

    def group(self):
        """Some warps meet, at a place where others go on."""
        first = self.pick(range(self.warps))
        members = range(first, self.warps)
        channel = self.builder.channel(len(members))
        with self.builder.only(warps=members):
            self.builder.meet(channel)

    def ring(self, visible):
        """The first warp copies for the others, several stages ahead."""
        g, stages, copies = self.builder, self.pick((1, 2, 3, 4)), self.pick((0, 1, 1, 2))
        trips, again = self.pick(range(self.max_trips + 1)), self.pick((1, 1, 2, 3))
        full, empty = g.channel(1), g.channel(self.warps - 1)
        with g.only(warps={0}), g.loop(again), g.loop(trips):
            self.some_ops()
            g.wait(empty, lead=stages)
            g.arrive(full, *self.some(visible), expects=copies)
            for _ in range(copies):
                g.op(self.pick(OPERATIONS), completes=full)
        with g.only(warps=range(1, self.warps)), g.loop(again), g.loop(trips):
            g.wait(full)
            made = self.some_ops()
            g.arrive(empty, *made)
            self.some_ops()

    def some_ops(self):
        return [self.builder.op(self.pick(OPERATIONS)) for _ in range(self.pick((0, 1, 2)))]

    def some(self, visible):
        return [self.pick(visible)] if visible and self.pick((True, False)) else []

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


def latencies(pick, scoped, channels=()):
    pipes = {}
    result = {}
    for operation in (*OPERATIONS, "barrier", *channels):
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
        n._replace(stall=pick((1, 1, 2, 5)), demands=() if n.fence else chains.get(n.operation, ()))
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
