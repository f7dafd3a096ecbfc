// Random appends to contexts of a ContextCache.
#include <random>
#include <utility>
#include <vector>

#include "engine/context/context_cache.h"
#include "gtest/gtest.h"
#include "tests/engine/context/cache_appends_fixture.h"
#include "tests/engine/small_model.h"

namespace chorale::testing {
namespace {

class RandomAppendsTest : public CacheAppendsFixture,
                          public ::testing::WithParamInterface<int64_t> {};

INSTANTIATE_TEST_SUITE_P(HostBytes, RandomAppendsTest, ::testing::Values(0, 320, 640));

// No sequence of appends, calls, deletions and limits leaves memory behind, or lets a context wait
// that has room.
TEST_P(RandomAppendsTest, EverythingBecomesResidentAndIsGivenBack) {
  options_.host_context_pool_bytes = GetParam();
  MakeCache();
  std::mt19937 random(static_cast<unsigned>(7 + GetParam()));
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % bound); };
  std::vector<Context> contexts = {Make(1), Make(2), Make(3)};
  std::vector<ContextCache::Pin> pins;
  for (int i = 0; i < 3000; ++i) {
    Context& context = contexts[below(3)];
    switch (below(10)) {
      case 0:
      case 1: {
        if (context->record.rows >= 9) context->deleted = true;
        const Context next = context->deleted ? Make(1 + below(3)) : Append(context, 1 + below(2));
        pins.push_back(Succeed(context, next));
        if (!pins.back()) pins.pop_back();
        context = next;
        break;
      }
      case 2:
      case 3:
        context->data = std::make_unique<ContextData>(ZerosFor(*context));
        if (auto pin = cache_->Acquire(context, now_, below(4) == 0 ? 640 : 0); pin.ok()) {
          pins.push_back(*std::move(pin));
        }
        break;
      case 4:
        if (!pins.empty()) pins.erase(pins.begin() + below(std::ssize(pins)));
        break;
      case 5:
        if (GetParam() == 0) cache_->LimitPool((5 + below(6)) * 64);
        break;
      case 6:
        Settle();
        break;
      default:  // rows are appended during encodings
        cache_->PlaceWaiting(now_);
        for (const auto& read : cache_->TakeReads()) cache_->OnData(read, ZerosFor(*read));
        if (!cache_->jobs().empty()) Step();
    }
    if (pins.size() > 4) pins.clear();
    if (below(20) != 0) continue;
    // Each context alone becomes resident.
    pins.clear();
    if (GetParam() == 0) cache_->LimitPool(640);
    for (const Context& each : contexts) {
      const auto pin = Acquire(each);
      Settle();
      ASSERT_NE(pin.resident(), nullptr) << "step " << i;
      backend_->NewRows(pin.resident(), FeatureMatrix{1, 1, {0}}, PoolRange());
    }
  }
  pins.clear();
  for (const Context& context : contexts) context->deleted = true;
  cache_->PurgeDeleted();
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  EXPECT_EQ(cache_->counts().host_bytes, 0);
  EXPECT_EQ(cache_->resident_contexts(), 0);
}

}  // namespace
}  // namespace chorale::testing
