#include "engine/store/context_row.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/column_info_json.h"

namespace chorale {

const char kSelectContexts[] =
    "SELECT tenant, name, model, digest, target, columns, rows, created_ns, bytes,"
    " checksum FROM contexts JOIN datasets USING (tenant, digest) ";

std::string ContextChecksum(const ContextRecord& record, absl::string_view columns) {
  std::string text;
  for (const absl::string_view field :
       {absl::string_view(record.tenant), absl::string_view(record.name),
        absl::string_view(record.model), absl::string_view(record.digest),
        absl::string_view(record.target), columns}) {
    absl::StrAppend(&text, field.size(), ":", field);
  }
  absl::StrAppend(&text, record.rows, ":", record.dataset_bytes, ":",
                  absl::ToUnixNanos(record.created));
  return ContentDigest(text);
}

StoredContext CopyContext(const SqliteStatement& row) {
  StoredContext stored;
  ContextRecord& record = stored.record;
  record.tenant = row.Text(0);
  record.name = row.Text(1);
  record.model = row.Text(2);
  record.digest = row.Text(3);
  record.target = row.Text(4);
  stored.json = row.Text(5);
  record.rows = row.Integer(6);
  record.created = absl::FromUnixNanos(row.Integer(7));
  record.dataset_bytes = row.Integer(8);
  stored.checksum = row.Text(9);
  return stored;
}

int64_t StoredContext::bytes() const {
  return static_cast<int64_t>(json.size() + checksum.size()) + summary.bytes();
}

absl::StatusOr<ContextRecord> ParseContext(StoredContext stored, const std::string& path) {
  ContextRecord& record = stored.record;
  absl::Status status = ColumnsFromJson(stored.json, &record);
  if (status.ok() && stored.checksum != ContextChecksum(record, stored.json)) {
    status = absl::DataLossError("does not match its checksum");
  }
  absl::StatusOr<ContextRecord> summary = ParseSummary(std::move(stored.summary));
  status.Update(summary.status());
  if (status.ok() && summary->digest != record.digest) {
    status = absl::DataLossError("has the summary of other content");
  }
  if (!status.ok()) return DamagedContext(path, record.name, status);
  record.feature_count = static_cast<int64_t>(record.columns.size());
  record.appended_rows = summary->appended_rows;
  record.memory = summary->memory;
  record.details = std::move(summary->details);
  record.updated = summary->updated;
  record.last_used = summary->last_used;
  return std::move(record);
}

absl::Status DamagedContext(const std::string& path, const std::string& name,
                            const absl::Status& damage) {
  return absl::DataLossError(
      absl::StrCat(path, ": the record of context ", QuoteName(name), ": ", damage.message()));
}

}  // namespace chorale
