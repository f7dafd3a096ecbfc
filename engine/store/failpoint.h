// Points at which tests can make a step of the store fail, or end the process.
#ifndef CHORALE_ENGINE_STORE_FAILPOINT_H_
#define CHORALE_ENGINE_STORE_FAILPOINT_H_

#include "absl/types/span.h"

namespace chorale {

// Called before the durable step `step`. Returns the errno with which the step fails, or 0 to
// continue. May end the process. Thread-safe.
using StoreFailpoint = int (*)(const char* step);

// For tests only; null, the default, turns failpoints off.
void SetStoreFailpoint(StoreFailpoint failpoint);

// Returns the failpoint's result for `step`; 0 if no failpoint is set.
int AtFailpoint(const char* step);

// The names of all steps, in the order in which a Put, then a Delete and then a Put that
// replaces a context reach them.
absl::Span<const char* const> StoreFailpointSteps();

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_FAILPOINT_H_
