"""Damaged files: the same ones for the same seed."""

import random
import re

from perfassert.errors import PerfAssertError
from perfassert.frontends.analysis.describe import describe
from perfassert.frontends.toolchain import containers
from perfassert.frontends.toolchain.architecture import architecture
from perfassert.frontends.toolchain.build import Source, build
from perfassert.frontends.toolchain.elf import Cubin

_WORD = re.compile(rb"[\w.%]+")
_NUMBER = re.compile(rb"\b(?:0x[0-9a-f]+|\d+)\b")
EXTREMES = (b"0", b"-1", b"1", b"0x7fffffff", b"0xffffffff", b"18446744073709551616", b"7" * 400)


def mutated(content, dice):
    """Cut off, bits flipped, bytes replaced, a part doubled or taken out, endianness changed."""
    data = bytearray(content)
    way = dice.randrange(6)
    at = dice.randrange(len(data))
    length = dice.randrange(1, 65)
    if way == 0:
        del data[at:]
    elif way == 1:
        for _ in range(dice.randrange(1, 9)):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    elif way == 2:
        data[at : at + length] = dice.randbytes(length)
    elif way == 3:
        data[at:at] = data[at : at + length]
    elif way == 4:
        del data[at : at + length]
    elif data[:4] == b"\x7fELF":
        data[5] = 2
        data[16:64] = data[16:64][::-1]
    else:
        data[:16] = data[:16][::-1]
    return bytes(data)


def reworded(content, dice):
    """Text that is still text: lines moved, doubled or dropped, words swapped, numbers extreme."""
    lines = content.split(b"\n")
    for _ in range(dice.randrange(1, 5)):
        way, at, other = (
            dice.randrange(5), dice.randrange(len(lines)), dice.randrange(len(lines)))  # fmt: skip
        if way == 0:
            lines[at], lines[other] = lines[other], lines[at]
        elif way == 1:
            lines.insert(at, lines[other])
        elif way == 2:
            lines[at] = b""
        elif way == 3:
            words = _WORD.findall(lines[other]) or [b""]
            lines[at] = _once(_WORD, lines[at], dice.choice(words), dice)
        else:
            lines[at] = _once(_NUMBER, lines[at], dice.choice(EXTREMES), dice)
    return b"\n".join(lines)


def _once(pattern, line, new, dice):
    """Return the line with one of the matches replaced."""
    found = list(pattern.finditer(line))
    if not found:
        return line
    one = dice.choice(found)
    return line[: one.start()] + new + line[one.end() :]


def elf(content, path):
    """Read all facts of a cubin, without a tool."""
    cubin = Cubin(content, str(path))
    for name in cubin.kernels():
        cubin.registers(name), cubin.shared_bytes(name), cubin.local_bytes(name)
        cubin.parameters(name), cubin.parameter_base(name), cubin.constants(name)
        cubin.code_symbols(name), cubin.barriers(name), cubin.code(name)
    cubin.ptx(), cubin.unset_symbols(), cubin.valued_symbols()


def container(content, path):
    """Taken apart, and the kernel chosen."""
    with containers.open_members(path, content) as members:
        containers.choose_code(members, None, architecture("sm_80"), str(path))


def listing(content, path):
    """Read and described."""
    path.write_bytes(content)
    describe(build(Source(path, "sass"), stated(content)))


def stated(content):
    """The architecture of a listing."""
    found = re.search(rb"arch=(sm_\d+)", content)
    return found[1].decode() if found else "sm_80"


def built(content, path):
    """Build and describe a file by all tools."""
    path.write_bytes(content)
    kind = "ptx" if path.suffix == ".ptx" else "cubin"
    describe(build(Source(path, kind), "sm_80"))


def survives(reader, content, path, count, seed, text=False):
    """Count the mutations of ``count`` that are rejected; any error but PerfAssertError is
    raised."""
    return sum(refused(reader, content, path, f"{seed}-{n}", text) for n in range(count))


def refused(reader, content, path, seed, text=False):
    """Return True if a mutation is rejected; half of those of a ``text`` are reworded."""
    dice = random.Random(seed)
    way = reworded if text and dice.random() < 0.5 else mutated
    try:
        reader(way(content, dice), path)
    except PerfAssertError:
        return True
    except Exception as error:
        raise AssertionError(f"mutation {seed}: {error!r}") from error
    return False
