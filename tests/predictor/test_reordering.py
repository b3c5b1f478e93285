"""Tests of which instructions may be scheduled earlier, and of the costs."""

from dataclasses import dataclass

import pytest
from advice_pairs import FEW, ROWS, SOURCE, predicted

import perfassert as pa
from perfassert.kernel.graph import ItemKind
from perfassert.predictor.model import model_of
from perfassert.predictor.rewrites.changed_graph import OUTSIDE, inside
from perfassert.predictor.rewrites.control_dependence import ControlDependence
from perfassert.predictor.rewrites.list_scheduling import (
    limit_latencies,
    stall_counts,
    unexplained_stalls,
)
from perfassert.predictor.rewrites.next_iteration import loads_for_next
from perfassert.predictor.rewrites.register_pressure import max_live_values
from perfassert.predictor.rewrites.scheduling import _Scheduling, load_before_barriers, reschedule

KERNELS = {
    "guarded": FEW, "rows_at_once": ROWS, "two_phases": FEW, "divided": FEW, "imbalanced": FEW,
}  # fmt: skip


def simulated(name, launch):
    try:
        return model_of(predicted(name, launch))
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


def again(model, ahead):
    kernel = model.bound_launch.kernel
    loops = frozenset((OUTSIDE, *(x.index for x in model.graph.loops)))
    return reschedule(model.graph, loops, model.device, kernel.program, kernel.bound, ahead)


def order(graph):
    """Nodes in the order of the outermost body, those of loops at their place."""
    return [n.index for n in inside(graph, graph.body)]


def loads_of(model, line):
    """Global loads from the line that has this text."""
    (number,) = [k for k, text in enumerate(SOURCE.read_text().splitlines(), 1) if line in text]
    return [
        n.index for n in model.graph.nodes
        if n.operation == "global_load" and n.span is not None and n.span.line == number
    ]  # fmt: skip


class TestBranches:
    def test_a_branch_decides_on_what_it_can_skip(self):
        model = simulated("guarded", FEW)
        control = ControlDependence(model.bound_launch.kernel.program)
        nodes = model.graph.nodes
        first = next(n for n in nodes if n.operation == "global_load")
        last = next(n for n in reversed(nodes) if n.operation == "global_store")
        (inner, *_) = loads_of(model, "s += in[i + 5 * n]")
        entry, exit_ = control.block(first.program), control.block(last.program)
        assert control.always_follows(exit_, entry)
        assert not control.always_follows(control.block(nodes[inner].program), entry)

    def test_loads_stay_behind_the_branch_that_decides_on_them(self):
        """Loads behind the point where the branch's paths reconverge may move; the others may
        not."""
        model = simulated("guarded", FEW)
        after = order(again(model, True))
        inner = loads_of(model, "s += in[i + 5 * n]")
        behind = loads_of(model, "out[i] = s + in[i + 7 * n]")
        branches = (n.index for n in model.graph.nodes if n.operation == "branch" and n.loop < 0)
        branch = max(b for b in branches if b < inner[0])
        assert all(after.index(n) > after.index(branch) for n in inner)
        assert all(after.index(n) < after.index(branch) for n in behind)


class TestBarriers:
    def test_a_load_of_what_is_never_written_comes_before_them(self):
        model = simulated("two_phases", FEW)
        kernel = model.bound_launch.kernel
        (load, *_) = loads_of(model, "part[t] = in[x]")
        fence = next(n.index for n in model.graph.nodes if n.fence)
        early = load_before_barriers(model.graph, model.device, kernel.program, kernel.bound)
        for graph in (early, again(model, True)):
            assert order(graph).index(load) < order(graph).index(fence)
        as_it_is = again(model, False)
        assert order(as_it_is).index(load) > order(as_it_is).index(fence)

    def test_shared_memory_stays_between_them(self):
        model = simulated("rows_at_once", ROWS)
        phase = {}
        for graph in (model.graph, again(model, True)):
            passed, phases = 0, {}
            for n in inside(graph, graph.body):
                passed += n.fence
                if n.operation.startswith("shared"):
                    phases[n.index] = passed
            assert phase in ({}, phases)
            phase = phases

    def test_a_load_for_the_next_iteration_waits_for_the_last_reader_of_its_register(self):
        model = simulated("rows_at_once", ROWS)
        (load, *_) = loads_of(model, "+ in[x + k * n]")
        after = again(model, True)
        readers = [n for n in after.nodes
                   if any(s.producer == load for e in n.edges for s in e.sources)]  # fmt: skip
        assert readers
        for reader in readers:
            assert {s.distance for e in reader.edges for s in e.sources
                    if s.producer == load} == {1}  # fmt: skip
            assert order(after).index(reader.index) < order(after).index(load)


