"""Damaged files: the same ones for the same seed."""

import random

from perfassert.errors import PerfAssertError
from perfassert.frontends.cuda.describe import describe
from perfassert.frontends.toolchain import containers
from perfassert.frontends.toolchain.architecture import architecture
from perfassert.frontends.toolchain.build import Source, build
from perfassert.frontends.toolchain.elf import Cubin


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


def elf(content, path):
    """Every fact of a cubin, without a tool."""
    cubin = Cubin(content, str(path))
    for name in cubin.kernels():
        cubin.registers(name), cubin.shared_bytes(name), cubin.local_bytes(name)
        cubin.parameters(name), cubin.parameter_base(name), cubin.constants(name)
        cubin.code_symbols(name), cubin.barriers(name), cubin.code(name)
    cubin.ptx()


def container(content, path):
    """Taken apart, and the kernel chosen."""
    with containers.opened(path, content) as members:
        containers.chosen(members, None, architecture("sm_80"), str(path))


def listing(content, path):
    """Read and described."""
    path.write_bytes(content)
    describe(build(Source(path, "sass"), "sm_80"))


def built(content, path):
    """By all tools, and described."""
    path.write_bytes(content)
    kind = "ptx" if path.suffix == ".ptx" else "cubin"
    describe(build(Source(path, kind), "sm_80"))


def survives(reader, content, path, count, seed):
    """How many of ``count`` mutations were refused; any error but our own comes out."""
    refused = 0
    for number in range(count):
        dice = random.Random(f"{seed}-{number}")
        try:
            reader(mutated(content, dice), path)
        except PerfAssertError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"mutation {seed}-{number}: {error!r}") from error
    return refused
