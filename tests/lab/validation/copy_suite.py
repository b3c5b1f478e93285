"""A small suite over two streaming kernels, written where a test wants it."""

import csv

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
