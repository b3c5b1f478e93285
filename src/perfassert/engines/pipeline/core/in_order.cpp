#include "in_order.hpp"

#include "engines.hpp"

namespace perfassert {

Result run_in_order(const Unit& unit) {
  return narrow(unit) ? InOrder<Accounting, true>(unit).run() : InOrder<Accounting, false>(unit).run();
}

}  // namespace perfassert
