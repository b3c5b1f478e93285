// What the cores of the engines have in common: how they are imported, and what they read.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <stdexcept>

namespace perfassert {

using i64 = std::int64_t;

// A flat array of 64-bit integers.
struct Reader {
  const i64* at;
  const i64* end;
  i64 next() {
    if (at == end) throw std::runtime_error("truncated input");
    return *at++;
  }
  template <class T> T* address() { return reinterpret_cast<T*>(next()); }
};

inline PyObject* make_module(PyModuleDef& module) {
  PyObject* made = PyModule_Create(&module);
#ifdef Py_GIL_DISABLED
  if (made) PyUnstable_Module_SetGIL(made, Py_MOD_GIL_NOT_USED);  // nothing in it outlives a call
#endif
  return made;
}

}  // namespace perfassert
