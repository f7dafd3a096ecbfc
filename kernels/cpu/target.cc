#include "kernels/cpu/target.h"

#include <cstdint>

#include "kernels/cpu/enabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/target.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {

int64_t ThisTarget() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace chorale::kernels {
HWY_EXPORT(ThisTarget);

namespace {

// Adds the baseline, which Highway reports as supported only under its own bit.
std::vector<int64_t> CompiledAndSupported() {
  std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  if (targets.empty() || targets.back() != HWY_STATIC_TARGET) {
    bool listed = false;
    for (int64_t target : targets) listed = listed || target == HWY_STATIC_TARGET;
    if (!listed) targets.push_back(HWY_STATIC_TARGET);
  }
  return targets;
}

}  // namespace

std::string SimdTargetName() { return hwy::TargetName(HWY_DYNAMIC_DISPATCH(ThisTarget)()); }

std::vector<std::string> SimdTargetNames() {
  std::vector<std::string> names;
  for (int64_t target : CompiledAndSupported()) names.emplace_back(hwy::TargetName(target));
  return names;
}

bool ForceSimdTargetForTest(std::string_view name) {
  hwy::SetSupportedTargetsForTest(0);
  bool known = name.empty();
  for (int64_t target : CompiledAndSupported()) {
    if (name == hwy::TargetName(target)) {
      hwy::SetSupportedTargetsForTest(target);
      known = true;
      break;
    }
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return known;
}

}  // namespace chorale::kernels
#endif  // HWY_ONCE
