// A context of many rows reduced to a bounded set of keys and values, its memory set.
//
// A backend encodes the rows of such a context in segments. The rows of a segment attend to the
// segment and to the set so far, and each K/V head of each layer then chooses its set anew from
// both (engine/backend/memory_plan.h). All later work attends to the final set alone, so its memory
// and its time do not depend on the number of rows.
#ifndef CHORALE_ENGINE_DATA_MEMORY_SET_H_
#define CHORALE_ENGINE_DATA_MEMORY_SET_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace chorale {

// How a K/V head chooses `rows` keys from the n keys of a set and a segment. Every key has a
// weight: the number of rows that it stands for.
enum class MemoryPolicy {
  // k-means++ divides the keys into cells, and spreads the centres of a cell over its keys; each
  // other key joins the nearest centre of its cell. A kept key and its value are the weighted means
  // of those that joined; its weight is the sum of theirs.
  kMerge = 1,
  // Heavy hitters: the keys whose removal would change the results of a sample of the context's
  // rows, passed as query rows, the most (kernels/ops/key_attention.h). All weights are 1.
  kHeavy = 2,
  // Keys drawn without replacement, with nine tenths of the probability in proportion to the square
  // root of that importance and one tenth in proportion to the weights. The weight of a key is
  // divided by its inclusion probability.
  kSample = 3,
};

constexpr MemoryPolicy kMemoryPolicies[] = {MemoryPolicy::kMerge, MemoryPolicy::kHeavy,
                                            MemoryPolicy::kSample};

// The smallest memory set.
constexpr int64_t kLeastMemoryRows = 64;

struct MemorySet {
  int64_t rows = 0;  // the keys that each layer and K/V head keeps; 0: one for each row
  MemoryPolicy policy = MemoryPolicy::kMerge;

  friend bool operator==(const MemorySet&, const MemorySet&) = default;
};

// What the size of an encoded context depends on.
struct ContextShape {
  int64_t rows = 0;  // of the table
  MemorySet memory = {};

  // Whether there are fewer keys than rows.
  bool reduced() const { return memory.rows > 0 && memory.rows < rows; }
  // The keys of each layer and K/V head.
  int64_t keys() const { return reduced() ? memory.rows : rows; }
  // Whether rows can be appended (Dataset::append_starts). All policies except MERGE choose by the
  // rows of the keys of the set so far, and an encoded context does not contain these.
  bool appendable() const { return !reduced() || memory.policy == MemoryPolicy::kMerge; }

  friend bool operator==(const ContextShape&, const ContextShape&) = default;
};

// The names of policies in datasets, records and metrics: "merge", "heavy" and "sample". They are
// durable.
const char* MemoryPolicyName(MemoryPolicy policy);

// Returns false for an unknown name, and leaves `policy` unchanged.
bool MemoryPolicyFromName(absl::string_view name, MemoryPolicy* policy);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_MEMORY_SET_H_
