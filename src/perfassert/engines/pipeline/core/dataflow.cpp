#include "dataflow.hpp"

#include "engines.hpp"

namespace perfassert {

// Without a window `Tracing` keeps nothing; next to the engine's maps it costs nothing either.
Result run_dataflow(const Unit& unit) { return Dataflow<Listeners<Accounting, Tracing>>(unit).run(); }

}  // namespace perfassert
