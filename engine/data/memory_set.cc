#include "engine/data/memory_set.h"

namespace chorale {

const char* MemoryPolicyName(MemoryPolicy policy) {
  switch (policy) {
    case MemoryPolicy::kMerge:
      return "merge";
    case MemoryPolicy::kHeavy:
      return "heavy";
    case MemoryPolicy::kSample:
      return "sample";
  }
  return "";
}

bool MemoryPolicyFromName(absl::string_view name, MemoryPolicy* policy) {
  for (const MemoryPolicy each : kMemoryPolicies) {
    if (name != MemoryPolicyName(each)) continue;
    *policy = each;
    return true;
  }
  return false;
}

}  // namespace chorale
