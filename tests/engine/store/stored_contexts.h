// Contexts of a store whose folder is recorded or hooked (recorded_disk.h), and changes of them.
#ifndef CHORALE_TESTS_ENGINE_STORE_STORED_CONTEXTS_H_
#define CHORALE_TESTS_ENGINE_STORE_STORED_CONTEXTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/data/append_rows.h"
#include "engine/data/column_validation.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/context_store.h"
#include "engine/store/sqlite_connection.h"
#include "gtest/gtest.h"
#include "tests/engine/store/make_record.h"
#include "tests/support/temp_folder.h"

namespace chorale {

inline constexpr char kTenant[] = "t";

struct Stored {
  std::string dataset;
  std::string description;
  MemorySet memory;
  int64_t appended_rows = 0;
  bool operator==(const Stored&) const = default;
};
using Contexts = std::map<std::string, Stored>;  // by name

// The store is below a recorded folder, which is on the disk from the beginning.
inline std::string StoreIn(const std::string& folder) {
  return absl::StrCat(folder, "/data/store");
}

inline std::unique_ptr<ContextStore> Open(const std::string& folder) {
  absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(StoreIn(folder));
  if (!store.ok()) {
    ADD_FAILURE() << store.status();
    return nullptr;
  }
  return *std::move(store);
}

// A dataset that takes more than one write.
inline std::string DatasetOf(const std::string& content) {
  std::string dataset = content;
  while (dataset.size() < 10'000) dataset += content;
  return dataset;
}

// Names that begin with "reduced" have a memory set.
inline ContextRecord RecordOf(const std::string& name, const std::string& dataset) {
  ContextRecord record = MakeRecord(kTenant, name, dataset);
  if (name.find("reduced") == 0) record.memory = {.rows = 64, .policy = MemoryPolicy::kSample};
  return record;
}

inline absl::Status Put(ContextStore& store, const std::string& name, const std::string& dataset) {
  return store.Put(RecordOf(name, dataset), dataset).status();
}

inline Stored StoredAs(const std::string& name, const std::string& dataset) {
  const ContextRecord record = RecordOf(name, dataset);
  return {dataset, record.details.description, record.memory, record.appended_rows};
}

// As a store of version 1 has them.
inline Contexts WithoutDescriptions(Contexts contexts) {
  for (auto& [name, stored] : contexts) stored.description.clear();
  return contexts;
}

inline absl::Status Replace(ContextStore& store, const std::string& name,
                            const std::string& dataset) {
  return store.Put(RecordOf(name, dataset), dataset, {}, Replacement()).status();
}

// Executes the statements for an earlier version (make_record.h) in a store that is closed and has
// nothing that this version lacks.
inline void MakeEarlier(const char* statements, const std::string& folder) {
  absl::StatusOr<std::unique_ptr<SqliteConnection>> database =
      SqliteConnection::Open(StoreIn(folder) + "/contexts.db");
  ASSERT_TRUE(database.ok()) << database.status();
  ASSERT_TRUE((*database)->Execute(statements).ok());
}

// The encoding of a table that takes more than one write.
inline std::string EncodedTable() {
  Dataset table;
  table.features.columns = {{.name = "x", .type = ColumnType::kNumeric}};
  table.target = std::string("y");
  for (int row = 0; row < 700; ++row) {
    table.features.columns[0].numbers.push_back(row);
    table.y.push_back(2 * row);
  }
  return EncodeDataset(table);
}

// The same with another row appended.
inline std::string WithARow(const std::string& dataset) {
  AppendedRows rows;
  rows.features.columns = {{.name = "x", .type = ColumnType::kNumeric, .numbers = {7}}};
  rows.y = {8};
  return EncodeDataset(AppendRows(DecodeDataset(dataset).value(), rows, NoLimits()).value());
}

// The same without appends.
inline std::string EncodedAnew(const std::string& dataset) {
  return EncodeDataset(WithoutAppends(DecodeDataset(dataset).value()));
}

using NewContent = std::string (*)(const std::string& dataset);

// Replaces the content of a context as the engine does after an append or an encoding: under the
// etag of the content that it began from.
inline absl::Status ChangeContent(ContextStore& store, const std::string& name, NewContent change) {
  absl::StatusOr<ContextRecord> record = store.Get(kTenant, name);
  const absl::StatusOr<std::string> dataset = store.ReadDataset(kTenant, name);
  if (!record.ok() || !dataset.ok()) return absl::InternalError("the context cannot be read");
  const Replacement replacement = {.etag = EtagOf(*record)};
  const std::string changed = change(*dataset);
  const Dataset table = DecodeDataset(changed).value();
  record->digest = ContentDigest(changed);
  record->dataset_bytes = static_cast<int64_t>(changed.size());
  record->rows = static_cast<int64_t>(table.y.size());
  record->appended_rows = AppendedRowCount(table);
  record->updated += absl::Seconds(1);
  return store.Put(*record, changed, {}, replacement).status();
}

// Changes what is expected as ChangeContent does.
inline void ChangeAlike(NewContent change, Stored* stored) {
  stored->dataset = change(stored->dataset);
  stored->appended_rows = AppendedRowCount(DecodeDataset(stored->dataset).value());
}

inline absl::Status Describe(ContextStore& store, const std::string& name,
                             const std::string& description) {
  return store.UpdateDetails(kTenant, name, {.description = description},
                             absl::FromUnixSeconds(1'800'000'000));
}

inline Contexts ReadAll(ContextStore& store) {
  Contexts contexts;
  const absl::StatusOr<ContextPage> page = store.List(kTenant, {1000}, "");
  EXPECT_TRUE(page.ok()) << page.status();
  if (!page.ok()) return contexts;
  for (const ContextRecord& record : page->records) {
    const absl::StatusOr<std::string> dataset = store.ReadDataset(kTenant, record.name);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    contexts[record.name] = {dataset.value_or(""), record.details.description, record.memory,
                             record.appended_rows};
  }
  return contexts;
}

inline size_t FilesOfDatasets(const std::string& folder) {
  return FilesBelow(StoreIn(folder) + "/datasets").size();
}

inline size_t DifferentDatasets(const Contexts& contexts) {
  std::map<std::string, int> datasets;
  for (const auto& [name, stored] : contexts) ++datasets[stored.dataset];
  return datasets.size();
}

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_STORE_STORED_CONTEXTS_H_
