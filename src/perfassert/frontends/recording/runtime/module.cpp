// Makes the library importable as an empty module, which is what wheels expect of an extension.
// Programs that it is loaded into have no Python: the one symbol that it needs may be missing.
#include <Python.h>

#pragma weak PyModuleDef_Init

static PyModuleDef_Slot slots[] = {
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_runtime", nullptr, 0, nullptr, slots, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__runtime() { return PyModuleDef_Init(&definition); }
