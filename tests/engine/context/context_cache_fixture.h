// A context cache over a fake backend.
#ifndef CHORALE_TESTS_ENGINE_CONTEXT_CONTEXT_CACHE_FIXTURE_H_
#define CHORALE_TESTS_ENGINE_CONTEXT_CONTEXT_CACHE_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "engine/context/context_cache.h"
#include "gtest/gtest.h"
#include "tests/engine/fake_backend.h"
#include "tests/engine/small_model.h"

namespace chorale::testing {

class ContextCacheFixture : public ::testing::Test {
 protected:
  using Context = std::shared_ptr<RegisteredContext>;

  ContextCacheFixture() {
    options_.context_pool_bytes = 640;  // ten rows
    MakeCache();
  }
  // With the options as they are now.
  void MakeCache() {
    cache_.reset();
    model_->weights.reset();
    backend_ = NewFakeBackend(options_, &log_);
    model_->weights = *backend_->AddModel(Model());
    cache_ = std::make_unique<ContextCache>(backend_.get(), &metrics_);
  }

  Context Make(int64_t rows) const { return NewContext(model_, rows); }
  ContextCache::Pin Acquire(const Context& context) {
    context->data = std::make_unique<ContextData>(ZerosFor(*context));
    auto pin = cache_->Acquire(context, now_);
    EXPECT_TRUE(pin.ok());
    return *std::move(pin);
  }
  // Reads, encodes, saves and restores until nothing more can be done.
  void Settle() {
    for (;;) {
      cache_->PlaceWaiting(now_);
      for (const auto& context : cache_->TakeReads()) cache_->OnData(context, ZerosFor(*context));
      if (cache_->jobs().empty()) return;
      ASSERT_TRUE(backend_->Advance({{cache_->jobs().front().work, 100}}).ok());
      cache_->CollectJobs(now_);
    }
  }
  void MakeResident(const Context& context) {
    const auto pin = Acquire(context);
    Settle();
    ASSERT_NE(pin.resident(), nullptr);
  }
  static bool Resident(const Context& context) { return context->state == ContextState::kResident; }

  FakeBackendOptions options_;
  FakeBackendLog log_;
  MetricsSink metrics_;
  std::unique_ptr<Backend> backend_;
  const std::shared_ptr<ServedModel> model_ = NewServedModel();
  std::unique_ptr<ContextCache> cache_;
  absl::Time now_ = absl::UnixEpoch();
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_CONTEXT_CONTEXT_CACHE_FIXTURE_H_
