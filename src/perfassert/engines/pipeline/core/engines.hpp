// The engines. Each file that defines one instantiates large templates, so that files of one
// extension compile side by side.
#pragma once

#include "unit.hpp"

namespace perfassert {

Result run_dataflow(const Unit& unit);
Result time_in_order(const Unit& unit);  // nothing but the time
Result run_in_order(const Unit& unit);
Result run_in_order_observed(const Unit& unit);  // with a profile, a trace or both

}  // namespace perfassert
