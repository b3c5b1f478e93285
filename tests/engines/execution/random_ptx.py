"""The random programs of ``random_control`` as PTX text, with plain branches only.

Where lanes meet again is for the reader to find out: PTX does not say it.
"""

from engines.execution.random_control import (
    VARIABLES,
    Assign,
    Barrier,
    Break,
    If,
    Loop,
    Return,
)

_HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n"
_SPECIAL = {"threadIdx.x": "%tid.x", "laneid": "%laneid", "blockIdx.x": "%ctaid.x"}


class Writer:
    """``line_of``: statement → the line of an instruction that stands for it."""

    def __init__(self, shared_end):
        self.lines = []
        self.line_of = {}
        self.labels = 0
        self.shared_end = shared_end

    def emit(self, text):
        self.lines.append(text)

    def label(self):
        self.labels += 1
        return f"$L{self.labels}"

    def block(self, statements, leave):
        for s in statements:
            self.emit(f"mov.u32 %m, {s.number};")
            self.line_of[s.number] = len(self.lines)
            if isinstance(s, Assign):
                self.emit(f"mad.lo.u32 %t, %v{s.target}, {s.factor}, %v{s.other};")
                self.emit(f"add.u32 %v{s.target}, %t, {s.constant};")
            elif isinstance(s, If):
                self.branch(s, leave)
            elif isinstance(s, Loop):
                self.loop(s)
            elif isinstance(s, Break):
                self.emit(f"bra {leave};")
            elif isinstance(s, Return):
                self.emit("bra $END;" if self.shared_end else "ret;")
            elif isinstance(s, Barrier):
                self.emit("bar.sync 0;")

    def branch(self, s, leave):
        otherwise, end = self.label(), self.label()
        self.emit(f"and.b32 %t, %v{s.variable}, {s.modulus - 1};")
        self.emit(f"setp.lt.u32 %p, %t, {s.limit};")
        self.emit(f"@!%p bra {otherwise};")
        self.block(s.then, leave)
        self.emit(f"bra.uni {end};")
        self.emit(f"{otherwise}:")
        self.block(s.orelse, leave)
        self.emit(f"{end}:")

    def loop(self, s):
        head, leave = self.label(), self.label()
        self.emit(f"and.b32 %c{s.counter}, %v{s.variable}, {s.most};")
        self.emit(f"{head}:")
        self.emit(f"setp.eq.u32 %p, %c{s.counter}, 0;")
        self.emit(f"@%p bra {leave};")
        self.emit(f"sub.u32 %c{s.counter}, %c{s.counter}, 1;")
        self.block(s.body, leave)
        self.emit(f"bra {head};")
        self.emit(f"{leave}:")


def ptx(program, loops, start, shared_end):
    """Text, and statement → line."""
    w = Writer(shared_end)
    w.emit(f".reg .b32 %v<{VARIABLES}>; .reg .b32 %c<{loops + 1}>; .reg .b32 %t, %m;")
    w.emit(".reg .pred %p;")
    for variable, (name, factor) in enumerate(start):
        w.emit(f"mov.u32 %t, {_SPECIAL[name]};")
        w.emit(f"mad.lo.u32 %v{variable}, %t, {factor}, 7;")
    w.block(program, None)
    w.emit("$END:")
    w.emit("ret;")
    before = _HEADER.count("\n")
    lines = {number: line + before for number, line in w.line_of.items()}
    return _HEADER + "\n".join(w.lines) + "\n}\n", lines
