// The compiled core of perfassert's execution engine. The Python files beside this folder define
// what it computes; these repeat them, one warp's 32 lanes at a time. Input is a flat array of 64-bit
// integers (see compiled.py) in which arrays stand as addresses: the stable ABI of the oldest Python
// has no buffers.
#include "../../module.hpp"

#include "interpreter.hpp"

namespace {

using namespace perfassert;

Setting read_setting(Reader& in) {
  Setting setting;
  setting.warps = in.next();
  setting.per_block = in.next();
  setting.most_lanes = in.next();
  setting.most_instructions = in.next();
  setting.most_accesses = in.next();
  setting.threads = in.address<const u32>();
  setting.executed = in.address<i64>();
  setting.lanes = in.address<i64>();
  for (i64 n = in.next(); n > 0; --n) {
    u32 address = static_cast<u32>(in.next());
    setting.entries[address] = in.next();
  }
  return setting;
}

// Other threads of Python go on meanwhile: what runs touches memory of its plan and no object.
struct Released {
  PyThreadState* state = PyEval_SaveThread();
  ~Released() { PyEval_RestoreThread(state); }
};

void poll() {
  PyGILState_STATE held = PyGILState_Ensure();  // which `execute` has given away
  bool interrupted = PyErr_CheckSignals() != 0;
  PyGILState_Release(held);
  if (interrupted) throw std::runtime_error("interrupted");
}

template <class T>
PyObject* bytes(const std::vector<T>& items) {
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(items.data()),
                                   static_cast<Py_ssize_t>(items.size() * sizeof(T)));
}

PyObject* touched(const Accesses& accesses) {
  PyObject* list = PyList_New(0);
  for (auto& t : accesses.touches) {
    if (t.warps.empty() || !list) continue;
    PyObject* item = Py_BuildValue("(LLLNNNNN)", static_cast<long long>(t.place), static_cast<long long>(t.part),
                                   static_cast<long long>(t.guessed), bytes(t.warps), bytes(t.lanes),
                                   bytes(t.starts), bytes(t.steps), bytes(t.irregular));
    if (!item || PyList_Append(list, item)) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

PyObject* result(const Interpreter& run) {
  std::vector<i64> outside, taken = run.taken;
  for (auto& o : run.accesses.spots.outside) outside.insert(outside.end(), {o.place, o.where, o.offset, o.lanes});
  std::vector<u8> branches;
  for (std::size_t p = 0; p < run.branches.size(); ++p)
    branches.push_back(run.branches[p] < 0 ? 0 : run.branched[p] ? 2 : 1);
  std::vector<u8> marked{run.accesses.store.global.some, run.accesses.store.shared.some, run.accesses.store.local.some};
  return Py_BuildValue("(NNNNNNNNNN)", bytes(run.guesses), bytes(run.lost), bytes(run.warps.forced),
                       bytes(run.warps.alive), bytes(run.cut), bytes(branches), bytes(taken), bytes(outside),
                       bytes(marked), touched(run.accesses));
}

PyObject* execute(PyObject*, PyObject* argument) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(argument, &data, &size) < 0) return nullptr;
  try {
    Reader in{reinterpret_cast<const i64*>(data), reinterpret_cast<const i64*>(data + size)};
    Setting setting = read_setting(in);
    Store store;
    store.read(in);
    Registers registers;
    registers.read(in, static_cast<std::size_t>(setting.warps));
    std::vector<Instruction> code(static_cast<std::size_t>(in.next()));
    for (auto& instruction : code) instruction = read_instruction(in, registers);
    Interpreter run(std::move(setting), std::move(store), std::move(registers), std::move(code));
    {
      Released released;
      run.run(poll);
    }
    return result(run);
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::exception& error) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyMethodDef methods[] = {
    {"execute", execute, METH_O, "Execute warps given as packed 64-bit integers."},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__core() { return perfassert::make_module(module); }
