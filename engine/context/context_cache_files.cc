// The files of ContextCache. context_cache.cc lists the invariants.
#include <algorithm>
#include <utility>

#include "base/require.h"
#include "engine/context/context_cache.h"
#include "engine/context/context_cache_entry.h"
#include "spdlog/spdlog.h"

namespace chorale {
namespace {

// The maximum number of contexts that wait to be written. Each uses a little host memory. Beyond
// this number, the oldest contexts get no file.
constexpr size_t kMaxUnwritten = 256;

}  // namespace

void ContextCache::UseFiles(std::function<bool(const RegisteredContext&)> has_file) {
  has_file_ = std::move(has_file);
}

std::vector<ContextCache::FileTask> ContextCache::TakeFileTasks(absl::Time now) {
  if (has_file_) StartNextWrite(now);
  return std::exchange(file_tasks_, {});
}

void ContextCache::StopFiles() {
  has_file_ = nullptr;
  file_tasks_.clear();
  unwritten_.clear();
  std::vector<Pin> ended;  // destroyed last, because releasing pins may erase entries
  for (Entry& entry : entries_) {
    if (entry.loading) ended.push_back(std::move(entry.loading));
  }
  if (!write_.has_value()) return;
  if (write_->copy != nullptr) ForgetJob(write_->copy.get());
  FreeHost(&write_->host);
  ended.push_back(std::move(write_->pin));
  write_.reset();
}

// ---- Reading -------------------------------------------------------------------------------

// Allocates the range of the host pool into which a file is read if the host cannot access the
// context pool.
bool ContextCache::FindLoadingRoom(Entry* entry) {
  const std::optional<PoolRange> host = FindHostRoom(entry->context->resident_bytes);
  if (host.has_value()) entry->host = *host;
  return host.has_value();
}

void ContextCache::StartLoading(Entry* entry) {
  char* const memory = host_reaches_contexts_ ? backend_->ContextMemory(entry->used_kv())
                                              : backend_->HostContextMemory(entry->host);
  entry->has_file = false;
  entry->loading = Pin(this, entry);
  FileTask& task = file_tasks_.emplace_back();
  task.context = entry->context;
  task.read_to = absl::MakeSpan(memory, entry->context->resident_bytes);
  SetState(entry, State::kLoading);
}

void ContextCache::OnFileRead(const ContextPointer& context,
                              absl::StatusOr<std::string> encoder_state, absl::Time now) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.context == context && entry.state == State::kLoading;
  });
  Require(found != entries_.end(), "an entry is pinned while its file is read");
  Entry* entry = &*found;
  const Pin unpinned_last = std::move(entry->loading);
  const absl::Status loaded = FinishLoading(entry, std::move(encoder_state), now);
  if (!loaded.ok()) {
    spdlog::warn("the server encodes context '{}', because its file cannot be used: {}",
                 context->record.name, loaded.ToString());
    FreeHost(&entry->host);
    ReleaseKv(entry);
    SetState(entry, State::kWaiting);
  }
}

absl::Status ContextCache::FinishLoading(Entry* entry, absl::StatusOr<std::string> encoder_state,
                                         absl::Time now) {
  if (!encoder_state.ok()) return encoder_state.status();
  const std::shared_ptr<const BackendModel>& model = entry->context->model->weights;
  absl::StatusOr<std::shared_ptr<const RowEncoderState>> state =
      backend_->ReadEncoderState(*model, *encoder_state);
  if (!state.ok()) return state.status();
  auto context = std::make_shared<const ResidentContext>(
      ResidentContext{model, *std::move(state), entry->used_kv(), entry->context->record.shape()});
  if (host_reaches_contexts_) {
    entry->resident = std::move(context);
    SetState(entry, State::kResident);
    metrics_->RestoreTime(now - entry->placed);
  } else {
    entry->saved = std::move(context);
    StartCopy(entry, CopyDirection::kToDevice);
  }
  return absl::OkStatus();
}

// ---- Writing -------------------------------------------------------------------------------

void ContextCache::QueueWrite(const Entry& entry) {
  if (!has_file_) return;
  if (unwritten_.size() == kMaxUnwritten) unwritten_.pop_front();
  unwritten_.push_back(entry.context);
}

void ContextCache::StartNextWrite(absl::Time now) {
  while (!write_.has_value() && !unwritten_.empty()) {
    const ContextPointer context = std::move(unwritten_.front());
    unwritten_.pop_front();
    const auto found = index_.find(context.get());
    // A context that was evicted in the meantime is queued again when it is restored from the host
    // pool.
    if (found == index_.end() || context->deleted) continue;
    if (found->second->state != State::kResident || !found->second->unwritten) continue;
    if (!StartWrite(found->second, now)) {
      unwritten_.push_front(context);
      return;
    }
  }
}

bool ContextCache::StartWrite(Entry* entry, absl::Time now) {
  if (host_reaches_contexts_) {
    write_ = FileWrite{Pin(this, entry), PoolRange(), nullptr, nullptr, now};
    HandOutWrite(entry, backend_->ContextMemory(entry->used_kv()), now);
    return true;
  }
  const std::optional<PoolRange> host = FindHostRoom(entry->context->resident_bytes);
  if (!host.has_value()) return false;
  write_ = FileWrite{Pin(this, entry), *host,
                     backend_->NewContextCopy(entry->used_kv(), *host, CopyDirection::kToHost),
                     nullptr, now};
  jobs_.push_back({next_job_++, write_->copy.get(), entry->context.get()});
  return true;
}

void ContextCache::CollectWriteCopy(absl::Time now) {
  if (!write_.has_value() || write_->copy == nullptr || !write_->copy->done()) return;
  ForgetJob(write_->copy.get());
  write_->copy.reset();
  HandOutWrite(write_->pin.entry_, backend_->HostContextMemory(write_->host), now);
  write_->pin.Reset();
}

void ContextCache::HandOutWrite(Entry* entry, char* memory, absl::Time now) {
  entry->unwritten = false;
  write_->lent =
      std::make_shared<LentMemory>(absl::MakeConstSpan(memory, entry->context->resident_bytes));
  write_->began = now;
  FileTask& task = file_tasks_.emplace_back();
  task.kind = FileTask::Kind::kWrite;
  task.context = entry->context;
  task.write_from = write_->lent;
  const RowEncoderState* const state = entry->resident->encoder_state.get();
  if (state != nullptr) task.encoder_state = state->Bytes();
}

// Returns true while a file is written from the context pool.
bool ContextCache::WritesPinned() const {
  return write_.has_value() && write_->lent != nullptr && write_->pin;
}

// Abandons the write. The writing thread detects this, and still reports the end of its task.
void ContextCache::GiveUpWrite() {
  write_->lent->TakeBack();
  write_->pin.Reset();
}

void ContextCache::OnFileWritten() {
  FreeHost(&write_->host);
  const Pin unpinned_last = std::move(write_->pin);
  write_.reset();
}

}  // namespace chorale
