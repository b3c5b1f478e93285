// The compiled engine of perfassert's pipeline simulator. reference.py defines the semantics; these
// files repeat them on states that can be copied, compared and shifted, so that whole periods can
// be skipped exactly. Input and output are flat arrays of 64-bit integers (see compiled.py).
#include "../../module.hpp"

#include "bounds.hpp"
#include "engines.hpp"

namespace {

using namespace perfassert;

Result run(const Unit& unit) {
  if (!unit.in_order) return run_dataflow(unit);
  if (unit.heard == kTime) return time_in_order(unit);
  return unit.heard == kProfile || unit.to ? run_in_order_observed(unit) : run_in_order(unit);
}

// Other threads of Python go on meanwhile.
struct Released {
  PyThreadState* state = PyEval_SaveThread();
  ~Released() { PyEval_RestoreThread(state); }
};

// Calls a function of packed words that returns words.
template <class Function> PyObject* call(PyObject* argument, Function function) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(argument, &data, &size) < 0) return nullptr;
  try {
    Reader in{reinterpret_cast<const i64*>(data), reinterpret_cast<const i64*>(data + size)};
    std::vector<i64> out = function(in);
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(out.data()),
                                     (Py_ssize_t)(out.size() * sizeof(i64)));
  } catch (const Deadlock& deadlock) {
    PyErr_SetObject(PyExc_LookupError, PyLong_FromLongLong(deadlock.node));
    return nullptr;
  } catch (const TraceFull&) {
    PyErr_SetString(PyExc_OverflowError, "too many events");
    return nullptr;
  } catch (const std::exception& error) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyObject* simulate(PyObject*, PyObject* argument) {
  return call(argument, [](Reader& in) {
    Unit unit = read_unit(in);
    Result r = [&unit] { Released released; return run(unit); }();
    std::vector<i64> out{r.end, r.instructions, r.simulated, r.cut_short, r.half_time, r.half_count};
    out.insert(out.end(), r.heard.begin(), r.heard.end());
    return out;
  });
}

PyObject* bounds(PyObject*, PyObject* argument) { return call(argument, find_bounds); }

PyMethodDef methods[] = {
    {"simulate", simulate, METH_O, "Simulate a unit given as packed 64-bit integers."},
    {"bounds", bounds, METH_O, "Bounds of the time of a unit, in packed 64-bit integers."},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", nullptr, -1, methods,
                      nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__core() { return perfassert::make_module(module); }
