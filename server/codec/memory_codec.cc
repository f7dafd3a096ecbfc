#include "server/codec/memory_codec.h"

#include "absl/strings/str_cat.h"
#include "base/error_details.h"

namespace chorale {

v1::MemoryPolicy EncodeMemoryPolicy(MemoryPolicy policy) {
  switch (policy) {
    case MemoryPolicy::kMerge:
      return v1::MEMORY_POLICY_MERGE;
    case MemoryPolicy::kHeavy:
      return v1::MEMORY_POLICY_HEAVY;
    case MemoryPolicy::kSample:
      return v1::MEMORY_POLICY_SAMPLE;
  }
  return v1::MEMORY_POLICY_UNSPECIFIED;
}

void EncodeMemory(const MemorySet& memory, v1::Context* context) {
  if (memory.rows == 0) return;
  context->set_memory_row_count(memory.rows);
  context->set_memory_policy(EncodeMemoryPolicy(memory.policy));
}

absl::StatusOr<MemorySet> DecodeMemory(const v1::ContextSpec& spec) {
  MemorySet memory = {.rows = spec.memory_row_count()};
  if (memory.rows < 0 || (memory.rows > 0 && memory.rows < kLeastMemoryRows)) {
    return InvalidField(
        "spec.memory_row_count",
        absl::StrCat("is ", memory.rows, "; must be 0, or at least ", kLeastMemoryRows));
  }
  switch (spec.memory_policy()) {
    case v1::MEMORY_POLICY_UNSPECIFIED:
      return memory;
    case v1::MEMORY_POLICY_MERGE:
      break;
    case v1::MEMORY_POLICY_HEAVY:
      memory.policy = MemoryPolicy::kHeavy;
      break;
    case v1::MEMORY_POLICY_SAMPLE:
      memory.policy = MemoryPolicy::kSample;
      break;
    default:
      return InvalidField("spec.memory_policy", absl::StrCat("is ", spec.memory_policy(),
                                                             ", which is not a known value"));
  }
  if (memory.rows == 0) return InvalidField("spec.memory_policy", "requires memory_row_count");
  return memory;
}

}  // namespace chorale
