#include "in_order.hpp"

#include "engines.hpp"

namespace perfassert {

Result time_in_order(const Unit& unit) {
  return narrow(unit) ? InOrder<Counting, true>(unit).run() : InOrder<Counting, false>(unit).run();
}

}  // namespace perfassert
