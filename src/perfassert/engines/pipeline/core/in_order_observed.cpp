#include "in_order.hpp"

#include "engines.hpp"

namespace perfassert {

// Without a window `Tracing` keeps nothing: one engine for traces and for wide units with a profile.
Result run_in_order_observed(const Unit& unit) {
  if (!unit.to && narrow(unit)) return InOrder<Listeners<Accounting, Profiling>, true>(unit).run();
  return InOrder<Listeners<Accounting, Profiling, Tracing>, false>(unit).run();
}

}  // namespace perfassert
