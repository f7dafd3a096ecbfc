// Random scenarios of the engine.
#ifndef CHORALE_TESTS_ENGINE_SIMULATION_SCENARIO_H_
#define CHORALE_TESTS_ENGINE_SIMULATION_SCENARIO_H_

#include <cstdint>

namespace chorale::testing {

// Runs clients, contexts and calls of every kind that follow from `seed`: cancellations, deadlines,
// readers that are slow or stop, contexts to which rows are appended, that are encoded anew,
// replaced, deleted, expired, kept in files or unreadable, pools that shrink, a device that fails,
// a drain, and the faults of base/fault.h. Checks, with the macros of GoogleTest, that
//   - every call ends once, and at once after its deadline, its cancellation, its displacement from
//     the queue, the failure of the device, or the deadline of the drain
//   - no call is queued for longer than max_queue_wait
//   - the version of a context that answers is the latest when the call arrived, or a later one
//   - a Sample delivers each value once, in order, and the values and densities that follow from
//     its seed; other results are those of the fake backend
//   - in every tick, no more runs, waits and is held than the limits allow, and each open call
//     either runs or has a slot of the queue
//   - no work has memory that other work writes, or that was given back (UsedRanges)
//   - the engine itself changes no rows: encoding anew keeps them all
//   - expired contexts are kept while calls use them; contexts that were deleted or replaced hold
//     no memory and have no files
//   - at the end, all memory of the pools is given back, and nothing runs or waits
void RunScenario(uint64_t seed);

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_SIMULATION_SCENARIO_H_
