"""Stands for NVIDIA's ``ncu_report``: the same interface, for reports that are JSON.

A copy of this file is the package's ``__init__.py`` where a test needs one. A report is a list of
launches: ``name``, ``mangled``, ``metrics`` (name → value and unit), ``columns`` (metric → address
→ value), ``code`` (address → SASS).
"""

import json

MAGIC = b"NVR\x00"


class Places:
    def __init__(self, addresses):
        self.addresses = addresses

    def as_uint64(self, number):
        return self.addresses[number]


class Metric:
    def __init__(self, value, unit="", by_address=()):
        self._value, self._unit, self._by_address = value, unit, dict(by_address)

    def value(self, number=None):
        return self._value if number is None else list(self._by_address.values())[number]

    def as_uint64(self, number):
        return int(self.value(number))

    def unit(self):
        return self._unit

    def num_instances(self):
        return len(self._by_address)

    def has_correlation_ids(self):
        return bool(self._by_address)

    def correlation_ids(self):
        return Places(list(self._by_address))


class Action:
    NameBase_DEMANGLED, NameBase_MANGLED = 1, 2
    WorkloadType_KERNEL, WorkloadType_RANGE = 0, 1

    def __init__(self, launch):
        self.launch = launch
        self.metrics = {n: Metric(*of) for n, of in launch.get("metrics", {}).items()}
        for name, column in launch.get("columns", {}).items():
            values = {int(address): value for address, value in column.items()}
            self.metrics[name] = Metric(sum(values.values()), "inst", values)

    def workload_type(self):
        return self.launch.get("workload", self.WorkloadType_KERNEL)

    def name(self, base):
        return self.launch["mangled" if base == self.NameBase_MANGLED else "name"]

    def __iter__(self):
        return iter(self.metrics)

    def metric_by_name(self, name):
        return self.metrics.get(name)

    def sass_by_pc(self, address):
        return self.launch.get("code", {}).get(str(address), "")


def load_report(path):
    with open(path, "rb") as file:
        content = file.read()
    launches = json.loads(content.removeprefix(MAGIC))
    if isinstance(launches, str):  # a hostile report has the parser do what it should not
        with open(launches) as secret:
            raise ValueError(secret.read())
    return [[Action(launch) for launch in launches]]
