"""Write docs/reference/opcodes.md: ``python docs/opcodes.py``.

The page lists the instructions that the executed blocks do not compute, from the tables that the
front end reads. ``tests/docs/test_opcodes_page.py`` compares the committed page with this script's.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from perfassert.frontends.machine.lowering import translates
from perfassert.frontends.machine.opcodes import opcode_table

PAGE = Path(__file__).parent / "reference" / "opcodes.md"
FAMILIES = {
    "volta": "sm_70",
    "ampere": "sm_80 to sm_89",
    "hopper": "sm_90",
    "blackwell": "sm_100 to sm_120",
}
TEXT = """\
# Instructions without a translation

perfassert executes some blocks of a compiled kernel to find trip counts, branches and addresses
that depend on data. For that it translates each machine instruction to operations that it can
compute. The instructions below have no translation: their *cost* is in every prediction, but what
they write to registers is unknown. Bulk copies and barriers in shared memory are among them; their
bytes and waits follow from descriptors and counts instead.

| what depends on the unknown value | what the prediction does |
|---|---|
| only values, such as the elements of a matrix product | nothing: values do not change the time |
| an address, a trip count, a branch | assumes one and says so; a guess if that decides the time |
| a buffer to which it is written | what is loaded from there later is unknown, too |

The message names the instruction: `its end depends on the result of PRMT at k.cu:10, which has no
translation`. State the number yourself then: `trip_counts`, `branches` or the contents of a buffer
([compiled kernels](../how-to/cuda.md)).

Of {known} opcodes that the tables know, {missing} have no translation. Some others, such as
`PRMT`, are translated for their common modifiers only. *Counted as* is the [operation
class](devices.md#pipelines-and-operations) whose cycles an instruction takes. The first table is
that of Volta, which later architectures inherit; it has opcodes of later ones, too, such as
`UTMALDG`. `python docs/opcodes.py` writes this page.
"""


def untranslated(family: str) -> dict[str, list[str]]:
    """Return the operation classes of a family's opcodes without a translation."""
    classes = opcode_table(family).classes
    found: dict[str, list[str]] = defaultdict(list)
    for opcode in sorted({o.partition(".")[0] for o in classes if not translates(o)}):
        found[
            classes.get(opcode) or classes[next(o for o in classes if o.startswith(opcode))]
        ].append(opcode)
    return found


def page() -> str:
    """Return the text of the page."""
    tables, seen = [], set[str]()
    for family, architectures in FAMILIES.items():
        new = {
            operation: [f"`{o}`" for o in opcodes if o not in seen]
            for operation, opcodes in untranslated(family).items()
        }
        seen.update(o for opcodes in untranslated(family).values() for o in opcodes)
        rows = [f"| {name} | {', '.join(own)} |" for name, own in sorted(new.items()) if own]
        if rows:
            title = f"## {architectures}" + (", besides those above" if tables else " and later")
            head = "| counted as | opcodes |\n|---|---|"
            tables.append("\n".join([title, "", head, *rows, ""]))
    known = {o.partition(".")[0] for f in FAMILIES for o in opcode_table(f).classes}
    return "\n".join([TEXT.format(known=len(known), missing=len(seen)), *tables])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
