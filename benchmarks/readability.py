"""Readability figures of the source: names, comments, docstrings and lines, by package.

Usage: python benchmarks/readability.py [CHECKOUT]     (default: this one)
"""

import ast
import importlib.util
import io
import sys
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

from perfassert.report.tables import table

HERE = Path(__file__).parents[1]
_SPEC = importlib.util.spec_from_file_location("test_names", HERE / "tests" / "test_names.py")
assert _SPEC is not None
assert _SPEC.loader is not None
names = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(names)

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DOCUMENTED = (ast.Module, *_DEFINITIONS)


def _is_text(node: ast.AST) -> bool:
    constant = node.value if isinstance(node, ast.Expr) else None
    return isinstance(constant, ast.Constant) and isinstance(constant.value, str)


def count_lines(text: str, tree: ast.Module) -> Counter[str]:
    """Lines by what they are; what is none of the others is code."""
    lines: Counter[str] = Counter()
    kinds = {number: "blank" for number, line in enumerate(text.split("\n"), 1) if not line.strip()}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            kinds |= dict.fromkeys(range(node.lineno, node.end_lineno + 1), "import")
        if _is_text(node):
            kinds |= dict.fromkeys(range(node.lineno, node.end_lineno + 1), "docstring")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
            kinds[token.start[0]] = "comment"
    lines.update(kinds.values())
    lines["code"] = text.count("\n") + 1 - sum(lines.values())
    return lines


def count(root: Path) -> dict[str, Counter[str]]:
    """Package → counts."""
    packages: dict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        counts = packages[path.relative_to(root).with_suffix("").parts[0]]
        counts.update(count_lines(text, tree))
        counts["participles"] += len(list(names.participles(tree)))
        counts["untelling"] += len(list(names.untelling_variables(tree)))
        documented = [n for n in ast.walk(tree) if isinstance(n, _DOCUMENTED)]
        counts["definitions"] += len(documented)
        counts["documented"] += sum(ast.get_docstring(n) is not None for n in documented)
        counts["comments"] += sum(
            t.type == tokenize.COMMENT for t in tokenize.generate_tokens(io.StringIO(text).readline)
        )
    return packages


def repeated_names(root: Path) -> Counter[str]:
    """Classes and functions of modules that several modules define → how many."""
    modules: Counter[str] = Counter()
    for path in root.rglob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        modules.update({node.name for node in body if isinstance(node, _DEFINITIONS)})
    return Counter({name: number for name, number in modules.items() if number > 1})


def main() -> None:
    root = (Path(sys.argv[1]) if len(sys.argv) > 1 else HERE) / "src" / "perfassert"
    packages = count(root)
    whole: Counter[str] = sum(packages.values(), Counter())
    columns = ("code", "docstring", "comments", "participles", "untelling")
    rows = [(name, *(own[c] for c in columns)) for name, own in sorted(packages.items())]
    print(table(("package", *columns), [*rows, ("all", *(whole[c] for c in columns))]))
    print(f"\ndocumented: {whole['documented']} of {whole['definitions']} definitions")
    repeated = repeated_names(root)
    classes = {name: n for name, n in repeated.items() if name[:1].isupper()}
    print(f"defined in several modules: {len(repeated)} names, {len(classes)} of classes")
    print(", ".join(f"{name} ×{n}" for name, n in repeated.most_common(12)))


if __name__ == "__main__":
    main()
