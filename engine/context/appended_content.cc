#include "engine/context/appended_content.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/backend/encode_blocks.h"
#include "engine/backend/flop_model.h"
#include "engine/context/check_digest.h"
#include "engine/data/append_rows.h"
#include "engine/data/column_validation.h"
#include "engine/data/dataset_codec.h"
#include "engine/data/feature_transform.h"
#include "engine/data/training_limits.h"

namespace chorale {
namespace {

absl::Status CheckAppendable(const ContextRecord& record, int64_t appended) {
  const ContextShape shape = {.rows = record.rows + appended, .memory = record.memory};
  if (shape.appendable()) return absl::OkStatus();
  return MakeError(
      ErrorReason::kAppendUnsupported,
      absl::StrCat("rows cannot be appended to context ", QuoteName(record.name), ", because its ",
                   shape.rows, " rows are reduced to a memory set of ", record.memory.rows,
                   " with the policy ", MemoryPolicyName(record.memory.policy),
                   "; register all rows again, with replace, or with the policy ",
                   MemoryPolicyName(MemoryPolicy::kMerge), ", which allows appends"));
}

absl::Status RowCountMismatch(const ContextRecord& record, int64_t first_row) {
  return MakeError(ErrorReason::kRowCountMismatch,
                   absl::StrCat("context ", QuoteName(record.name), " has ", record.rows,
                                " rows, but first_row is ", first_row));
}

// Returns the transform of the rows before the first append.
absl::StatusOr<FeatureTransform> TransformOf(const ReadContext& stored, const Dataset& dataset) {
  if (stored.in_memory != nullptr) return stored.in_memory->transform;
  return FeatureTransform::Fit(*BaseRows(dataset), stored.model->info.config,
                               SeasonOf(stored.record));
}

// The context keeps its details and times, except for the time of the change.
void KeepDetails(const ContextRecord& earlier, ContextRecord* record) {
  record->created = earlier.created;
  record->last_used = earlier.last_used;
  record->details = earlier.details;
}

// Adds the warnings about appended rows to those that the record has had before. Both are in the
// order of the columns; the note of the target is last.
void AddAppendedNotes(const ContextRecord& earlier, const std::vector<ColumnNote>& notes,
                      ContextRecord* record) {
  auto note = notes.begin();
  for (size_t i = 0; i < record->columns.size(); ++i) {
    ColumnInfo& column = record->columns[i];
    column.outside_bulk = earlier.columns[i].outside_bulk;
    if (note == notes.end() || note->column != column.name) continue;
    column.outside_bulk += (note++)->outside_bulk;
  }
  record->clipped_targets = earlier.clipped_targets;
  if (note != notes.end()) record->clipped_targets += note->clipped_targets;
}

void AddTrainingNote(int64_t rows, const FeatureTransform& transform, const ServedModel& model,
                     std::vector<ColumnNote>* notes) {
  ColumnNote note = TrainingNote(rows, transform.used_features(), model.info.config);
  if (!note.empty()) notes->insert(notes->begin(), std::move(note));
}

Estimate EstimateAppend(const ReadContext& stored, const NewContent& content,
                        const Backend& backend) {
  const ModelConfig& config = stored.model->info.config;
  const ContextShape shape = content.registration.record.shape();
  const std::vector<int64_t>& starts = content.dataset.append_starts;
  const ContextShape prefix = stored.record.shape();
  Estimate estimate;
  estimate.device_bytes = backend.ContextBytes(config, shape) + backend.EncodeBytes(config, shape);
  estimate.duration = stored.model->encode_rate.TimeOf(
      EncodeFlops(config, shape, starts, CanBePrefix(prefix, shape, starts) ? prefix.rows : 0));
  return estimate;
}

}  // namespace

absl::StatusOr<PreparedAppend> PrepareAppend(const ReadContext& stored,
                                             const AppendRequest& request, const Table& rows,
                                             const Limits& limits, const Backend& backend,
                                             int64_t context_pool_bytes) {
  const ContextRecord& earlier = stored.record;
  RETURN_IF_ERROR(CheckAppendable(earlier, 0));
  ASSIGN_OR_RETURN(Dataset dataset, DecodeDataset(stored.bytes));
  ASSIGN_OR_RETURN(
      const AppendedRows appended,
      MatchAppendedRows(
          dataset, rows,
          request.drop_missing_targets ? MissingTargets::kDrop : MissingTargets::kReject, limits));
  PreparedAppend prepared;
  prepared.rows = appended.rows();
  const int64_t first_row = request.first_row.value_or(earlier.rows);
  if (first_row != earlier.rows) {
    // A repeated call may have the etag and the digest of before its first attempt.
    if (!HasAppended(dataset, first_row, appended)) return RowCountMismatch(earlier, first_row);
    prepared.already_appended = true;
    ASSIGN_OR_RETURN(const FeatureTransform transform, TransformOf(stored, dataset));
    ASSIGN_OR_RETURN(prepared.notes, transform.CheckAppendedRows(appended));
    AddTrainingNote(earlier.rows, transform, *stored.model, &prepared.notes);
    return prepared;
  }
  RETURN_IF_ERROR(CheckContextDigest(request.expected_digest, earlier));
  if (!request.etag.empty() && request.etag != EtagOf(earlier)) {
    return MakeError(ErrorReason::kEtagMismatch,
                     absl::StrCat("context ", QuoteName(earlier.name), " has another etag"));
  }
  RETURN_IF_ERROR(CheckAppendable(earlier, appended.rows()));
  ASSIGN_OR_RETURN(FeatureTransform transform, TransformOf(stored, dataset));
  ASSIGN_OR_RETURN(prepared.notes, transform.CheckAppendedRows(appended));
  NewContent content;
  ASSIGN_OR_RETURN(content.dataset, AppendRows(std::move(dataset), appended, limits));
  ASSIGN_OR_RETURN(content.registration,
                   PrepareContent(earlier.tenant, earlier.name, *stored.model, content.dataset,
                                  std::move(transform), limits, backend, context_pool_bytes));
  ContextRecord& record = content.registration.record;
  KeepDetails(earlier, &record);
  AddAppendedNotes(earlier, prepared.notes, &record);
  AddTrainingNote(record.rows, content.registration.transform, *stored.model, &prepared.notes);
  prepared.estimate = EstimateAppend(stored, content, backend);
  prepared.content = std::move(content);
  return prepared;
}

absl::StatusOr<NewContent> PrepareAnew(const ReadContext& stored, const Backend& backend,
                                       int64_t context_pool_bytes) {
  NewContent content;
  ASSIGN_OR_RETURN(Dataset dataset, DecodeDataset(stored.bytes));
  content.dataset = WithoutAppends(std::move(dataset));
  const ContextRecord& earlier = stored.record;
  ASSIGN_OR_RETURN(content.registration,
                   PrepareRegistration(earlier.tenant, earlier.name, *stored.model, content.dataset,
                                       NoLimits(), backend, context_pool_bytes));
  KeepDetails(earlier, &content.registration.record);
  return content;
}

absl::StatusOr<std::optional<NewContent>> PrepareAppendedSince(const ContextRecord& before,
                                                               const FeatureTransform& transform,
                                                               const ReadContext& stored,
                                                               const Backend& backend,
                                                               int64_t context_pool_bytes) {
  const ContextRecord& earlier = stored.record;
  if (earlier.rows <= before.rows) return std::nullopt;
  NewContent content;
  ASSIGN_OR_RETURN(content.dataset, DecodeDataset(stored.bytes));
  std::vector<int64_t>& starts = content.dataset.append_starts;
  const auto since = std::find(starts.begin(), starts.end(), before.rows);
  if (since == starts.end() ||
      ContentDigest(EncodeDataset(FirstRows(content.dataset, before.rows))) != before.digest) {
    return std::nullopt;
  }
  starts.erase(starts.begin(), since);
  ASSIGN_OR_RETURN(content.registration,
                   PrepareContent(earlier.tenant, earlier.name, *stored.model, content.dataset,
                                  transform, NoLimits(), backend, context_pool_bytes));
  KeepDetails(earlier, &content.registration.record);
  return content;
}

}  // namespace chorale
