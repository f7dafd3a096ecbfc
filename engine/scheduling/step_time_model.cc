#include "engine/scheduling/step_time_model.h"

#include <algorithm>
#include <bit>

namespace chorale {
namespace {

int SizeOf(int64_t decodes) { return std::bit_width(static_cast<uint64_t>(decodes)) - 1; }

}  // namespace

void StepTimeModel::Observe(int64_t decodes, int64_t steps, absl::Duration time) {
  constexpr double kWeight = 0.3;
  const double seconds = absl::ToDoubleSeconds(time) / static_cast<double>(steps);
  if (!(seconds > 0)) return;
  double& known = seconds_[SizeOf(decodes)];
  known = known == 0 ? seconds : known + kWeight * (seconds - known);
}

absl::Duration StepTimeModel::StepTime(int64_t decodes) const {
  const int size = SizeOf(decodes);
  for (int i = size; i < kSizes; ++i) {
    if (seconds_[i] > 0) return absl::Seconds(seconds_[i]);
  }
  for (int i = size; i >= 0; --i) {
    if (seconds_[i] > 0) return absl::Seconds(seconds_[i]);
  }
  return absl::ZeroDuration();
}

int64_t StepTimeModel::StepsWithin(int64_t decodes, absl::Duration time) const {
  const absl::Duration step = StepTime(decodes);
  if (step <= absl::ZeroDuration()) return 1;
  absl::Duration rest;
  return std::max<int64_t>(1, absl::IDivDuration(time, step, &rest));
}

absl::Duration SplitElapsed(absl::Duration elapsed, absl::Duration expected, absl::Duration other) {
  constexpr absl::Duration kUnknown = absl::ZeroDuration();
  if (expected != kUnknown && other != kUnknown) {
    return elapsed * absl::FDivDuration(expected, expected + other);
  }
  if (expected != kUnknown) return std::min(expected, elapsed / 2);
  return other != kUnknown ? std::max(elapsed - other, elapsed / 2) : elapsed / 2;
}

}  // namespace chorale
