#include "engine/context/context_loader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/fault.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/context/registration.h"
#include "engine/data/append_rows.h"
#include "engine/data/dataset_codec.h"
#include "engine/data/feature_transform.h"
#include "engine/data/nearest_rows.h"

namespace chorale {
namespace {

absl::Status NoSuchContext(const std::string& name) {
  return MakeError(ErrorReason::kContextNotFound, absl::StrCat("no context ", QuoteName(name)));
}

absl::StatusOr<std::string> ReadDataset(ContextStore* store, const ContextRecord& record) {
  if (FaultAt(FaultPlace::kContextLoad)) return absl::InternalError("fault");
  return store->ReadDataset(record.tenant, record.name);
}

// Sets `bytes` to an estimate, and resets it to zero on destruction.
class LoadingBytes {
 public:
  LoadingBytes(std::atomic<int64_t>* bytes, int64_t estimate) : bytes_(bytes) {
    *bytes_ = estimate;
  }
  ~LoadingBytes() { *bytes_ = 0; }
  LoadingBytes(const LoadingBytes&) = delete;
  LoadingBytes& operator=(const LoadingBytes&) = delete;

 private:
  std::atomic<int64_t>* const bytes_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const RegisteredContext>> ContextLoader::Load(
    const std::string& tenant, const std::string& name, const Preparation& preparation) {
  // Repeats only if the registration changes while it is read.
  while (true) {
    if (auto known = registry_->Find(tenant, name)) return known;
    registry_->BeginLoad(tenant, name);
    absl::StatusOr<ContextRecord> record = store_->Get(tenant, name);
    if (!record.ok()) {
      return absl::IsNotFound(record.status()) ? NoSuchContext(name) : record.status();
    }
    const std::shared_ptr<const ServedModel> model =
        record->model.empty() ? nullptr : models_->Find(record->model);
    if (model == nullptr) return ModelNotServed(name, record->model);
    RETURN_IF_ERROR(preparation.Check(*record, model->info));
    const LoadingBytes loading(&bytes_, kCopiesOfDataset * record->dataset_bytes);
    absl::StatusOr<std::string> bytes = ReadDataset(store_, *record);
    absl::StatusOr<ContextRecord> again = store_->Get(tenant, name);
    if (!again.ok() || again->digest != record->digest || again->model != record->model) continue;
    RETURN_IF_ERROR(bytes.status());
    ASSIGN_OR_RETURN(Dataset dataset, DecodeDataset(*bytes));
    ASSIGN_OR_RETURN(
        FeatureTransform transform,
        FeatureTransform::Fit(*BaseRows(dataset), model->info.config, SeasonOf(*record)));
    const uint64_t memory_seed = MemorySeed(*record, dataset);
    ASSIGN_OR_RETURN(ContextData data, MakeContextData(dataset, transform));
    auto table = std::make_unique<ContextData>(std::move(data));

    auto context = std::make_shared<RegisteredContext>();
    context->record = *std::move(record);
    context->transform = std::move(transform);
    context->model = model;
    context->append_starts = std::move(dataset.append_starts);
    context->memory_seed = memory_seed;
    context->resident_bytes =
        byte_counts_->ContextBytes(model->info.config, context->record.shape());
    const bool local = preparation.LocalRows(context->record) > 0;
    if (!local) context->data = std::move(table);
    if (!registry_->Publish(context)) continue;
    if (local) registry_->HoldTable(context, std::move(table));
    return context;
  }
}

std::shared_ptr<const RegisteredContext> ContextLoader::MakePart(
    const std::shared_ptr<const RegisteredContext>& whole, const ContextData& table,
    const FeatureMatrix& query_rows, int64_t rows) const {
  auto context = std::make_shared<RegisteredContext>();
  context->record = whole->record;
  context->record.dataset_bytes =
      context->record.dataset_bytes / std::max<int64_t>(context->record.rows, 1) * rows;
  context->record.rows = rows;
  context->record.appended_rows = 0;
  context->record.memory = {};
  context->transform = whole->transform;
  context->model = whole->model;
  context->resident_bytes =
      byte_counts_->ContextBytes(whole->model->info.config, context->record.shape());
  // The same call always gets the same rows.
  const uint64_t seed = ContentSeed("local rows", whole->record.digest);
  context->part = {whole, NearestRows(table.features, query_rows, rows, seed)};
  context->data = std::make_unique<ContextData>(SelectRows(table, context->part->rows));
  return context;
}

absl::StatusOr<ContextData> ContextLoader::ReadData(const RegisteredContext& context) {
  if (!context.part.has_value()) return ReadTable(context);
  const absl::StatusOr<std::shared_ptr<const ContextData>> table = LoadTable(context.part->whole);
  // The request of a local context that was not resident yet looks the registration up again.
  if (context.part->whole->replaced) context.replaced = true;
  RETURN_IF_ERROR(table.status());
  return SelectRows(**table, context.part->rows);
}

absl::StatusOr<std::shared_ptr<const ContextData>> ContextLoader::LoadTable(
    const std::shared_ptr<const RegisteredContext>& context) {
  if (auto held = registry_->FindTable(*context)) return held;
  ASSIGN_OR_RETURN(ContextData data, ReadTable(*context));
  auto table = std::make_shared<const ContextData>(std::move(data));
  registry_->HoldTable(context, table);
  return table;
}

absl::StatusOr<ContextData> ContextLoader::ReadTable(const RegisteredContext& context) {
  const ContextRecord& record = context.record;
  const LoadingBytes loading(&bytes_, kCopiesOfDataset * record.dataset_bytes);
  absl::StatusOr<std::string> bytes = ReadDataset(store_, record);
  // Bytes that are read after a deletion may belong to a later registration.
  absl::StatusOr<ContextRecord> now = store_->Get(record.tenant, record.name);
  const bool anew = now.ok() && now->digest == context.encodes_anew;  // not replaced yet
  const bool replaced =
      now.ok() && ((now->digest != record.digest && !anew) || now->model != record.model);
  // Requests that wait for the data look the context up again.
  if (replaced) context.replaced = true;
  if (context.deleted || replaced) return NoSuchContext(record.name);
  RETURN_IF_ERROR(bytes.status());
  ASSIGN_OR_RETURN(const Dataset dataset, DecodeDataset(*bytes));
  return MakeContextData(dataset, context.transform);
}

}  // namespace chorale
