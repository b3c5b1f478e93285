"""Check that predictions are the same in every order, process and thread, by their digests.

``python benchmarks/order.py [KERNELS] [ORDERS]`` draws so many random kernels (100, of which all
that ``contradicted.toml`` keeps) and asks about four launches of each on three devices: in so many
random orders (20), each in a session of its own in a process that has asked before, in two orders
with a new process and an empty cache, in two runs of pytest-xdist, and in eight threads that share
a session. Every twentieth answer has stalls and advice. Files and an array are changed between
predictions, and between a prediction and its advice. Exit code 1 if a question has two answers.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import perfassert as pa  # noqa: E402
from tests.random_kernels import contradicted  # noqa: E402
from tests.random_kernels.generator import generate  # noqa: E402
from tests.random_kernels.measure import source_of  # noqa: E402

DEVICES = ("a100", "h100", "rtx-3090")
THREADS = 8
_TOGETHER = 20  # kernels in a file
_DIAGNOSED = 20  # one question in so many is asked for stalls and advice
_EDITED = 10  # kernels whose file is changed
_SUM = "float sum = 0.0f;"
_CHANGED_SUM = f"{_SUM} for (int e = 0; e < 9; ++e) sum = sum * sum + blockIdx.x;"
GATHER = """
extern "C" __global__ void gather(const int* x, const float* t, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = t[x[i]];
}
"""
TEST = """
import os, sys

sys.path.insert(0, {here!r})
import order
import pytest

SESSION, QUESTIONS = order.pa.Session(), order.questions(order.Path({folder!r}), {count})


@pytest.mark.parametrize("number", order.shuffled(QUESTIONS, {seed}))
def test_answer(number):
    with open(os.path.join({out!r}, str(os.getpid())), "a") as file:
        print(number, order.answer(QUESTIONS, number, SESSION), file=file)
"""
Answers = dict[int, str]


class Question(NamedTuple):
    """A launch on a device; the file is read each time that it is predicted."""

    path: Path
    kernel: str
    launch: pa.Launch
    device: str

    def predict(self, session: pa.Session) -> pa.Prediction:
        return session.predict(pa.from_cuda(self.path, self.kernel), self.launch, self.device)


def questions(folder: Path, count: int) -> list[Question]:
    """Return four launches of each kernel on each device; their files are written if need be."""
    drawn = contradicted.kept()[:count]
    taken = {kernel.name for kernel in drawn}
    others = (generate(1, number)[0] for number in range(2 * count))
    drawn += [kernel for kernel in others if kernel.name not in taken][: count - len(drawn)]
    asked = []
    for start in range(0, len(drawn), _TOGETHER):
        path, group = folder / f"kernels{start}.cu", drawn[start : start + _TOGETHER]
        if not path.exists():
            path.write_text(source_of(group))
        for kernel in group:
            asked += [
                Question(path, kernel.instance(), launch, device)
                for launch in contradicted.launches(kernel)
                for device in DEVICES
            ]
    return asked


def shuffled(asked: list[Question], seed: int) -> list[int]:
    return random.Random(seed).sample(range(len(asked)), len(asked))


def digest(make: Callable[[], object]) -> str:
    """Digest of what is made, or the name of the error in its place with that of its text."""
    start = ""
    try:
        text = json.dumps(make(), sort_keys=True)
    except pa.PerfAssertError as error:
        start, text = f"{type(error).__name__}:", str(error)
    return start + hashlib.sha256(text.encode()).hexdigest()[:16]


def answer(asked: list[Question], number: int, session: pa.Session) -> str:
    return digest(lambda: asked[number].predict(session).to_dict(number % _DIAGNOSED == 0))


def answers(folder: Path, count: int, seed: int) -> Answers:
    """Answers in a random order, in a session that no other question has been asked in."""
    asked, session = questions(folder, count), pa.Session()
    return {number: answer(asked, number, session) for number in shuffled(asked, seed)}


# Where and in which order


def warm(folder: Path, count: int, seeds: Iterable[int]) -> Iterator[Answers]:
    """Orders one after the other in as many processes as there are cores."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(answers, folder, count, seed) for seed in seeds]
        for future in waiting:
            yield future.result()


