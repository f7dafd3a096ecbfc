// The options of random scenarios.
#ifndef CHORALE_TESTS_ENGINE_SIMULATION_SCENARIO_OPTIONS_H_
#define CHORALE_TESTS_ENGINE_SIMULATION_SCENARIO_OPTIONS_H_

#include "engine/api/engine_options.h"
#include "tests/engine/fake_backend.h"
#include "tests/support/random.h"

namespace chorale::testing {

// Limits from one request at a time to hardly any.
EngineOptions RandomEngineOptions(Random* random);

// Pools from a few rows to many, with and without host memory for contexts.
FakeBackendOptions RandomBackendOptions(Random* random);
// Of a context that fits into the pools of this backend.
ContextShape RandomShape(const FakeBackendOptions& backend, Random* random);

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_SIMULATION_SCENARIO_OPTIONS_H_
