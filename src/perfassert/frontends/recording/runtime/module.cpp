// Makes the library importable as an empty module, which is what wheels expect of an extension.
// Programs that it is loaded into have no Python: the one symbol that it needs may be missing.
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#pragma weak PyModuleDef_Init

static PyModuleDef_Slot slots[] = {{0, nullptr}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_runtime", nullptr, 0, nullptr, slots, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__runtime() { return PyModuleDef_Init(&definition); }
