"""A small suite over two streaming kernels, written where a test wants it."""

import csv
from pathlib import Path

from perfassert.lab.validation.read import read_suite
from perfassert.toml.tables import read_toml

ONE_KERNEL = """
title = "One kernel"
data = "{name}.csv"
{settings}

[device]
name = "A100-SXM4-40GB"

[launch]
grid = "blocks"
block = 128

[[metric]]
name = "time"
column = "time_us"
unit = "us"

[kernel]
cuda = "{name}.cu"
kernel = "{name}"
"""
SUITE = """
title = "Copies"
data = "copies.csv"
select = "kernel"

[device]
name = "A100-SXM4-40GB"

[constants]
million = 1_000_000
n = "mega * million"

[launch]
domain = "n"
block = "threads"

[[metric]]
name = "time"
column = "time_us"
unit = "us"

[[metric]]
name = "dram_load"
column = "load_bytes"
unit = "B"

[kernels.copy.accesses]
fields = [{ name = "a", shape = "n" }, { name = "b", shape = "n", dtype = "float64" }]
loads = ["b[x]"]
stores = ["a[x]"]

[kernels.read.accesses]
fields = [{ name = "b", shape = "n" }]
loads = ["b[x]"]
registers = "16 + 16"
"""
HEADER = ("kernel", "mega", "threads", "time_us", "load_bytes")
ROWS = [
    (kernel, mega, threads, mega * 8.0 * streams / 1.4, 8e6 * mega)
    for kernel, streams in (("copy", 2), ("read", 1))
    for mega in (1, 4, 16)
    for threads in (128, 256)
]


def write(folder, suite=SUITE, rows=ROWS, header=HEADER):
    """The suite file, with its data beside it."""
    path = folder / "copies.toml"
    path.write_text(suite)
    with (folder / "copies.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def read_shipped(path, folder):
    """A suite of the repository; of one whose kernels are public sources outside, only their names
    are there."""
    _, table = read_toml(path, ValueError)
    names = [k["cuda"] for k in table.get("kernels", {}).values() if "cuda" in k]
    if all((path.parent / name).is_file() for name in names):
        return read_suite(path)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return read_suite(path, Path(folder))
