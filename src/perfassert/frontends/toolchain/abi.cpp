// What the C++ ABI of the compiler that built this knows about names; nothing where it has none.
#include <Python.h>

#include <cstdlib>
#include <cstring>
#if __has_include(<cxxabi.h>)
#include <cxxabi.h>
#endif

namespace {

// str → str, or None for what is no mangled name.
PyObject* demangle(PyObject*, PyObject* argument) {
  PyObject* bytes = PyUnicode_AsUTF8String(argument);
  if (bytes == nullptr) return nullptr;
  PyObject* result = nullptr;
#if __has_include(<cxxabi.h>)
  int status = 0;
  char* text = abi::__cxa_demangle(PyBytes_AsString(bytes), nullptr, nullptr, &status);
  if (status == 0 && text != nullptr)
    result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)std::strlen(text), "replace");
  std::free(text);
#endif
  Py_DECREF(bytes);
  if (result == nullptr && !PyErr_Occurred()) {
    Py_INCREF(Py_None);
    result = Py_None;
  }
  return result;
}

PyMethodDef methods[] = {{"demangle", demangle, METH_O, "The name that a symbol stands for."},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "_abi", nullptr, -1, methods,
                      nullptr, nullptr, nullptr, nullptr};

}  // namespace

extern "C" PyObject* PyInit__abi() {
  PyObject* made = PyModule_Create(&module);
#ifdef Py_GIL_DISABLED
  if (made) PyUnstable_Module_SetGIL(made, Py_MOD_GIL_NOT_USED);  // nothing here outlives a call
#endif
  return made;
}
