// The encoding of a reduced context in float64, in plain loops that follow the definitions of
// engine/backend/memory_plan.h and kernels/ops/key_attention.h, with the same random numbers.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_MEMORY_H_
#define CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_MEMORY_H_

#include <cstdint>
#include <vector>

#include "engine/data/feature_transform.h"
#include "engine/data/memory_set.h"
#include "engine/model/model.h"
#include "tests/engine/backend/reference_forward.h"

namespace chorale::reference {

struct ReducedContext {
  // K, V and log-weights of the memory.rows keys of each layer and head, in the order in which the
  // head keeps them.
  KeyValues kept;
  // The smallest relative difference between two importances, priorities, squared distances or
  // shares by which a head chose. A computation with much smaller relative errors makes the same
  // choices.
  double smallest_gap = 0;
};

// REQUIRES: memory.rows < x.rows.
ReducedContext EncodeReducedContext(const Model& model, const FeatureMatrix& x,
                                    const std::vector<float>& y, const MemorySet& memory,
                                    uint64_t seed, const std::vector<int64_t>& append_starts = {});

}  // namespace chorale::reference

#endif  // CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_MEMORY_H_
