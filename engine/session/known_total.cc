#include "engine/session/known_total.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "engine/data/target_support.h"
#include "engine/session/mixture_results.h"

namespace chorale {
namespace {

using SnappedInterval = TargetSupport::SnappedInterval;

constexpr double kLogZero = -std::numeric_limits<double>::infinity();

// A mixture with the transform to its units.
class LastMixture {
 public:
  LastMixture(const MixtureSpan& mixture, const FeatureTransform& transform)
      : view_(ViewOf(mixture)), transform_(transform) {}

  double LogDensity(double y) const {
    return kernels::MixtureLogDensity(view_, ToModel(y)) - std::log(transform_.y_std());
  }
  kernels::TruncatedMixture In(const SnappedInterval& interval) const {
    return {view_, ToModel(interval.low), ToModel(interval.high)};
  }

 private:
  double ToModel(double y) const { return (y - transform_.y_mean()) / transform_.y_std(); }

  const kernels::MixtureView view_;
  const FeatureTransform& transform_;
};

LastValue ForExactTotal(double total, const PartialSum& others, const LastMixture& mixture,
                        const TargetSupport& support) {
  const double rest = total - others.sum();
  LastValue last{.value = rest, .unsnapped = rest, .log_weight = kLogZero};
  const double possible = support.Snap(rest);
  if (!(std::abs(possible - rest) <= others.RoundingError(total))) return last;
  last.value = last.unsnapped = possible;
  const std::optional<SnappedInterval> preimage = support.Preimage(possible, possible);
  if (!preimage.has_value()) return last;
  last.is_density = preimage->low == preimage->high;
  last.log_weight =
      last.is_density ? mixture.LogDensity(possible) : mixture.In(*preimage).log_probability();
  return last;
}

LastValue ForInterval(const KnownTotal& total, const PartialSum& others, const LastMixture& mixture,
                      const FeatureTransform& transform, const TargetSupport& support,
                      const kernels::TruncatedDraw& draw) {
  const double lower = total.lower - others.sum();
  const double upper = total.upper - others.sum();
  // A possible value at an end stays possible. An error of an infinite end is infinite.
  const bool snaps = !support.is_whole_line();
  const double slack_below = snaps && std::isfinite(lower) ? others.RoundingError(total.lower) : 0;
  const double slack_above = snaps && std::isfinite(upper) ? others.RoundingError(total.upper) : 0;
  const std::optional<SnappedInterval> preimage =
      support.Preimage(lower - slack_below, upper + slack_above);
  if (!preimage.has_value()) {
    const double end = std::isfinite(lower) ? lower : upper;
    const double value = std::clamp(support.Snap(end), lower, upper);
    return {.value = value, .unsnapped = value, .log_weight = kLogZero};
  }
  LastValue last;
  const kernels::TruncatedMixture inside = mixture.In(*preimage);
  last.log_weight = inside.log_probability();
  last.unsnapped = std::clamp(transform.ToUser(inside.Draw(draw)), preimage->low, preimage->high);
  last.value = std::clamp(support.Snap(last.unsnapped), preimage->least, preimage->greatest);
  return last;
}

}  // namespace

void PartialSum::Add(double value) {
  sum_ += value;
  magnitude_ += std::abs(value);
  ++count_;
}

// Each of the additions and the subtraction has a relative error of at most half an epsilon; so
// may have the values themselves and the total, which are decimal numbers to the user.
double PartialSum::RoundingError(double total) const {
  return std::numeric_limits<double>::epsilon() * static_cast<double>(count_ + 2) *
         (magnitude_ + std::abs(total));
}

LastValue LastValueForTotal(const KnownTotal& total, const PartialSum& others,
                            const MixtureSpan& mixture, const FeatureTransform& transform,
                            Snapping snapping, const kernels::TruncatedDraw& draw) {
  const TargetSupport whole_line;
  const TargetSupport& support =
      snapping == Snapping::kOn ? transform.target_support() : whole_line;
  const LastMixture last(mixture, transform);
  return total.is_exact() ? ForExactTotal(total.lower, others, last, support)
                          : ForInterval(total, others, last, transform, support, draw);
}

}  // namespace chorale
