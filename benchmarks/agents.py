"""Seconds for which programs wait for `perfassert serve`.

Measured are a cold and a warm launch, a changed source, and a thousand questions in flight.

    python benchmarks/agents.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from statistics import median
from threading import Thread
from time import perf_counter
from typing import Any

SAXPY = """
__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""
QUESTIONS = 1000
REPEATS = 20


class Server:
    """A `perfassert serve` process in a folder that nothing else uses."""

    def __init__(self, folder: Path) -> None:
        self.numbers = count()
        command = [sys.executable, "-m", "perfassert", "serve"]
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def write(self, tool: str, arguments: dict[str, Any]) -> None:
        question = {"id": next(self.numbers), "tool": tool, "arguments": arguments}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def ask(self, tool: str, arguments: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Seconds until the answer, and the answer."""
        start = perf_counter()
        self.write(tool, arguments)
        answer = self.read()
        assert "result" in answer, answer
        return perf_counter() - start, answer

    def memory(self) -> float:
        """Most resident memory so far, in MiB; 0 where the system does not say it."""
        status = Path(f"/proc/{self.process.pid}/status")
        lines = status.read_text().splitlines() if status.exists() else []
        return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def launch(**more: Any) -> dict[str, Any]:
    return {
        "source": "k.cu", "device": "a100", "grid": 4096, "block": [256], "args": {"n": 1 << 20},
        **more,
    }  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "k.cu"
        source.write_text(SAXPY)
        server = Server(folder)
        cold, answer = server.ask("predict", launch())
        print(f"first question, with imports and compiler: {cold:.3f} s")
        print(f"short answer: {len(json.dumps(answer['result']))} bytes")
        times = [server.ask("predict", launch(grid=4097 + i))[0] for i in range(REPEATS)]
        print(f"changed launch: median {1e3 * median(times):.1f}, most {1e3 * max(times):.1f} ms")
        times = [server.ask("predict", launch())[0] for _ in range(REPEATS)]
        print(f"the same launch again: median {1e3 * median(times):.2f} ms")
        compiled, times = [], []
        for i in range(REPEATS):
            source.write_text(SAXPY.replace("a * x[i]", f"{i + 2}.5f * a * x[i]"))
            compiled.append(server.ask("kernels", {"source": "k.cu", "device": "a100"})[0])
            times.append(server.ask("predict", launch())[0])
        both = [sum(pair) for pair in zip(compiled, times, strict=True)]
        print(
            f"changed source: median {1e3 * median(both):.0f}, most {1e3 * max(both):.0f} ms, of "
            f"which {1e3 * median(compiled):.0f} list its kernels and {1e3 * median(times):.0f} "
            "predict"
        )
        writer = Thread(
            target=lambda: [server.write("predict", launch(grid=1 + i)) for i in range(QUESTIONS)]
        )
        start = perf_counter()
        writer.start()
        for _ in range(QUESTIONS):
            server.read()
        writer.join()
        seconds = perf_counter() - start
        print(f"{QUESTIONS} different launches in flight: {seconds:.1f} s")
        print(f"memory: {server.memory():.0f} MiB")
        server.close()


if __name__ == "__main__":
    main()
