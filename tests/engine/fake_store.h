// A context store in memory, which can be slowed down and made to fail.
#ifndef CHORALE_TESTS_ENGINE_FAKE_STORE_H_
#define CHORALE_TESTS_ENGINE_FAKE_STORE_H_

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error_details.h"
#include "base/mutex.h"
#include "engine/store/context_store.h"

namespace chorale::testing {

// What a FakeStore did, and switches. Thread-safe.
struct FakeStoreLog {
  std::atomic<int64_t> reads{0};  // of datasets
  std::atomic<int64_t> gets{0};
  std::atomic<bool> closed{false};
  std::atomic<bool> fail_reads{false};
  // Called before a dataset is read. Set before the engine starts.
  std::function<void()> before_read;
  std::atomic<bool> fail_after_put{false};  // a Put stores, and returns an error
  // Called when a context is stored, with its record, before Put returns. Set before the engine
  // starts.
  std::function<void(const ContextRecord&)> after_put;
  // Called when a deletion is committed, before Delete returns. Set before the engine starts.
  std::function<void()> after_delete;
  // While set, dataset reads wait.
  void HoldReads() {
    MutexLock lock(&mutex);
    held = true;
  }
  void LetReadsGo() {
    MutexLock lock(&mutex);
    held = false;
    changed.NotifyAll();
  }
  void PassReads() {
    MutexLock lock(&mutex);
    while (held) changed.Wait(&mutex);
  }

  Mutex mutex;
  CondVar changed;
  bool held ABSL_GUARDED_BY(mutex) = false;
};

// Thread-safe.
class FakeStore : public ContextStore {
 public:
  explicit FakeStore(FakeStoreLog* log) : log_(log) {}

