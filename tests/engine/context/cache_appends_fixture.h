// A context cache whose contexts get more rows.
#ifndef CHORALE_TESTS_ENGINE_CONTEXT_CACHE_APPENDS_FIXTURE_H_
#define CHORALE_TESTS_ENGINE_CONTEXT_CACHE_APPENDS_FIXTURE_H_

#include <cstdint>
#include <memory>

#include "engine/context/context_cache.h"
#include "tests/engine/context/context_cache_fixture.h"
#include "tests/engine/small_model.h"

namespace chorale::testing {

class CacheAppendsFixture : public ContextCacheFixture {
 protected:
  // Another registration, with `rows` more rows.
  static Context Append(const Context& before, int64_t rows) {
    auto context = std::make_shared<RegisteredContext>();
    context->record = before->record;
    context->record.rows += rows;
    context->model = before->model;
    context->resident_bytes = context->record.rows * 64;
    context->append_starts = before->append_starts;
    context->append_starts.push_back(before->record.rows);
    context->predecessors = PredecessorsFrom(before);
    context->data = std::make_unique<ContextData>(ZerosFor(*context));
    return context;
  }
  static void MarkReplaced(const Context& context) {
    context->replaced = true;
    context->deleted = true;
  }
  // As the engine does after an append.
  ContextCache::Pin Succeed(const Context& before, const Context& context) {
    MarkReplaced(before);
    ContextCache::Pin pin = cache_->AcquireSuccessor(context, now_);
    cache_->PurgeDeleted();
    return pin;
  }
  // Advances the first job by one step.
  void Step() {
    ASSERT_TRUE(backend_->Advance({{cache_->jobs().front().work, 1}}).ok());
    cache_->CollectJobs(now_);
  }
  // The rows that the latest encoding has copied.
  int64_t Copied() { return log_.all_encodings().back().prefix_rows; }
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_CONTEXT_CACHE_APPENDS_FIXTURE_H_
