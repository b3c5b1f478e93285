// The compiled core of the volume engine: what is counted byte by byte and lane by lane. The Python
// files beside this folder define it. Input is a flat array of 64-bit integers (see compiled.py) in
// which arrays stand as addresses: the stable ABI of the oldest Python has no buffers.
#include "../../module.hpp"

#include "lines.hpp"
#include "runs.hpp"

namespace {

using namespace perfassert;

// The set that is written into the input as parts: values, each with so many bytes behind it, repeated.
Runs read_part(Reader& in, i64 granularity, i64 most) {
  const i64 origin = in.next(), bytes = in.next();
  const i64* values = in.address<const i64>();
  Runs runs;
  for (i64 n = in.next(), i = 0; i < n; ++i) {
    runs.starts.push_back(values[i] + origin);
    runs.ends.push_back(values[i] + origin + bytes);
  }
  merge(runs, granularity);
  for (i64 left = in.next(); left > 0; --left) {
    Repetition repetition{in.next(), in.next(), in.address<const i64>()};
    repeat(runs, repetition, granularity, most);
  }
  return runs;
}

// In whole granules where these are wanted, in bytes otherwise.
Runs unite(Reader& in) {
  const i64 granularity = in.next(), whole = in.next(), most = in.next(), parts = in.next();
  Runs all;
  for (i64 part = 0; part < parts; ++part) {
    Runs runs = read_part(in, granularity, most);
    append_shifted(all.starts, runs.starts, 0);
    append_shifted(all.ends, runs.ends, 0);
    if ((i64)all.starts.size() > most) throw TooMany{(i64)all.starts.size()};
  }
  if (parts > 1) merge(all, granularity);
  if (whole) to_granules(all, granularity);
  return all;
}

template <class Work> PyObject* call(PyObject* argument, Work work) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(argument, &data, &size) < 0) return nullptr;
  try {
    Reader in{reinterpret_cast<const i64*>(data), reinterpret_cast<const i64*>(data + size)};
    return work(in);
  } catch (const TooMany& found) {
    PyObject* runs = PyLong_FromLongLong(found.runs);
    PyErr_SetObject(PyExc_OverflowError, runs);
    Py_XDECREF(runs);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyObject* unite_runs(PyObject*, PyObject* argument) {
  return call(argument, [](Reader& in) {
    Runs runs = unite(in);
    runs.starts.insert(runs.starts.end(), runs.ends.begin(), runs.ends.end());
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(runs.starts.data()),
                                     (Py_ssize_t)(runs.starts.size() * sizeof(i64)));
  });
}

PyObject* count_rows(PyObject*, PyObject* argument) {
  return call(argument, [](Reader& in) {
    i64 *out = in.address<i64>(), *tags = in.address<i64>();
    RowCounts{in.next(), in.next(), in.address<const i64>(), in.next(), in.address<const i64>(), in.next(), in.next(),
              in.next(), in.next(), in.next(), in.address<const i64>(), in.next(), in.next(), in.next(),
              in.address<const i64>()}.write(out, tags);
    Py_RETURN_NONE;
  });
}

PyObject* count_wavefronts(PyObject*, PyObject* argument) {
  return call(argument, [](Reader& in) {
    i64* out = in.address<i64>();
    DataStage{in.next(), in.next(), in.next(), in.next(), in.next(), in.address<const i64>(),
              in.address<const std::uint8_t>()}.write(out);
    Py_RETURN_NONE;
  });
}

PyMethodDef methods[] = {
    {"unite_runs", unite_runs, METH_O, "The union of sets of bytes, as starts and ends of its runs."},
    {"count_rows", count_rows, METH_O, "Write what rows of addresses touch, and cycles of the tag stage, into arrays."},
    {"count_wavefronts", count_wavefronts, METH_O, "Write the wavefronts of the data stage into an array."},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", nullptr, -1, methods,
                      nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__core() { return perfassert::make_module(module); }
