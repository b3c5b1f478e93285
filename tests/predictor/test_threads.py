"""Several threads in one process get what one gets."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

import perfassert as pa
from perfassert.engines.execution import compiled as execution
from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.plan import ExecutionLimits
from perfassert.frontends.toolchain import tools
from perfassert.kernel.memo import Memo

pytestmark = pytest.mark.exhaustive(one_in=3)

THREADS = 6
DEVICES = ("a100", "rtx-4090", "v100-pcie-32gb")
SOURCE = """
__global__ void sums(const float* a, float* b, int n) {
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += a[blockIdx.x * n + i];
  b[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void taken(const int* rows, float* b) {
  float sum = 0;
  for (int e = rows[threadIdx.x]; e < rows[threadIdx.x + 1]; e++) sum += b[e];
  b[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


def by_hand():
    fields = [pa.Field("a", shape=(256, 1024), halo=1), pa.Field("b", shape=(256, 1024))]
    kernel = pa.Kernel.from_accesses("k", fields, ["a[y, x + 1]", "a[y - 1, x]"], ["b[y, x]"])
    return [(kernel, pa.Launch.cover((1024, 256), (32 * n, 2))) for n in (1, 2, 4, 8)]


def by_integer_sets():
    """isl finds the ends of these; free-threaded Python crashes where two threads ask it."""
    fields = [pa.Field("a", shape=(3,)), pa.Field("b", shape=(1000,))]
    kernel = pa.Kernel.from_accesses("q", fields, ["a[x % 3]"], ["b[x]"])
    return [(kernel, pa.Launch.cover(n, 128)) for n in (998, 999, 1000)]


def compiled(folder):
    path = folder / "k.cu"
    path.write_text(SOURCE)
    rows = pa.Buffer((129,), "int32", fill="csr_rows(nnz_per_row=7)", seed=1)
    sums, taken = pa.from_cuda(path, "sums"), pa.from_cuda(path, "taken")
    launches = [(sums, pa.Launch(64, 128, {"n": n})) for n in (100, 1000, 5000)]
    return [*launches, (taken, pa.Launch(64, 128, {"rows": rows}))]


def told(asked, session):
    kernel, launch, device = asked
    return session.predict(kernel, launch, device).to_json()


def compared(questions):
    asked = [(kernel, launch, device) for device in DEVICES for kernel, launch in questions]
    alone = [told(a, pa.Session(budget=0)) for a in asked]
    together, session = Barrier(THREADS), pa.Session()

    def thread(turn):
        together.wait()
        order = asked[turn:] + asked[:turn]
        found = [told(a, session) for a in order]
        return found[-turn:] + found[:-turn] if turn else found

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(thread, range(THREADS))) == [alone] * THREADS


def test_addresses_by_hand():
    compared(by_hand())


def test_ends_by_integer_sets():
    compared(by_integer_sets())
    assert "islpy" in sys.modules


compiles = pytest.mark.skipif(
    tools.find("nvrtc") is None or tools.find("nvdisasm") is None,
    reason="NVIDIA's compiler is not installed",
)


@compiles
def test_compiled_and_executed_code(tmp_path):
    compared(compiled(tmp_path))


@compiles
@pytest.mark.skipif(not execution.available(), reason="the compiled engine was not built")
def test_others_go_on_while_blocks_are_executed(tmp_path, monkeypatch):
    path = tmp_path / "k.cu"
    path.write_text(
        "__global__ void ever(int* a) { for (int i = 0; i != -1; i += 2) a[i & 63] = i; }"
    )
    code = pa.from_cuda(path).compiled.executable("sm_80")
    entered, done, core = Event(), Event(), execution._core()

    class Watched:
        @staticmethod
        def execute(words):
            entered.set()
            found = core.execute(words)
            done.set()
            return found

    monkeypatch.setattr(execution, "_core", lambda: Watched)
    limits = ExecutionLimits(50_000_000, 10**9)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(execute, code, pa.Launch(1, 128), [None], [0], limits)
        entered.wait(60)
        turns = 0  # with the lock held there would be one before and one at the end
        while not (done.is_set() or running.done()):
            time.sleep(0.001)
            turns += 1
        running.result()
    assert turns > 10


def test_a_memo_that_is_full():
    memo = Memo()

    def thread(turn):
        return [memo.once((turn, n), lambda n=n: n) for n in range(5000)]

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(thread, range(THREADS))) == [list(range(5000))] * THREADS


def test_an_answer_that_another_thread_drops():
    """A memo looks up a result in one step, so that another thread cannot drop it in between."""

    class Key:
        asked = 0

        def __hash__(self):
            self.asked += 1
            if self.asked == 4:  # two put the answer there, one finds it
                memo._found.clear()
            return 1

    memo, key = Memo(), Key()
    assert [memo.once(key, lambda: 7) for _ in range(3)] == [7, 7, 7]
