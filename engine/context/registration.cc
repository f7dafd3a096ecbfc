#include "engine/context/registration.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/backend/flop_model.h"
#include "engine/context/context_bytes.h"
#include "engine/data/append_rows.h"
#include "engine/data/dataset_codec.h"
#include "engine/data/feature_transform.h"
#include "engine/data/training_limits.h"

namespace chorale {
namespace {

ColumnInfo Describe(const Column& column) {
  ColumnInfo info;
  info.name = column.name;
  info.type = column.type;
  info.meaning = column.meaning;
  for (const double number : column.numbers) info.missing += std::isnan(number) ? 1 : 0;
  std::vector<bool> used(column.categories.size(), false);
  for (const int32_t code : column.codes) {
    if (code == kMissingCode) {
      ++info.missing;
    } else if (!used[code]) {
      used[code] = true;
      ++info.categories;
    }
  }
  return info;
}

// Copies the notes to the record. Both are in the order of the columns; the note of the target is
// last.
void AddNotes(absl::Span<const ColumnNote> notes, ContextRecord* record) {
  for (ColumnInfo& column : record->columns) {
    if (notes.empty() || notes.front().column != column.name) continue;
    column.outside_bulk = notes.front().outside_bulk;
    column.left_out = notes.front().left_out;
    column.season_steps = notes.front().season_steps;
    notes.remove_prefix(1);
  }
  if (!notes.empty()) record->clipped_targets = notes.front().clipped_targets;
}

}  // namespace

absl::StatusOr<Registration> PrepareRegistration(const std::string& tenant, const std::string& name,
                                                 const ServedModel& model, const Dataset& dataset,
                                                 const Limits& limits, const Backend& backend,
                                                 int64_t context_pool_bytes) {
  RETURN_IF_ERROR(ValidateName("context_id", name));
  RETURN_IF_ERROR(ValidateDataset(dataset, limits));
  ASSIGN_OR_RETURN(FeatureTransform transform,
                   FeatureTransform::Fit(*BaseRows(dataset), model.info.config));
  return PrepareContent(tenant, name, model, dataset, std::move(transform), limits, backend,
                        context_pool_bytes);
}

absl::StatusOr<Registration> PrepareContent(const std::string& tenant, const std::string& name,
                                            const ServedModel& model, const Dataset& dataset,
                                            FeatureTransform transform, const Limits& limits,
                                            const Backend& backend, int64_t context_pool_bytes) {
  const ModelConfig& config = model.info.config;
  const int64_t rows = static_cast<int64_t>(dataset.y.size());
  const ContextShape shape = {.rows = rows, .memory = dataset.memory};
  RETURN_IF_ERROR(CheckMemorySet(
      "spec.memory_row_count",
      absl::StrCat("is ", shape.memory.rows,
                   ", but the server's device cannot reduce contexts to memory sets; set it to 0 "
                   "or to at least ",
                   rows, ", the number of rows"),
      shape, backend));
  RETURN_IF_ERROR(CheckAppends("rows", AppendedRowCount(dataset), backend));
  RETURN_IF_ERROR(ValidateContextBytes("rows", config, shape, backend, context_pool_bytes));
  Registration registration;
  registration.bytes = EncodeDataset(dataset);
  const int64_t bytes = static_cast<int64_t>(registration.bytes.size());
  if (bytes > limits.max_dataset_bytes) {
    return LimitExceeded("rows", absl::StrCat("take ", bytes, " bytes encoded; the limit is ",
                                              limits.max_dataset_bytes));
  }
  registration.transform = std::move(transform);
  ContextRecord& record = registration.record;
  record.tenant = tenant;
  record.name = name;
  record.model = model.info.name;
  record.digest = ContentDigest(registration.bytes);
  record.target = dataset.target;
  for (const Column& column : dataset.features.columns) record.columns.push_back(Describe(column));
  record.feature_count = static_cast<int64_t>(record.columns.size());
  for (size_t i = 0; i < record.columns.size(); ++i) {
    record.columns[i].calendar = registration.transform.calendar_features(static_cast<int64_t>(i));
  }
  AddNotes(registration.transform.context_notes(), &record);
  if (registration.transform.sought_season()) {
    record.season_transform = std::string(kTransformVersion);
  }
  record.rows = rows;
  record.appended_rows = AppendedRowCount(dataset);
  record.memory = dataset.memory;
  record.dataset_bytes = bytes;
  record.created = absl::Now();
  record.updated = record.created;
  return registration;
}

std::optional<KnownSeason> SeasonOf(const ContextRecord& record) {
  if (record.season_transform != kTransformVersion) return std::nullopt;
  for (size_t i = 0; i < record.columns.size(); ++i) {
    const double steps = record.columns[i].season_steps;
    if (steps > 0) return KnownSeason{static_cast<int64_t>(i), steps};
  }
  return KnownSeason();
}

std::vector<ColumnNote> NotesOf(const Registration& registration, const ModelConfig& config) {
  const FeatureTransform& transform = registration.transform;
  std::vector<ColumnNote> notes = transform.context_notes();
  ColumnNote of_size = TrainingNote(registration.record.rows, transform.used_features(), config);
  if (!of_size.empty()) notes.insert(notes.begin(), std::move(of_size));
  return notes;
}

Estimate EstimateEncoding(const ServedModel& model, const ContextShape& shape,
                          const Backend& backend) {
  const ModelConfig& config = model.info.config;
  Estimate estimate;
  estimate.device_bytes = backend.ContextBytes(config, shape) + backend.EncodeBytes(config, shape);
  estimate.duration = model.encode_rate.TimeOf(EncodeFlops(config, shape));
  return estimate;
}

}  // namespace chorale