  using ContextStore::Put;
  absl::StatusOr<PutOutcome> Put(const ContextRecord& record, absl::string_view dataset,
                                 const StoreQuota& /*quota*/,
                                 const std::optional<Replacement>& replacement) override {
    absl::StatusOr<PutOutcome> outcome = PutLocked(record, dataset, replacement);
    if (!outcome.ok() || *outcome == PutOutcome::kUnchanged) return outcome;
    if (log_->after_put) log_->after_put(record);
    if (log_->fail_after_put) return absl::InternalError("the disk failed");
    return outcome;
  }
  using ContextStore::CheckPut;
  absl::StatusOr<PutOutcome> CheckPut(const ContextRecord& record, const StoreQuota& /*quota*/,
                                      const std::optional<Replacement>& replacement) override {
    MutexLock lock(&mutex_);
    return Compare(record, replacement);
  }
  absl::StatusOr<ContextRecord> Get(const std::string& tenant, const std::string& name) override {
    ++log_->gets;
    MutexLock lock(&mutex_);
    const auto it = contexts_.find({tenant, name});
    if (it == contexts_.end()) return absl::NotFoundError("no such context");
    return it->second.first;
  }
  absl::Status UpdateDetails(const std::string& tenant, const std::string& name,
                             const ContextDetails& details, absl::Time updated) override {
    MutexLock lock(&mutex_);
    const auto it = contexts_.find({tenant, name});
    if (it == contexts_.end()) return absl::NotFoundError("no such context");
    it->second.first.details = details;
    it->second.first.updated = updated;
    return absl::OkStatus();
  }
  absl::Status NoteUses(const std::vector<ContextUse>& uses) override {
    MutexLock lock(&mutex_);
    for (const ContextUse& use : uses) {
      const auto it = contexts_.find({use.tenant, use.name});
      if (it != contexts_.end()) it->second.first.last_used = use.time;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<ContextKey>> ListExpired(absl::Time now, int64_t limit) override {
    MutexLock lock(&mutex_);
    std::vector<ContextKey> expired;
    for (const auto& [key, value] : contexts_) {
      if (value.first.details.expires <= now) expired.push_back({key.first, key.second});
    }
    expired.resize(std::min(expired.size(), static_cast<size_t>(limit)));
    return expired;
  }
  absl::StatusOr<std::string> ReadDataset(const std::string& tenant,
                                          const std::string& name) override {
    ++log_->reads;
    if (log_->before_read) log_->before_read();
    log_->PassReads();
    if (log_->fail_reads) return absl::DataLossError("the dataset does not match its digest");
    MutexLock lock(&mutex_);
    const auto it = contexts_.find({tenant, name});
    if (it == contexts_.end()) return absl::NotFoundError("no such context");
    return it->second.second;
  }
  using ContextStore::List;
  absl::StatusOr<ContextPage> List(const std::string& tenant, const ContextQuery& /*query*/,
                                   PageLimits /*limits*/,
                                   const std::string& /*page_token*/) override {
    MutexLock lock(&mutex_);
    ContextPage page;
    for (const auto& [key, value] : contexts_) {
      if (key.first == tenant) page.records.push_back(value.first);
    }
    return page;
  }
  absl::StatusOr<std::vector<ContextSummary>> ListNewest(int64_t limit) override {
    std::vector<ContextRecord> records;
    MutexLock lock(&mutex_);
    for (const auto& [key, value] : contexts_) records.push_back(value.first);
    std::stable_sort(records.begin(), records.end(),
                     [](const auto& a, const auto& b) { return a.created > b.created; });
    if (static_cast<int64_t>(records.size()) > limit) records.resize(limit);
    std::vector<ContextSummary> newest;
    for (const ContextRecord& record : records) {
      newest.push_back({record.tenant, record.name, record.model, record.shape()});
    }
    return newest;
  }
  absl::Status Delete(const std::string& tenant, const std::string& name) override {
    {
      MutexLock lock(&mutex_);
      if (contexts_.erase({tenant, name}) == 0) return absl::NotFoundError("no such context");
    }
    if (log_->after_delete) log_->after_delete();
    return absl::OkStatus();
  }
  absl::StatusOr<StoreTotals> Totals() override {
    MutexLock lock(&mutex_);
    StoreTotals totals;
    for (const auto& [key, value] : contexts_) {
      ++totals.contexts;
      totals.dataset_bytes += static_cast<int64_t>(value.second.size());
    }
    return totals;
  }
  absl::Status Close() override {
    log_->closed = true;
    return absl::OkStatus();
  }

 private:
  using Key = std::pair<std::string, std::string>;  // (tenant, name)

  absl::StatusOr<PutOutcome> PutLocked(const ContextRecord& record, absl::string_view dataset,
                                       const std::optional<Replacement>& replacement) {
    MutexLock lock(&mutex_);
    const absl::StatusOr<PutOutcome> outcome = Compare(record, replacement);
    if (!outcome.ok() || *outcome == PutOutcome::kUnchanged) return outcome;
    auto& stored = contexts_[{record.tenant, record.name}];
    const absl::Time created =
        *outcome == PutOutcome::kReplaced ? stored.first.created : record.created;
    stored = {record, std::string(dataset)};
    stored.first.created = created;
    return outcome;
  }
  absl::StatusOr<PutOutcome> Compare(const ContextRecord& record,
                                     const std::optional<Replacement>& replacement)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto it = contexts_.find({record.tenant, record.name});
    const std::string etag = replacement.has_value() ? replacement->etag : "";
    if (it == contexts_.end()) {
      return etag.empty() ? absl::StatusOr<PutOutcome>(PutOutcome::kCreated)
                          : MakeError(ErrorReason::kEtagMismatch, "none");
    }
    const ContextRecord& existing = it->second.first;
    if (existing.digest == record.digest && existing.model == record.model) {
      return PutOutcome::kUnchanged;
    }
    if (!replacement.has_value()) {
      return absl::AlreadyExistsError("the name is taken by other content");
    }
    if (!etag.empty() && etag != EtagOf(existing)) {
      return MakeError(ErrorReason::kEtagMismatch, "another etag");
    }
    return PutOutcome::kReplaced;
  }

  FakeStoreLog* const log_;
  Mutex mutex_;
  std::map<Key, std::pair<ContextRecord, std::string>> contexts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_FAKE_STORE_H_
