"""Changes that advice carries out on the model: what they keep, and what they do to graph and
addresses."""

import random

import pytest

import perfassert as pa
from perfassert.kernel.access import Direction
from perfassert.kernel.affine import Affine
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.graph import ItemKind
from perfassert.kernel.names import LoopCounter
from perfassert.predictor.rewrites.changed_accesses import _lay_out
from perfassert.predictor.rewrites.changed_graph import balance_warps, without, work_alone
from perfassert.predictor.rewrites.scheduling import reschedule
from perfassert.predictor.rewrites.unrolling import unroll_factor, unroll_loops

A100 = pa.device("a100")
LATENCIES = {
    "global_load": pa.Latency(4, 90, "global"),
    "fp32": pa.Latency(1, 4, "alu"),
    "int32": pa.Latency(1, 3, "alu"),
    "barrier": pa.Latency(1, 2, "barrier"),
}


def graph_of(seed, trips, fences=False):
    """A loop of random instructions, some of which read what earlier iterations made."""
    draw = random.Random(seed)
    g = pa.InstructionGraph.builder()
    first = g.op("int32")
    with g.loop(trips=trips) as body:
        made = [first]
        for k in range(draw.randint(3, 8)):
            inputs = draw.sample(made, min(len(made), draw.randint(0, 2)))
            if draw.random() < 0.4:
                inputs.append(body.carried(f"v{k}", distance=draw.randint(1, 3)))
            made.append(g.op(draw.choice(("global_load", "fp32", "int32")), *inputs, name=f"v{k}"))
            if fences and draw.random() < 0.3:
                g.barrier()
    g.op("fp32", made[-1])
    return g.build()


def cycles(graph):
    return pa.simulate(graph, 2, 3, 2, LATENCIES).cycles


def dynamic(graph):
    """Instructions of one warp."""

    def count(body):
        return sum(
            1 if item.kind is ItemKind.NODE
            else graph.trips(item.number) * count(graph.loops[item.number].body)
            for item in body
        )  # fmt: skip

    return count(graph.body)


