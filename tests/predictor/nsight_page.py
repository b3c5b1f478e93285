"""Source pages as Nsight Compute prints them, for compiled kernels, with stalls where wanted."""

import csv
from pathlib import Path

from perfassert.predictor.model import bind_launch, make_model
from perfassert.predictor.session import DEFAULT

FIXTURES = Path(__file__).parents[1] / "frontends" / "fixtures" / "nsight"
GENERATIONS = ("samples.csv", "cycles.csv")
BASE = 0x7F2B3F260000


def program_of(kernel, launch, device):
    """The disassembled instructions that samples are joined to."""
    model = make_model(bind_launch(DEFAULT.ask(kernel, launch, device)), launch, device)
    return model.bound_launch.kernel.program


def write_page(path, program, stalls, generation="samples.csv", kernel="kernel", active=4):
    """A page on which every instruction is issued 100 times and selected ``active`` times.

    ``stalls``: (instruction, column) → samples, all of them not issued.
    """
    with (FIXTURES / generation).open(newline="", encoding="utf-8") as file:
        header = list(csv.reader(file))[1]
    by_address = {}
    for (number, column), count in stalls.items():
        cells = by_address.setdefault(program.instructions[number].address, {})
        cells[column] = cells.get(column, 0) + count
    texts = {i.address: i.text for i in program.instructions}
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, quoting=csv.QUOTE_ALL)
        rows.writerow(["Kernel Name", kernel])
        rows.writerow(header)
        for address in sorted(texts):
            cells = by_address.get(address, {})
            waiting = sum(cells.values())
            known = {
                "Address": f"{BASE + address:#x}",
                "Source": f"      {texts[address]} ",
                "Instructions Executed": "100",
                "# Samples": f"{waiting + active:,}",
                header[2]: f"{waiting + active:,}",
                header[3]: f"{waiting:,}",
                "stall_selected": str(active),
                **{name: f"{count:,}" for name, count in cells.items()},
                **{f"{name} (Not Issued)": f"{count:,}" for name, count in cells.items()},
            }
            rows.writerow([known.get(name, "0") for name in header])
    return path
