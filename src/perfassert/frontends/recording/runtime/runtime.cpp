// Stands in for the CUDA runtime and driver while `perfassert record` runs a program: device memory
// is host memory, copies are done, launches are reported and do not run. No CUDA header is needed:
// what is declared is the interface that programs were compiled against.
#include "hooks.hpp"
#include "refused.hpp"