class TestUnrolling:
    @pytest.mark.parametrize("seed", range(30))
    def test_replication_is_what_a_loop_means(self, seed):
        """The same instructions that wait for the same ones take the same time."""
        before = graph_of(seed, 24)
        after = unroll_loops(before, frozenset({0}))
        assert after.trips(0) == 24 // unroll_factor(before, 0) == 3
        assert len(after.loops[0].body) == 8 * len(before.loops[0].body)
        assert dynamic(after) == dynamic(before)
        assert cycles(after) == cycles(before)

    @pytest.mark.parametrize(("trips", "count"), [(1, 1), (2, 2), (3, 3), (7, 7), (11, 4), (48, 8)])
    def test_copies_divide_the_trips_where_they_can(self, trips, count):
        graph = graph_of(1, trips)
        assert unroll_factor(graph, 0) == count
        assert unroll_loops(graph, frozenset({0})).trips(0) == -(-trips // count)

    def test_barriers_and_loops_around_others_stay(self):
        g = pa.InstructionGraph.builder()
        with g.loop(trips=8), g.loop(trips=8):
            g.op("fp32")
            g.barrier()
        graph = g.build()
        assert unroll_loops(graph, frozenset({0, 1})) is graph


class TestScheduling:
    @pytest.mark.parametrize("seed", range(30))
    @pytest.mark.parametrize("fences", [False, True])
    @pytest.mark.exhaustive(one_in=3)
    def test_order_follows_dependences_and_barriers(self, seed, fences):
        before = graph_of(seed, 8, fences)
        after = reschedule(before, frozenset({-1, 0}), A100, None, (), False)
        for old, new in zip(bodies(before), bodies(after), strict=True):
            assert sorted(old) == sorted(new)
            place = {item: n for n, item in enumerate(new)}
            for kind, number in new:
                node = after.nodes[number] if kind is ItemKind.NODE else None
                for edge in node.edges if node else ():
                    for s in edge.sources:
                        inside = (ItemKind.NODE, s.producer) in place and not s.distance
                        assert not inside or place[ItemKind.NODE, s.producer] < place[kind, number]
            assert between_barriers(before, old) == between_barriers(before, new)

    @pytest.mark.parametrize("seed", range(10))
    def test_data_flow_knows_no_order_of_the_program(self, seed):
        """But for who is first where several can be issued, which hardly counts here."""
        before = graph_of(seed, 8)
        after = reschedule(before, frozenset({-1, 0}), A100, None, (), False)
        free = {n: pa.Latency(1 / 64, x.completion, x.pipeline) for n, x in LATENCIES.items()}
        times = [pa.simulate(g, 2, 3, 2, free).cycles for g in (before, after)]
        assert times[0] == pytest.approx(times[1], rel=0.01)

    def test_loads_come_first_and_for_the_next_iteration(self):
        g = pa.InstructionGraph.builder()
        with g.loop(trips=64) as body:
            g.op("fp32", body.carried("s"), g.op("global_load"), name="s")
        graph = g.build()
        ahead = reschedule(graph, frozenset({0}), A100, None, (), True)
        assert [s.distance for e in ahead.nodes[1].edges for s in e.sources] == [1, 1]
        assert cycles(ahead) < cycles(graph)

    def test_a_chain_of_loads_cannot_be_loaded_ahead(self):
        g = pa.InstructionGraph.builder()
        with g.loop(trips=64):
            g.op("fp32", g.op("global_load", g.op("global_load")))
        graph = g.build()
        ahead = reschedule(graph, frozenset({0}), A100, None, (), True)
        distances = [[s.distance for e in n.edges for s in e.sources] for n in ahead.nodes]
        assert distances[2] == [0]


def bodies(graph):
    return [graph.body, *(loop.body for loop in graph.loops)]


def between_barriers(graph, body):
    """The sets of items that barriers keep apart, in order."""
    found = [set()]
    for item in body:
        if item.kind is ItemKind.NODE and graph.nodes[item.number].fence:
            found += [item, set()]
        else:
            found[-1].add(item)
    return found


def test_what_is_gone_passes_on_what_it_waited_for():
    g = pa.InstructionGraph.builder()
    far = g.op("global_load")
    g.op("int32", far)
    g.op("fp32")
    graph = without(g.build(), {1})
    assert [item.number for item in graph.body] == [0, 2]
    assert graph.nodes[2].edges[0].sources[0].producer == 0


class TestBalance:
    def test_a_loop_of_one_warp_is_shared(self):
        g = pa.InstructionGraph.builder()
        with g.only(warps=[0]), g.loop(trips=64):
            g.op("fp32")
        g.barrier()
        graph = balance_warps(g.build(), 4, None)
        assert graph.trips(0) == 16
        assert all(n.warps is None for n in graph.nodes)

    def test_single_instructions_are_left_in_as_many(self):
        g = pa.InstructionGraph.builder()
        with g.only(warps=[0, 1]):
            for _ in range(6):
                g.op("fp32")
        assert dynamic(balance_warps(g.build(), 4, None)) == 3

    def test_equal_warps_stay(self):
        graph = graph_of(3, 8, True)
        assert cycles(balance_warps(graph, 2, None)) == cycles(graph)

    def test_what_depends_on_each_other_is_not_divided(self):
        """Of two chains of three dependent instructions, one chain is left."""
        g = pa.InstructionGraph.builder()
        with g.only(warps=[0]):
            for _ in range(2):
                g.op("fp32", g.op("fp32", g.op("shared_load")))
        assert dynamic(balance_warps(g.build(), 4, None)) == 3

    def test_loops_that_hand_values_on_stay(self):
        g = pa.InstructionGraph.builder()
        with g.loop(trips=8), g.only(warps=[0]):
            g.op("shared_store", g.op("shared_load"))
        graph = balance_warps(g.build(), 4, None)
        assert graph.trips(0) == 8
        assert {n.warps for n in graph.nodes} == {frozenset({0})}


LAUNCH = pa.Launch((4, 8), (32, 4))


def laid_out(terms, room, planes=None, constant=0, loops=()):
    ranges = {name: (0, trips - 1) for name, trips in loops}
    access = BoundAccess(
        "a", "global", Direction.LOAD, 4, Affine(constant, terms), ranges, (),
        tuple(name for name, _ in loops), False, "", None,
    )  # fmt: skip
    made = _lay_out(access, planes or {constant: 0}, room, LAUNCH).address
    return made.constant, dict(made.terms)


class TestLastWarp:
    """Tests of a block of four warps: numbers of the remaining nodes, and their warps."""

    def tree(self, *sets):
        """Between barriers, each access belongs to one of these sets of warps."""
        g = pa.InstructionGraph.builder()
        for warps in sets:
            g.barrier()
            with g.only(warps=warps):
                g.op("shared_load")
        return g.build()

    @pytest.mark.parametrize(
        ("sets", "barriers"),
        [
            ([range(4), range(2), [0], [0], [0]], 3),
            ([[0], [0]], 1),
            ([range(4), range(2), [0]], 3),  # the one warp waits for what the others did
            ([[0], [0], range(4)], 2),  # of the first two, nobody else waits for the first
            ([[0], [1], [0]], 3),
        ],
    )
    def test_it_waits_for_nobody_once_it_is_alone(self, sets, barriers):
        graph = self.tree(*sets)
        left = work_alone(graph, 4)
        kept = [left.nodes[item.number] for item in left.body]
        assert sum(n.fence for n in kept) == barriers
        assert [n.warps for n in kept if not n.fence] == [frozenset(s) for s in sets]
        assert (left is graph) == (barriers == len(sets))

    @pytest.mark.parametrize("first", [True, False])
    def test_a_loop_of_one_warp_waits_once(self, first):
        """Before the first iteration or after the last one."""
        g = pa.InstructionGraph.builder()
        g.op("shared_store")
        with g.loop(trips=8):
            if first:
                g.barrier()
            with g.only(warps=[0]):
                g.op("shared_load")
            if not first:
                g.barrier()
        g.op("shared_load")
        left = work_alone(g.build(), 4)
        kinds = [item.kind for item in left.body]
        place = 1 if first else 2
        assert left.nodes[left.body[place].number].fence
        assert kinds[3 - place] is ItemKind.LOOP
        assert [left.nodes[i.number].fence for i in left.loops[0].body] == [False]

    def test_the_others_are_done(self):
        g = pa.InstructionGraph.builder()
        for _ in range(3):
            g.barrier()
            with g.only(warps=[0]):
                g.op("shared_load")
            with g.only(warps=[1, 2, 3]):
                g.op("move")
            g.op("int32")
        left = work_alone(g.build(), 4)
        kept = [left.nodes[item.number] for item in left.body]
        assert [n.operation for n in kept] == ["barrier", *["shared_load", "int32"] * 3]
        assert {n.warps for n in kept[1:]} == {frozenset({0})}


class TestCoalescing:
    def test_rows_and_columns_change_places(self):
        """Elements of neighbouring threads become neighbours; the next column follows all
        threads."""
        terms = (("x", 4 * 64), (LoopCounter(0), 4))
        constant, made = laid_out(terms, 4 * 128 * 64, loops=[(LoopCounter(0), 64)])
        assert constant == 0
        assert made == {"threadIdx.x": 4, "blockIdx.x": 4 * 32, LoopCounter(0): 4 * 128}

    def test_members_of_structures_become_arrays(self):
        terms = (("x", 8),)
        planes = {0: 0, 4: 1}
        assert laid_out(terms, 2 * 4 * 128, planes)[0] == 0
        assert laid_out(terms, 2 * 4 * 128, planes, 4)[0] == 4 * 128

    def test_neighbours_meet_where_there_is_no_room_for_more(self):
        terms = (("x", 8),)
        assert laid_out(terms, 4 * 128, {0: 0, 4: 1}, 4)[0] == 4

    def test_iterations_beyond_the_field_touch_it_again(self):
        terms = (("x", 4 * 64), (LoopCounter(0), 4))
        made = laid_out(terms, 4 * 128, loops=[(LoopCounter(0), 64)])[1]
        assert LoopCounter(0) not in made
