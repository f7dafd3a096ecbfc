#include "engine/store/summary_table.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "engine/data/dataset_codec.h"

namespace chorale {
namespace {

using Json = nlohmann::json;

// Times that are not known, or never come, are the limits of the range of a column.
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kUnknown = std::numeric_limits<int64_t>::min();

absl::Time FromNanos(int64_t nanos) {
  if (nanos == kNever) return absl::InfiniteFuture();
  if (nanos == kUnknown) return absl::InfinitePast();
  return absl::FromUnixNanos(nanos);
}

absl::StatusOr<std::string> LabelsToJson(const std::map<std::string, std::string>& labels) {
  try {
    return Json(labels).dump();
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat("labels cannot be stored: ", e.what()));
  }
}

bool LabelsFromJson(absl::string_view json, std::map<std::string, std::string>* labels) {
  const Json object = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return false;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) return false;
    (*labels)[key] = value.get<std::string>();
  }
  return true;
}

// SQLite checks the structure of its pages but not the bytes of a row.
std::string SummaryChecksum(const ContextRecord& record, absl::string_view labels) {
  std::string text;
  for (const absl::string_view field :
       {absl::string_view(record.tenant), absl::string_view(record.name),
        absl::string_view(record.model), absl::string_view(record.digest),
        absl::string_view(record.target), absl::string_view(record.details.description), labels}) {
    absl::StrAppend(&text, field.size(), ":", field);
  }
  for (const int64_t number :
       {record.rows, record.feature_count, record.dataset_bytes, record.clipped_targets,
        StoredTime(record.created), StoredTime(record.updated), StoredTime(record.last_used),
        StoredTime(record.details.expires)}) {
    absl::StrAppend(&text, number, ":");
  }
  // Rows of version 2, which have no memory sets, keep their checksums.
  if (record.memory != MemorySet()) {
    absl::StrAppend(&text, record.memory.rows, ":", static_cast<int64_t>(record.memory.policy));
  }
  // So do rows of version 3, in which no rows are appended.
  if (record.appended_rows != 0) absl::StrAppend(&text, "+", record.appended_rows);
  return ContentDigest(text);
}

}  // namespace

const char kSummarySchema[] = R"sql(
  CREATE TABLE summaries (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    model TEXT NOT NULL,
    digest TEXT NOT NULL,
    target TEXT NOT NULL,
    rows INTEGER NOT NULL,
    features INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    clipped_targets INTEGER NOT NULL,
    created_ns INTEGER NOT NULL,    -- all times: since the Unix epoch
    updated_ns INTEGER NOT NULL,
    last_used_ns INTEGER NOT NULL,  -- the least integer: unknown
    expires_ns INTEGER NOT NULL,    -- the greatest integer: never
    description TEXT NOT NULL,
    labels TEXT NOT NULL,           -- JSON
    checksum TEXT NOT NULL,         -- SummaryChecksum
    memory_rows INTEGER NOT NULL DEFAULT 0,    -- 0: no memory set
    memory_policy INTEGER NOT NULL DEFAULT 1,  -- MemoryPolicy
    appended_rows INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, name),
    FOREIGN KEY (tenant, name) REFERENCES contexts (tenant, name) ON DELETE CASCADE
  ) STRICT;
  CREATE INDEX summaries_by_expiry ON summaries (expires_ns);
)sql";

const char kAddMemoryColumns[] = R"sql(
  ALTER TABLE summaries ADD COLUMN memory_rows INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE summaries ADD COLUMN memory_policy INTEGER NOT NULL DEFAULT 1;
)sql";

const char kAddAppendedRows[] = R"sql(
  ALTER TABLE summaries ADD COLUMN appended_rows INTEGER NOT NULL DEFAULT 0;
)sql";

