#include "server/codec/dataset_assembler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/data/column_meaning.h"
#include "engine/data/column_validation.h"
#include "server/codec/details_decoder.h"
#include "server/codec/memory_codec.h"
#include "server/codec/resource_name.h"
#include "server/codec/table_decoder.h"
#include "server/codec/table_memory.h"

namespace chorale {
namespace {

std::string ColumnPath(size_t index) { return absl::StrCat("rows.columns[", index, "]"); }

const char* FormName(ColumnType type) {
  switch (type) {
    case ColumnType::kNumeric:
      return "numeric";
    case ColumnType::kCategorical:
      return "categorical";
    case ColumnType::kText:
      break;
  }
  return "strings";
}

absl::Status MissingTarget(size_t column, int64_t row) {
  return InvalidField(
      ColumnPath(column),
      absl::StrCat("the target column must not have missing cells, but the cell in row ", row,
                   " is missing; MISSING_TARGETS_DROP drops such rows"));
}

// Removes the rows that `dropped` marks.
template <typename Cell>
void RemoveRows(const std::vector<bool>& dropped, std::vector<Cell>* cells) {
  if (cells->empty()) return;
  size_t kept = 0;
  for (size_t row = 0; row < dropped.size(); ++row) {
    if (!dropped[row]) (*cells)[kept++] = (*cells)[row];
  }
  cells->resize(kept);
}

}  // namespace

absl::Status DatasetAssembler::Add(const v1::RegisterContextRequest& message) {
  switch (message.payload_case()) {
    case v1::RegisterContextRequest::kSpec:
      return AddSpec(message.spec());
    case v1::RegisterContextRequest::kRows:
      return AddRows(message.rows());
    case v1::RegisterContextRequest::PAYLOAD_NOT_SET:
      break;
  }
  return InvalidField("payload", "must be a spec or rows");
}

absl::Status DatasetAssembler::Add(const v1::CreateContextRequest& message) {
  RETURN_IF_ERROR(AddSpec(message.spec()));
  return AddRows(message.rows());
}

absl::Status DatasetAssembler::AddSpec(const v1::ContextSpec& spec) {
  if (has_spec_) return InvalidField("spec", "is allowed only in the first message");
  RETURN_IF_ERROR(ValidateName("spec.context_id", spec.context_id()));
  if (spec.target_column().empty()) {
    return InvalidField("spec.target_column", "must not be empty");
  }
  if (static_cast<int64_t>(spec.target_column().size()) > limits_.max_name_bytes) {
    return LimitExceeded("spec.target_column",
                         absl::StrCat("has ", spec.target_column().size(), " bytes; the limit is ",
                                      limits_.max_name_bytes));
  }
  if (!spec.model().empty()) {
    ASSIGN_OR_RETURN(std::string model, ParseModelName(spec.model(), "spec.model"));
    request_.model = std::move(model);
  }
  if (spec.row_count() < 0) {
    return InvalidField("spec.row_count",
                        absl::StrCat("is ", spec.row_count(), "; 0 means unknown"));
  }
  if (spec.row_count() > limits_.max_context_rows) {
    return LimitExceeded("spec.row_count", absl::StrCat("is ", spec.row_count(), "; the limit is ",
                                                        limits_.max_context_rows));
  }
  if (!v1::ContextSpec::Seasons_IsValid(spec.seasons())) {
    return InvalidField("spec.seasons",
                        absl::StrCat("is ", spec.seasons(), ", which is not a known value"));
  }
  if (spec.seasons() == v1::ContextSpec::SEASONS_OFF) seasons_ = Seasons::kNotSought;
  if (!v1::ContextSpec::MissingTargets_IsValid(spec.missing_targets())) {
    return InvalidField("spec.missing_targets", absl::StrCat("is ", spec.missing_targets(),
                                                             ", which is not a known value"));
  }
  ASSIGN_OR_RETURN(memory_, DecodeMemory(spec));
  drops_missing_targets_ = spec.missing_targets() == v1::ContextSpec::MISSING_TARGETS_DROP;
  request_.context = spec.context_id();
  request_.validate_only = spec.validate_only();
  RETURN_IF_ERROR(DecodeDetails(spec, &request_));
  announced_rows_ = spec.row_count();
  target_ = spec.target_column();
  has_spec_ = true;
  return absl::OkStatus();
}

absl::Status DatasetAssembler::AddRows(const v1::Table& rows) {
  if (!has_spec_) return InvalidField("spec", "must be in the first message");
  if (chunks_ >= kMaxChunks) {
    return LimitExceeded("rows", absl::StrCat("are in more than ", kMaxChunks,
                                              " messages: send more rows per message"));
  }
  ASSIGN_OR_RETURN(Table chunk, DecodeTable(rows, "rows", ChunkBounds(limits_)));
  if (rows_ + chunk.rows() > limits_.max_context_rows) {
    return LimitExceeded(
        "rows", absl::StrCat("has ", rows_ + chunk.rows(), " rows over all messages; the limit is ",
                             limits_.max_context_rows));
  }
  RETURN_IF_ERROR(CheckTarget(chunk));
  if (chunks_ == 0) {
    for (const Column& column : chunk.columns) {
      table_.columns.push_back({column.name, column.type, {}, {}, {}, column.meaning});
      CountBytes(column.name.size(), sizeof(Column) + sizeof(CategoryIndex));
    }
    category_index_.resize(table_.columns.size());
  } else {
    RETURN_IF_ERROR(CheckSameColumns(chunk));
  }
  for (size_t i = 0; i < chunk.columns.size(); ++i) {
    RETURN_IF_ERROR(Append(chunk.columns[i], i));
  }
  rows_ += chunk.rows();
  ++chunks_;
  return absl::OkStatus();
}

absl::Status DatasetAssembler::CheckTarget(const Table& chunk) const {
  const int64_t index = chunk.Find(target_);
  if (index < 0) {
    return InvalidField("spec.target_column",
                        absl::StrCat("the rows have no column ", QuoteName(target_)));
  }
  const Column& column = chunk.columns[index];
  if (column.type == ColumnType::kCategorical) {
    return InvalidField(ColumnPath(index), "the target column must be numeric");
  }
  if (!drops_missing_targets_) {
    const auto missing = std::find_if(column.numbers.begin(), column.numbers.end(),
                                      [](double y) { return std::isnan(y); });
    if (missing != column.numbers.end()) {
      return MissingTarget(index, rows_ + (missing - column.numbers.begin()));
    }
  }
  // A dataset does not keep the target's meaning, so nobody else can check it.
  const size_t wrong = FirstBeyondMeaning(column.meaning, column.numbers);
  if (wrong == column.numbers.size()) return absl::OkStatus();
  return BeyondMeaning(absl::StrCat(ColumnPath(index), ".numeric.values[", wrong, "]"),
                       column.numbers[wrong]);
}

absl::Status DatasetAssembler::CheckSameColumns(const Table& chunk) const {
  if (chunk.columns.size() != table_.columns.size()) {
    return InvalidField("rows.columns", absl::StrCat("has ", chunk.columns.size(),
                                                     " columns, but the first message has ",
                                                     table_.columns.size()));
  }
  for (size_t i = 0; i < chunk.columns.size(); ++i) {
    const Column& first = table_.columns[i];
    const Column& column = chunk.columns[i];
    if (column.name != first.name) {
      return InvalidField(absl::StrCat(ColumnPath(i), ".name"),
                          absl::StrCat("is ", QuoteName(column.name),
                                       ", but the first message has ", QuoteName(first.name)));
    }
    if (column.type != first.type) {
      return InvalidField(ColumnPath(i),
                          absl::StrCat("is ", FormName(column.type), ", but the first message has ",
                                       FormName(first.type)));
    }
    if (column.meaning != first.meaning) {
      return InvalidField(
          absl::StrCat(ColumnPath(i), ".numeric.meaning"),
          absl::StrCat("is ", MeaningName(column.meaning), ", but the first message has ",
                       MeaningName(first.meaning), " (column ", QuoteName(column.name), ")"));
    }
  }
  return absl::OkStatus();
}

void DatasetAssembler::CountBytes(size_t bytes, size_t overhead) {
  bytes_ += static_cast<int64_t>(bytes);
  memory_bytes_ += static_cast<int64_t>(bytes + overhead);
}

absl::Status DatasetAssembler::Append(const Column& chunk, size_t index) {
  Column& column = table_.columns[index];
  if (chunk.type == ColumnType::kNumeric) {
    CountBytes(chunk.numbers.size() * sizeof(double), 0);
    column.numbers.insert(column.numbers.end(), chunk.numbers.begin(), chunk.numbers.end());
  } else {
    std::vector<int32_t> renumber;  // [chunk.categories]: the code in the assembled column
    renumber.reserve(chunk.categories.size());
    for (const std::string& category : chunk.categories) {
      const auto next = static_cast<int32_t>(column.categories.size());
      const auto [it, is_new] = category_index_[index].try_emplace(category, next);
      if (is_new) {
        column.categories.push_back(category);
        CountBytes(category.size(), category.size() + kCategoryOverhead);
      }
      renumber.push_back(it->second);
    }
    if (chunk.type == ColumnType::kCategorical) RETURN_IF_ERROR(CheckCategories(index));
    CountBytes(chunk.codes.size() * sizeof(int32_t), 0);
    for (int32_t code : chunk.codes) {
      column.codes.push_back(code == kMissingCode ? kMissingCode : renumber[code]);
    }
  }
  if (bytes_ > limits_.max_dataset_bytes) {
    return LimitExceeded("rows", absl::StrCat("take ", bytes_,
                                              " bytes over all messages; the limit "
                                              "is ",
                                              limits_.max_dataset_bytes));
  }
  return absl::OkStatus();
}

absl::Status DatasetAssembler::CheckCategories(size_t index) const {
  const Column& column = table_.columns[index];
  if (static_cast<int64_t>(column.categories.size()) <= limits_.max_categories) {
    return absl::OkStatus();
  }
  return LimitExceeded(
      ColumnPath(index),
      absl::StrCat("has ", column.categories.size(),
                   " or more categories over all messages; the limit is ", limits_.max_categories,
                   " (column ", QuoteName(column.name), ")"));
}

absl::Status DatasetAssembler::InferTypes() {
  for (size_t i = 0; i < table_.columns.size(); ++i) {
    Column& column = table_.columns[i];
    if (column.type != ColumnType::kText) continue;
    for (TextWarning& warning : InferType(&column)) text_warnings_.push_back(std::move(warning));
    if (column.type == ColumnType::kCategorical) RETURN_IF_ERROR(CheckCategories(i));
  }
  return absl::OkStatus();
}

absl::Status DatasetAssembler::CheckInferredTarget(size_t index) const {
  const Column& column = table_.columns[index];
  if (column.type == ColumnType::kNumeric) return absl::OkStatus();
  for (const TextWarning& warning : text_warnings_) {
    if (warning.column != target_) continue;
    return InvalidField(
        ColumnPath(index),
        absl::StrCat("the target column must be numeric, but is ", warning.message));
  }
  return InvalidField(ColumnPath(index),
                      absl::StrCat("the target column must be numeric, but contains texts such as ",
                                   QuoteName(column.categories.front())));
}

absl::Status DatasetAssembler::DropMissingTargets(size_t index) {
  const std::vector<double>& y = table_.columns[index].numbers;
  std::vector<bool> missing(y.size());
  for (size_t row = 0; row < y.size(); ++row) missing[row] = std::isnan(y[row]);
  dropped_rows_ = std::count(missing.begin(), missing.end(), true);
  if (dropped_rows_ == 0) return absl::OkStatus();
  if (!drops_missing_targets_) {
    return MissingTarget(index, std::find(missing.begin(), missing.end(), true) - missing.begin());
  }
  if (dropped_rows_ == rows_) {
    return InvalidField(ColumnPath(index), "the target column has no values");
  }
  for (Column& column : table_.columns) {
    RemoveRows(missing, &column.numbers);
    RemoveRows(missing, &column.codes);
  }
  return absl::OkStatus();
}

absl::StatusOr<Dataset> DatasetAssembler::Finish() {
  if (!has_spec_) return InvalidField("spec", "must be in the first message");
  if (rows_ == 0) return InvalidField("rows", "must come after the spec");
  if (announced_rows_ != 0 && rows_ != announced_rows_) {
    return InvalidField("spec.row_count",
                        absl::StrCat("is ", announced_rows_, ", but ", rows_, " rows were sent"));
  }
  if (table_.columns.size() < 2) {
    return InvalidField("rows.columns",
                        "must have at least one feature column in addition to the target column");
  }
  RETURN_IF_ERROR(InferTypes());
  const int64_t target = table_.Find(target_);
  RETURN_IF_ERROR(CheckInferredTarget(target));
  RETURN_IF_ERROR(DropMissingTargets(target));
  Dataset dataset;
  dataset.target = target_;
  dataset.seasons = seasons_;
  dataset.memory = memory_;
  dataset.y = std::move(table_.columns[target].numbers);
  table_.columns.erase(table_.columns.begin() + target);
  dataset.features = std::move(table_);
  return dataset;
}

}  // namespace chorale