@pytest.mark.parametrize("name", KERNELS)
def test_the_order_as_it_is_costs_what_it_did(name):
    model = simulated(name, KERNELS[name])
    kernel = model.bound_launch.kernel
    work = _Scheduling(model.graph, model.device, kernel.program, kernel.bound)
    for body in (model.graph.body, *(x.body for x in model.graph.loops)):
        steps = [work.step(item) for item in body if item.number not in model.launch_nodes
                 or item.kind is ItemKind.LOOP]  # fmt: skip
        work.depend(steps)
        limit_latencies(steps)
        stalls = stall_counts(steps, steps, unexplained_stalls(steps))
        for step in steps[:-1]:
            if step.item.kind is ItemKind.NODE:
                assert stalls[step.node.index] == step.node.stall


@dataclass
class Instruction:
    uses: tuple = ()
    predicate: str = ""


@dataclass
class Program:
    instructions: list


@dataclass
class Node:
    index: int
    operation: str = "int32"

    @property
    def program(self):
        return self.index


def next_loads(*lines):
    """``"R1 < R2"``: defines and uses; ``"@P0 load R1 < R2"``. Numbers of the loads for the next
    iteration."""
    instructions, operands, loads = [], [], set()
    for k, line in enumerate(lines):
        head, _, uses = line.partition(" < ")
        *marks, defines = head.split()
        predicate = next((m[1:] for m in marks if m[0] == "@"), "")
        names = tuple(uses.split())
        if "load" in marks:
            loads.add(k)
        own = names + ((predicate,) if predicate else ())
        instructions.append(Instruction(own, predicate))
        operands.append(((defines,), own + ((defines,) if predicate else ())))
    nodes = [Node(k) for k in range(len(lines))]
    program = Program(instructions)
    return loads_for_next(nodes, loads, lambda n: operands[n.index], program, None)


class TestNextIteration:
    def test_addresses_that_count_on_do_not_need_what_was_loaded(self):
        assert next_loads("load R1 < R2", "R2 < R2", "R3 < R1") == {0}

    def test_a_chain_of_pointers_does(self):
        assert next_loads("load R1 < R1") == set()
        assert next_loads("load R1 < R2", "load R3 < R1", "R2 < R2") == {0}
        assert next_loads("load R1 < R2", "R2 < R1") == set()

    def test_a_register_that_is_overwritten_is_another(self):
        assert next_loads("load R1 < R2", "R3 < R1", "R1 < R4", "R2 < R1") == {0}

    def test_the_same_predicate_sees_no_old_value(self):
        """Under P0 the address is what was computed under P0."""
        lines = ("@P0 R1 < R4", "@P0 load R1 < R1", "R3 < R1")
        assert next_loads(*lines) == {1}
        assert next_loads("@P0 R1 < R4", "load R1 < R1", "R3 < R1") == set()
        assert next_loads("@P0 R1 < R4", "P0 < R5", "@P0 load R1 < R1", "R3 < R1") == set()


class TestRegisters:
    def test_values_are_alive_from_definition_to_last_use(self):
        chain = [(["R0"], []), (["R1"], ["R0"]), (["R2"], ["R1"])]
        assert max_live_values(chain, [0, 1, 2]) == 1
        four = [([f"R{n}"], []) for n in range(4)] + [(["R4"], [f"R{n}" for n in range(4)])]
        assert max_live_values(four, range(5)) == 4

    def test_inputs_are_there_from_the_start_and_results_to_the_end(self):
        assert max_live_values([(["R1"], ["R0"]), (["R3"], ["R2"])], [0, 1]) == 2
        assert max_live_values([(["R1"], []), (["R2"], [])], [0, 1]) == 2

    def test_predicates_are_no_registers(self):
        assert max_live_values([(["P0"], []), (["UR4"], ["P0"])], [0, 1]) == 0
