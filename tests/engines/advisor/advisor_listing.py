"""Code for the advisor's tests, written down as text.

``[@[!]P] OPCODE defines <- uses | options -> labels``; options are ``set=0 free=1 wait=0,2
stall=4``; a line ``name:`` begins a block, ``->`` ends one and says where control goes.
"""

from perfassert.engines.advisor.code import Code, CodeBlock, CodeInstruction, CodeLoop
from perfassert.kernel.roles import Role

OPERATIONS = {
    "LDG": ("global_load", "global"), "STG": ("global_store", "global"),
    "LDC": ("constant_load", "constant"), "LDL": ("local_load", "local"),
    "STL": ("local_store", "local"), "LDS": ("shared_load", "shared"),
    "STS": ("shared_store", "shared"), "IMAD": ("imad", None), "IADD": ("int32", None),
    "ISETP": ("compare", None), "MUFU": ("sfu", None), "BRA": ("branch", None),
    "BAR": ("barrier", None), "MEMBAR": ("fence", None), "NOP": ("move", None),
    "MOV": ("move", None), "FADD": ("fp32", None),
}  # fmt: skip
ROLES = {"BAR": Role.SYNCHRONIZES, "MEMBAR": Role.ORDERS_MEMORY, "CALL": Role.CALLS}


def code_of(text, loops=()):
    """The code of a listing; ``loops``: (parent, header's label, labels of blocks, trips)."""
    labels, ends, starts, drafts = {}, {}, [0], []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.endswith(":"):
            labels[line[:-1]] = len(drafts)
            starts.append(len(drafts))
            continue
        body, arrow, targets = line.partition("->")
        drafts.append(instruction(len(drafts), body))
        if arrow:
            ends[len(drafts) - 1] = targets.split()
            starts.append(len(drafts))
    starts = sorted({s for s in starts if s < len(drafts)})
    number = {s: n for n, s in enumerate(starts)}
    stops = [*starts[1:], len(drafts)]
    successors = {
        n: tuple(dict.fromkeys(number[labels[t]] for t in ends[stop - 1]))
        if stop - 1 in ends
        else tuple([number[stop]] if stop in number else [])
        for n, stop in enumerate(stops)
    }
    order = reverse_postorder(successors)
    blocks = {n: CodeBlock(n, starts[n], stops[n], successors[n]) for n in order}
    place = {i: b.index for b in blocks.values() for i in range(b.start, b.stop)}
    made = tuple(
        CodeLoop(
            k, parent, number[labels[header]], frozenset(number[labels[b]] for b in inside), trips
        )
        for k, (parent, header, inside, trips) in enumerate(loops)
    )
    return Code(
        tuple(CodeInstruction(**d, block=place.get(d["index"], -1)) for d in drafts), blocks, made
    )


def instruction(index, body):
    """The arguments of one instruction, without its block."""
    text, _, options = body.partition("|")
    written, _, uses = text.partition("<-")
    words = written.split()
    predicate = words.pop(0)[1:] if words[0].startswith("@") else ""
    opcode, defines = words[0], tuple(words[1:])
    operation, space = OPERATIONS[opcode.partition(".")[0]]
    given = dict(o.split("=") for o in options.split())
    guard = (predicate.lstrip("!"),) if predicate else ()
    return {
        "index": index, "label": opcode, "operation": operation, "space": space,
        "predicate": predicate, "defines": defines, "uses": (*guard, *uses.split()),
        "sets": int(given.get("set", -1)), "frees": int(given.get("free", -1)),
        "waits": tuple(int(w) for w in given["wait"].split(",")) if "wait" in given else (),
        "stall": int(given.get("stall", 1)),
        "roles": frozenset({ROLES[opcode]} if opcode in ROLES else ()),
    }  # fmt: skip


def reverse_postorder(successors):
    """Blocks that are reached from block 0."""
    done, seen = [], {0}
    stack = [(0, iter(successors[0]))]
    while stack:
        block, rest = stack[-1]
        following = next((t for t in rest if t not in seen), None)
        if following is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(successors[following])))
    return done[::-1]