def cold(folder: Path, count: int, seed: int) -> Answers:
    """A new process that compiles everything."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, __file__, "ask", str(folder), str(count), str(seed)],
            env=os.environ | {"PERFASSERT_CACHE_DIR": cache}, stdout=subprocess.PIPE, text=True,
            check=True,
        )  # fmt: skip
    return read(done.stdout)


def workers(folder: Path, count: int, seed: int) -> Answers:
    """Two workers of pytest-xdist, which deals the questions out."""
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as out:
        here = str(Path(__file__).parent)
        test = Path(place, "test_order.py")
        test.write_text(TEST.format(here=here, folder=str(folder), count=count, seed=seed, out=out))
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider",
             "-c", os.devnull, "--rootdir=.", test.name], cwd=place, check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return read("".join(path.read_text() for path in Path(out).iterdir()))


def threads(folder: Path, count: int, seed: int) -> Answers:
    """Threads that share a session."""
    asked, session = questions(folder, count), pa.Session()
    numbers = shuffled(asked, seed)
    with ThreadPoolExecutor(THREADS) as pool:
        results = pool.map(lambda number: answer(asked, number, session), numbers)
        return dict(zip(numbers, results, strict=True))


def read(text: str) -> Answers:
    lines = (line.split() for line in text.splitlines())
    return {int(number): value for number, value in lines}


# Changes of files and arrays


def edit_files(asked: list[Question], folder: Path) -> tuple[int, int]:
    """Count predictions of files that change before and after each, and those of another state.

    The right answers are predicted while nobody changes the file, in sessions that recall nothing.
    """
    answered = wrong = 0
    for question in asked[:: 4 * len(DEVICES)][:_EDITED]:
        text = question.path.read_text()
        path = folder / question.path.name
        moved, texts = question._replace(path=path), (text, text.replace(_SUM, _CHANGED_SUM))
        right, session = [], pa.Session()
        for changed in texts:
            path.write_text(changed)
            right.append(digest(moved.predict(pa.Session(0)).to_dict))
        wrong += right[0] == right[1]
        for state in (0, 1, 0, 1):
            path.write_text(texts[state])
            prediction = moved.predict(session)
            path.write_text(texts[1 - state])
            answered += 1
            wrong += digest(prediction.to_dict) != right[state]
    return answered, wrong


def edit_array(folder: Path) -> tuple[int, int]:
    """Count predictions with an array that is overwritten, and those of another content."""
    path, n = folder / "gather.cu", 1 << 16
    path.write_text(GATHER)
    places = (np.arange(n), np.random.default_rng(1).permutation(n), np.arange(n)[::-1] // 7)
    contents = [place.astype(np.int32) for place in places]

    def launch(index: npt.NDArray[np.int32]) -> pa.Launch:
        return pa.Launch.cover(n, 256, {"x": index, "t": pa.Buffer((n,), "float32"), "n": n})

    def predict(session: pa.Session, asked: pa.Launch) -> pa.Prediction:
        return session.predict(pa.from_cuda(path), asked, DEVICES[0])

    right = [digest(predict(pa.Session(0), launch(c)).to_dict) for c in contents]
    wrong = len(contents) - len(set(right))
    session, index, order = pa.Session(), contents[0].copy(), [0, 1, 2, 1, 0, 2, 0]
    reused = launch(index)
    for number in order:
        index[:] = contents[number]
        prediction = predict(session, reused)
        index[:] = 0
        wrong += digest(prediction.to_dict) != right[number]
    return len(order), wrong


def main(count: int, orders: int) -> int:
    runs: dict[str, list[Answers]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        asked = questions(folder, count)
        print(f"{count} kernels, {len(contradicted.kept()[:count])} of them contradicted, "
              f"{len(asked)} questions", flush=True)  # fmt: skip

        def measure(name: str, results: Iterable[Answers]) -> None:
            begin = time.monotonic()
            runs[name] += results
            total = sum(map(len, runs[name]))
            print(f"{name}: {total} answers, {time.monotonic() - begin:.0f} s", flush=True)

        measure("new process and cache", (cold(folder, count, seed) for seed in (100, 101)))
        measure("own session", warm(folder, count, range(orders)))
        measure("pytest -n 2", (workers(folder, count, seed) for seed in (102, 103)))
        measure(
            f"{THREADS} threads, one session", (threads(folder, count, seed) for seed in (104,))
        )
        (folder / "edited").mkdir()
        edits = {
            "changed files": edit_files(asked, folder / "edited"),
            "changed array": edit_array(folder),
        }
    values: dict[int, set[str]] = defaultdict(set)
    for results in runs.values():
        for result in results:
            for number, value in result.items():
                values[number].add(value)
    several = sorted(number for number, value in values.items() if len(value) > 1)
    incomplete = sum(len(r) != len(asked) for results in runs.values() for r in results)
    for number in several:
        print(f"  {len(values[number])} answers: {asked[number]}")
    for name, (answered, wrong) in edits.items():
        print(f"{name}: {answered} answers, {wrong} of another state")
    distinct = set().union(*values.values())
    print(
        f"{len(distinct)} different answers, {sum(':' in value for value in distinct)} are errors"
    )
    print(f"{len(several)} of {len(values)} questions have more than one answer; "
          f"{incomplete} runs are incomplete")  # fmt: skip
    return int(bool(several or incomplete or any(wrong for _, wrong in edits.values())))


if __name__ == "__main__":
    if sys.argv[1:2] == ["ask"]:
        for pair in answers(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])).items():
            print(*pair)
    else:
        numbers = [int(argument) for argument in sys.argv[1:]]
        sys.exit(main(*(numbers + [100, 20][len(numbers) :])))
