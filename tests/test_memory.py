"""Tests of state that outlives a call: sessions, and bounded caches of pure functions.

A cache on kernels or launches, a context variable, or a container of a module that functions write
to would let an answer depend on what was asked before. Each one that is left has its reason here.
"""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src/perfassert"
CACHES = {
    "comparison/revisions.py _find_repository": "where git looks, by folder",
    "conformance.py reference_predictions": "no argument: predictions of fixed kernels",
    "engines/extension.py compiled_core": "an extension module, by the name of its engine",
    "engines/pipeline/program.py exact": "a number as a fraction",
    "engines/volume/warps.py _bank_hashes": "a table, by a number of bits",
    "frontends/machine/opcodes.py operation_class": "by architecture and opcode",
    "frontends/graph/launch_graph.py _weights": "by two numbers",
    "frontends/machine/opcodes.py _family": "by architecture",
    "frontends/machine/opcodes.py opcode_table": "a shipped table, by its name",
    "frontends/machine/registers.py consecutive_registers": "names of registers",
    "frontends/machine/sass.py parse_operand": "the text of an operand",
    "frontends/toolchain/names.py demangle": "the text of a name",
    "frontends/toolchain/tools.py _candidates": "installed tools, by name and environment",
    "frontends/toolchain/tools.py _package_on": "folders of a package, by name and import path",
    "frontends/toolchain/tools.py _version": "version of an installed wheel",
    "frontends/toolchain/tools.py _stated_release": "what a tool says of itself, by its path",
    "frontends/cuda/written_launches.py _launches_in": "by names and texts of files",
    "hardware/load.py _shipped_files": "no argument: names of the shipped devices",
    "hardware/load.py _load": "a device, by path and digests of its files",
    "hardware/matrix.py from_name": "by the name of a variant",
    "predictor/judge/errors.py _table": "no argument: the shipped table of errors",
    "predictor/judge/errors.py _error_of_like": "by metric and kind of prediction",
    "predictor/judge/errors.py _left_out_factors": "no argument: the shipped table of errors",
    "predictor/judge/errors.py _widest": "no argument: the shipped table of errors",
    "predictor/cost/memory.py _queue_latency": "by two numbers",
    "predictor/judge/pairs.py _table": "no argument: the shipped table of pairs",
    "predictor/stored.py predictor_digest": "no argument: the files of the package",
    "shipped.py _model_values": "no argument: the shipped numbers of the model",
    "system/processes.py mechanisms": "no argument: what the kernel of the system offers",
    "system/processes.py python_folders": "no argument: folders of the interpreter",
    "system/watched_files.py _path_arguments": "no argument: system calls of the machine",
}
CONTEXT_VARIABLES = {
    "expect/check.py GATE": "what the running test may check; it refuses, and changes no answer",
    "frontends/toolchain/ahead.py _on_miss": "who is told of a compilation; changes no result",
}
KEPT_BY_VALUES = {
    "engines/execution/compiled.py": "code as the core takes it, by the results that are needed",
    "engines/execution/plan.py": "the operations of code, by the results that are needed",
    "engines/execution/slicing.py": "the operations that decide addresses, or control flow alone",
    "engines/pipeline/compiled.py": "a program and its outline as the core takes them",
    "engines/pipeline/program.py": "outlines of a graph's programs, and their nodes with costs",
    "engines/volume/executed.py": "bytes that executed blocks touch, by granularity",
    "engines/volume/written.py": "expressions of a described kernel, by names and values",
    "frontends/graph/numbering.py": "the nodes of the last launch, by what they execute",
    "frontends/access_graph.py": "the graph of a described kernel",
    "kernel/description.py": "the encoding of a described kernel",
    "predictor/cost/memory.py": "the nodes of a graph that touch memory, and its classes",
    "predictor/rewrites/control_dependence.py": "of a program",
    "predictor/model.py": "the graph of a described kernel, and of code with its block's launch",
}
"""Files with ``once`` or ``latest``: what follows from an immutable value, and dies with it."""
WRITTEN = {
    "frontends/cuda/inventory.py _KNOWN_CODE": "facts of machine code, by its digest",
    "frontends/toolchain/cache.py _in_the_making": "results that a thread is making now",
    "frontends/toolchain/cache.py _seal": "entries to be trusted while a build runs",
    "frontends/toolchain/inputs.py _logged_reasons": "messages that were printed",
}
_CONTAINERS = ("dict", "list", "set", "OrderedDict", "defaultdict", "deque", "Counter")
_WRITES = frozenset(
    "append add update setdefault pop clear extend remove insert discard popitem".split()
)


def name_of(node: ast.AST) -> str:
    """The last part of a dotted name, of a call's function too."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def trees():
    for path in sorted(SOURCES.rglob("*.py")):
        yield path.relative_to(SOURCES).as_posix(), ast.parse(path.read_text("utf-8"))


def assigned(tree):
    """Names that a module assigns, with the values."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield ast.unparse(node.targets[0]), node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield ast.unparse(node.target), node.value


def test_caches():
    found = {}
    for file, tree in trees():
        for node in ast.walk(tree):
            for decorator in getattr(node, "decorator_list", ()):
                if name_of(decorator) in ("lru_cache", "cache"):
                    bound = [k.value for k in getattr(decorator, "keywords", ())]
                    arguments = [a for a in node.args.args if a.arg != "cls"]
                    found[f"{file} {node.name}"] = bool(bound) or len(arguments) == 1
    assert sorted(found) == sorted(CACHES)
    unbounded = [name for name, bounded in found.items() if not bounded]
    assert not unbounded


def test_context_variables():
    found = [
        f"{file} {name}"
        for file, tree in trees()
        for name, value in assigned(tree)
        if name_of(value) == "ContextVar"
    ]
    assert sorted(found) == sorted(CONTEXT_VARIABLES)


def test_what_values_keep():
    found = {
        file
        for file, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("once", "latest")
    }
    assert found == set(KEPT_BY_VALUES)


def test_globals_that_functions_write_to():
    found = set()
    for file, tree in trees():
        functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.Lambda))]
        inner = [node for function in functions for node in ast.walk(function)]
        rebound = {name for n in inner if isinstance(n, ast.Global) for name in n.names}
        containers = {
            name
            for name, value in assigned(tree)
            if isinstance(value, (ast.Dict, ast.List, ast.Set)) or name_of(value) in _CONTAINERS
        }
        written = {
            ast.unparse(n.value)
            for n in inner
            if isinstance(n, ast.Subscript) and isinstance(n.ctx, (ast.Store, ast.Del))
        } | {
            ast.unparse(n.func.value)
            for n in inner
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
            if n.func.attr in _WRITES
        }
        found |= {f"{file} {name}" for name in rebound | (containers & written)}
    assert found == set(WRITTEN)
