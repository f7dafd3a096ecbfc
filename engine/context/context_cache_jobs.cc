// The jobs of ContextCache: encodings, and copies from and to the host pool. context_cache.cc lists
// the invariants.
#include <algorithm>
#include <utility>

#include "engine/context/context_bytes.h"
#include "engine/context/context_cache.h"
#include "engine/context/context_cache_entry.h"

namespace chorale {

void ContextCache::Charge(uint64_t job, double flops) {
  const auto charged =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& each) { return each.id == job; });
  if (charged != jobs_.end()) charged->flops_done += flops;
}

double ContextCache::EncodeFlopsLeft() const {
  double flops = 0;
  if (Count(State::kReading) + Count(State::kWaiting) > 0) {
    for (const Entry& entry : entries_) {
      const bool to_come =
          entry.state == State::kReading ||
          (entry.state == State::kWaiting && entry.saved == nullptr && !entry.has_file);
      if (to_come) flops += FlopsOf(entry);
    }
  }
  for (const Job& job : jobs_) {
    if (job.work->kind() != WorkKind::kEncode) continue;
    flops += std::max(0.0, FlopsOf(*job.entry) - job.flops_done);
  }
  return flops;
}

void ContextCache::CollectJobs(absl::Time now) {
  std::vector<Entry*> done;
  for (const Job& job : jobs_) {
    if (job.entry != nullptr && job.work->done()) done.push_back(job.entry);
  }
  for (Entry* const entry : done) CollectJob(entry, now);
  CollectWriteCopy(now);
}

void ContextCache::CollectJob(Entry* entry, absl::Time now) {
  if (entry->state == State::kSaving) {
    EndJob(entry);
    ReleaseKv(entry);
    SetState(entry, entry->pins > 0 ? State::kWaiting : State::kSaved);
    if (entry->pins == 0) EnterLru(entry, &saved_lru_);
    return;
  }
  if (entry->state == State::kEncoding) {
    entry->resident = std::make_shared<const ResidentContext>(entry->encode->TakeContext());
    const RegisteredContext& context = *entry->context;
    entry->unwritten = has_file_ != nullptr && !context.part.has_value() && context.registered;
    const ServedModel& model = *context.model;
    const ContextRecord& record = context.record;
    const ContextShape shape = record.shape();
    model.encode_rate.Observe(FlopsOf(*entry), now - entry->placed);
    metrics_->EncodeTime(now - entry->placed);
    metrics_->EncodedRows(record.model, shape.rows - PrefixRows(*entry));
    if (shape.reduced()) metrics_->MemorySetKeys(shape.memory.policy, shape.keys());
  } else {
    ResidentContext restored = *entry->saved;
    restored.kv = entry->used_kv();
    entry->resident = std::make_shared<const ResidentContext>(std::move(restored));
    ReleaseHost(entry);
    metrics_->RestoreTime(now - entry->placed);
  }
  EndJob(entry);
  SetState(entry, State::kResident);
  if (entry->pins == 0) EnterLru(entry, &lru_);
  if (entry->unwritten) QueueWrite(*entry);
}

void ContextCache::StartEncoding(Entry* entry, ContextData data) {
  entry->read_wanted = false;
  PinPrefix(entry);  // a longer one may be resident by now
  const RegisteredContext& context = *entry->context;
  std::unique_ptr<EncodeWork> work = backend_->NewEncode({.model = context.model->weights,
                                                          .features = std::move(data.features),
                                                          .y = std::move(data.y),
                                                          .memory = context.record.memory,
                                                          .seed = context.memory_seed,
                                                          .append_starts = context.append_starts,
                                                          .prefix = entry->prefix.resident(),
                                                          .kv = entry->used_kv(),
                                                          .workspace = entry->workspace});
  entry->encode = work.get();
  StartJob(entry, State::kEncoding, std::move(work));
}

void ContextCache::StartCopy(Entry* entry, CopyDirection direction) {
  const bool saves = direction == CopyDirection::kToHost;
  StartJob(entry, saves ? State::kSaving : State::kRestoring,
           backend_->NewContextCopy(entry->used_kv(), entry->host, direction));
}

void ContextCache::StartJob(Entry* entry, State state, std::unique_ptr<Work> work) {
  entry->work = std::move(work);
  jobs_.push_back({next_job_++, entry->work.get(), entry->context.get(), entry});
  SetState(entry, state);
}

void ContextCache::ForgetJob(const Work* work) {
  const auto place =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.work == work; });
  ended_jobs_.push_back(place->id);
  jobs_.erase(place);
}

// Ends the work of the entry, and its use of other ranges than its own.
void ContextCache::EndJob(Entry* entry) {
  ForgetJob(entry->work.get());
  entry->work.reset();
  entry->encode = nullptr;
  ReleaseWorkspace(entry);
  entry->prefix.Reset();
}

int64_t ContextCache::EncodingBytes() const {
  int64_t bytes = 0;
  if (Count(State::kWaiting) > 0) {
    for (const Entry& entry : entries_) {
      if (entry.data != nullptr) bytes += entry.context->record.dataset_bytes;
    }
  }
  for (const Job& job : jobs_) {
    if (job.work->kind() != WorkKind::kEncode) continue;
    const ContextRecord& record = job.context->record;
    bytes +=
        record.dataset_bytes + EncodingTokenBytes(job.context->model->info.config, record.shape());
  }
  return bytes;
}

}  // namespace chorale
