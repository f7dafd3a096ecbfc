#include "engine/context/encoded_contexts.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "spdlog/spdlog.h"

namespace chorale {
namespace {

// Separates the format of the backend from the format of the model.
constexpr char kModelFormat[] = ", of the model: ";

// Returns true if the file has this format of the backend. The format of its model is unknown until
// the model is loaded. A file with another format of the model is not found later, and the next
// file replaces it.
bool IsOfBackend(const std::string& format, const std::string& backend_format) {
  return format == backend_format ||
         absl::StartsWith(format, absl::StrCat(backend_format, kModelFormat));
}

// Decides whether a request may still use the file. A model that is not served may be added again.
ContextFiles::Found Judge(const EncodedContextId& id, const std::string& kv_format,
                          ContextStore* store, const ModelRegistry& models) {
  const absl::StatusOr<ContextRecord> record = store->Get(id.tenant, id.name);
  const ModelRegistry::Pointer model = id.model.empty() ? nullptr : models.Find(id.model);
  const bool keep = IsOfBackend(id.kv_format, kv_format) && record.ok() &&
                    record->digest == id.dataset && record->model == id.model &&
                    absl::ToUnixNanos(record->created) == id.created_ns &&
                    (model == nullptr || model->info.digest == id.model_digest);
  return keep ? ContextFiles::Found::kKeep : ContextFiles::Found::kRemove;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EncodedContexts>> EncodedContexts::Open(
    const std::string& folder, int64_t max_bytes, std::string kv_format, ContextStore* store,
    const ModelRegistry& models, Queues queues) {
  std::unique_ptr<EncodedContexts> contexts(
      new EncodedContexts(folder, max_bytes, std::move(kv_format), std::move(queues)));
  RETURN_IF_ERROR(contexts->files_.Open(
      [&](const EncodedContextId& id) { return Judge(id, contexts->kv_format_, store, models); }));
  return contexts;
}

EncodedContextId EncodedContexts::IdOf(const RegisteredContext& context) const {
  const ContextRecord& record = context.record;
  const std::string& of_model = context.model->kv_format;
  return {
      .tenant = record.tenant,
      .name = record.name,
      .dataset = record.digest,
      .created_ns = absl::ToUnixNanos(record.created),
      .model = record.model,
      .model_digest = context.model->info.digest,
      .kv_format = of_model.empty() ? kv_format_ : absl::StrCat(kv_format_, kModelFormat, of_model),
      .kv_bytes = context.resident_bytes};
}

bool EncodedContexts::Has(const RegisteredContext& context) const {
  return files_.Has(IdOf(context));
}

void EncodedContexts::Read(ContextCache::FileTask task, OnRead done) {
  queues_.reader->Add([this, task = std::move(task), done = std::move(done)] {
    done(task.context, files_.Read(IdOf(*task.context), task.read_to));
  });
}

void EncodedContexts::Write(ContextCache::FileTask task, OnWritten done) {
  queues_.writer->Add([this, task = std::move(task), done = std::move(done)] {
    WriteFile(task);
    done();
  });
}

void EncodedContexts::WriteFile(const ContextCache::FileTask& task) {
  const RegisteredContext& context = *task.context;
  const absl::Time start = Clock::Real()->Now();
  const absl::Status written = files_.Write(
      IdOf(context), task.encoder_state,
      [&task](int64_t offset, absl::Span<char> to) { return task.write_from->Copy(offset, to); },
      [&context] { return context.gone(); });
  if (written.ok()) {
    spdlog::debug("the server wrote context '{}' to a file in {}", context.record.name,
                  absl::FormatDuration(Clock::Real()->Now() - start));
  } else if (!absl::IsCancelled(written)) {
    spdlog::warn("the server does not keep context '{}' as a file: {}", context.record.name,
                 written.ToString());
  }
}

void EncodedContexts::Remove(const std::string& tenant, const std::string& name) {
  files_.Remove(tenant, name);
}

void EncodedContexts::Stop() {
  files_.StopWriting();
  queues_.reader->Stop();
  queues_.writer->Stop();
}

}  // namespace chorale
