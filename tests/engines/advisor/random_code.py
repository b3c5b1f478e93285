"""Random small programs for the advisor."""

from advisor_listing import OPERATIONS, code_of

_REGISTERS = ("R0", "R1", "R2")
_GUARDS = ("", "", "@P0 ", "@!P0 ", "@P1 ", "@!P1 ")


def random_code(generator, blocks, per_block, registers=_REGISTERS, guards=_GUARDS):
    """Blocks with up to two successors each; every kind of operand."""
    lines = []
    for block in range(blocks):
        lines.append(f"b{block}:")
        for _ in range(generator.randint(1, per_block)):
            lines.append(_line(generator, registers, guards))
        targets = {generator.randrange(blocks) for _ in range(generator.randint(0, 2))}
        if block + 1 < blocks and generator.random() < 0.8:
            targets.add(block + 1)
        lines.append("NOP -> " + " ".join(f"b{t}" for t in sorted(targets)))
    return code_of("\n".join(lines))


def structured_code(generator, size, registers=200):
    """Nested loops and branches as a compiler makes them, about ``size`` instructions."""
    lines, labels = [], [0]
    names = tuple(f"R{i}" for i in range(registers))
    _region(generator, size, names, lines, labels, 0)
    return code_of("\n".join(lines))


def _region(generator, size, names, lines, labels, depth):
    guards = ("",) * 16 + ("@P0 ", "@!P0 ", "@P1 ", "@!P1 ")
    while size > 0:
        straight = generator.randint(3, 20)
        lines += [_line(generator, names, guards) for _ in range(straight)]
        size -= straight
        if depth < 4 and size > 30:
            inner = generator.randint(10, min(size, 400))
            here = labels[0]
            labels[0] += 1
            loop = generator.random() < 0.4
            if loop:
                lines.append(f"top{here}:")
            else:
                lines.append(f"@P1 BRA -> in{here} end{here}")
                lines.append(f"in{here}:")
            _region(generator, inner, names, lines, labels, depth + 1)
            if loop:
                lines.append(f"@P0 BRA -> top{here} end{here}")
            lines += [f"end{here}:", "NOP"]
            size -= inner + 2


def _line(generator, registers, guards):
    opcode = generator.choice(("ISETP", *OPERATIONS))
    defines = generator.choice(("P0", "P1") if opcode == "ISETP" else registers)
    uses = " ".join(generator.sample(registers, 1))
    options = ""
    if opcode in ("LDG", "LDS", "STG", "MUFU"):
        options = f" | set={generator.randrange(2)}"
        if generator.random() < 0.5:
            options += " free=2"
    elif generator.random() < 0.3:
        options = f" | wait={generator.randrange(3)}"
    if opcode in ("BRA", "BAR", "MEMBAR", "STG", "STS", "STL", "NOP"):
        defines = ""
    return f"{generator.choice(guards)}{opcode} {defines} <- {uses}{options}"
