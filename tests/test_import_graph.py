"""No module imports, at its top or lazily, what imports it in turn."""

import ast
from pathlib import Path

import networkx
import pytest

import perfassert

ROOT = Path(perfassert.__file__).parent


def imported(tree, modules):
    """Modules that a module imports wherever it does; what only type checkers read is left out."""
    if isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING":
        return
    if isinstance(tree, ast.Import):
        yield from (alias.name for alias in tree.names if alias.name in modules)
    elif isinstance(tree, ast.ImportFrom) and tree.level == 0:
        for alias in tree.names:
            submodule = f"{tree.module}.{alias.name}"
            yield from (name for name in (submodule, tree.module) if name in modules)
    for child in ast.iter_child_nodes(tree):
        yield from imported(child, modules)


def import_graph(root):
    """Return the graph of imports by dotted name; a package is its ``__init__``."""
    paths = {}
    for path in root.rglob("*.py"):
        parts = (root.name, *path.relative_to(root).with_suffix("").parts)
        paths[".".join(p for p in parts if p != "__init__")] = path
    graph = networkx.DiGraph()
    for name, path in paths.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        graph.add_edges_from((name, other) for other in imported(tree, paths))
    return graph


def circles(root):
    """Sets of modules that reach each other, and modules that import themselves."""
    graph = import_graph(root)
    alone = ({name} for name in graph if graph.has_edge(name, name))
    found = [s for s in networkx.strongly_connected_components(graph) if len(s) > 1]
    return sorted(sorted(s) for s in [*found, *alone])


def test_no_circle():
    assert circles(ROOT) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from pack.b import thing", True),
        ("import pack.b", True),
        ("from pack import b", True),
        ("def f():\n    from pack.b import thing", True),
        ("if TYPE_CHECKING:\n    from pack.b import thing", False),
        ("from other.b import thing", False),
    ],
)
def test_circles_are_found_wherever_they_are_imported(tmp_path, text, found):
    root = tmp_path / "pack"
    root.mkdir()
    (root / "__init__.py").touch()
    (root / "a.py").write_text(text)
    (root / "b.py").write_text("from pack.a import f")
    assert circles(root) == ([["pack.a", "pack.b"]] if found else [])
