#include "tests/bench/fma_peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "kernels/cpu/enabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/fma_peak.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/fma_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {

// Twelve independent chains: enough for two multiply-adds per cycle at a latency of up to six.
inline constexpr int kChains = 12;

// Returns the operations done; the sum goes out through `sink` so that nothing is optimised away.
int64_t FmaLoop(int64_t iterations, float start, float* sink) {
  const F32 d;
  VF32 chain[kChains];
  CHORALE_UNROLL
  for (int c = 0; c < kChains; ++c) chain[c] = hn::Set(d, start + c);
  const VF32 factor = hn::Set(d, 0.999f + start);
  const VF32 addend = hn::Set(d, 1e-3f + start);
  for (int64_t i = 0; i < iterations; ++i) {
    CHORALE_UNROLL
    for (int c = 0; c < kChains; ++c) chain[c] = hn::MulAdd(chain[c], factor, addend);
  }
  VF32 sum = chain[0];
  for (int c = 1; c < kChains; ++c) sum = hn::Add(sum, chain[c]);
  *sink = hn::GetLane(hn::SumOfLanes(d, sum));
  return iterations * kChains * kLanes * 2;
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace chorale::kernels {
namespace {

HWY_EXPORT(FmaLoop);

double Measure() {
  double best = 0;
  volatile float start = 0;
  float sink = 0;
  for (int run = 0; run < 30; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    const int64_t operations = HWY_DYNAMIC_DISPATCH(FmaLoop)(1'000'000, start, &sink);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::max(best, operations / seconds.count());
  }
  start = sink;
  return best;
}

}  // namespace

double MeasuredFmaPeak() {
  static const double peak = Measure();
  return peak;
}

}  // namespace chorale::kernels
#endif  // HWY_ONCE