const char kSummaryColumns[] =
    " summaries.tenant, summaries.name, summaries.model, summaries.digest, summaries.target,"
    " summaries.rows, summaries.features, summaries.bytes, summaries.clipped_targets,"
    " summaries.created_ns, summaries.updated_ns, summaries.last_used_ns, summaries.expires_ns,"
    " summaries.description, summaries.labels, summaries.checksum, summaries.memory_rows,"
    " summaries.memory_policy, summaries.appended_rows ";

int64_t StoredTime(absl::Time time) {
  if (time == absl::InfiniteFuture()) return kNever;
  if (time == absl::InfinitePast()) return kUnknown;
  return std::clamp(absl::ToUnixNanos(time), kUnknown + 1, kNever - 1);
}

int64_t SummaryRow::bytes() const {
  // For the numbers, and for the parts that a message adds to names: "contexts/", tags, lengths.
  constexpr size_t kOthers = 256;
  return static_cast<int64_t>(record.name.size() + record.model.size() + record.digest.size() +
                              record.target.size() + record.details.description.size() +
                              labels.size() + checksum.size() + kOthers);
}

SummaryRow CopySummary(const SqliteStatement& row, int first) {
  SummaryRow summary;
  ContextRecord& record = summary.record;
  record.tenant = row.Text(first);
  record.name = row.Text(first + 1);
  record.model = row.Text(first + 2);
  record.digest = row.Text(first + 3);
  record.target = row.Text(first + 4);
  record.rows = row.Integer(first + 5);
  record.feature_count = row.Integer(first + 6);
  record.dataset_bytes = row.Integer(first + 7);
  record.clipped_targets = row.Integer(first + 8);
  record.created = FromNanos(row.Integer(first + 9));
  record.updated = FromNanos(row.Integer(first + 10));
  record.last_used = FromNanos(row.Integer(first + 11));
  record.details.expires = FromNanos(row.Integer(first + 12));
  record.details.description = row.Text(first + 13);
  summary.labels = row.Text(first + 14);
  summary.checksum = row.Text(first + 15);
  record.memory = {.rows = row.Integer(first + 16),
                   .policy = static_cast<MemoryPolicy>(row.Integer(first + 17))};
  record.appended_rows = row.Integer(first + 18);
  return summary;
}

absl::StatusOr<ContextRecord> ParseSummary(SummaryRow row) {
  if (row.checksum != SummaryChecksum(row.record, row.labels)) {
    return absl::DataLossError("the summary does not match its checksum");
  }
  if (!LabelsFromJson(row.labels, &row.record.details.labels)) {
    return absl::DataLossError("the labels are damaged");
  }
  return std::move(row.record);
}

absl::Status WriteSummary(SqliteConnection& connection, const ContextRecord& record) {
  ASSIGN_OR_RETURN(const std::string labels, LabelsToJson(record.details.labels));
  SqliteStatement statement(
      connection,
      "INSERT OR REPLACE INTO summaries (tenant, name, model, digest, target, rows, features, "
      "bytes,"
      " clipped_targets, created_ns, updated_ns, last_used_ns, expires_ns, description, labels,"
      " checksum, memory_rows, memory_policy, appended_rows)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  statement.Bind(record.tenant);
  statement.Bind(record.name);
  statement.Bind(record.model);
  statement.Bind(record.digest);
  statement.Bind(record.target);
  statement.Bind(record.rows);
  statement.Bind(record.feature_count);
  statement.Bind(record.dataset_bytes);
  statement.Bind(record.clipped_targets);
  statement.Bind(StoredTime(record.created));
  statement.Bind(StoredTime(record.updated));
  statement.Bind(StoredTime(record.last_used));
  statement.Bind(StoredTime(record.details.expires));
  statement.Bind(record.details.description);
  statement.Bind(labels);
  statement.Bind(SummaryChecksum(record, labels));
  statement.Bind(record.memory.rows);
  statement.Bind(static_cast<int64_t>(record.memory.policy));
  statement.Bind(record.appended_rows);
  return statement.Run();
}

}  // namespace chorale
