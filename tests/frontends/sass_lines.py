"""Listings made of single lines, for tests of what instructions mean."""

HEAD = """\
//perfassert: arch=sm_75 kernel=k mangled=k
//perfassert: registers=16 shared_bytes=0 local_bytes=16 parameter_base=0x160 code_bytes=256
\t.section\t.text.k,"ax",@progbits
        .type           k,@function
k:
.text.k:
"""


def listing(code):
    """A kernel ``k`` of sm_75; lines that begin with a point are labels."""
    lines = []
    address = 0
    for line in code.splitlines():
        if line.startswith("."):
            lines.append(line)
            continue
        lines.append(f"        /*{address:04x}*/  {line} ;  /* 0x0000000000007918 */")
        lines.append("        /* 0x000fc00000000000 */")
        address += 16
    return HEAD + "\n".join(lines) + "\n"
