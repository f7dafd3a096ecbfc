// Rows to append to the contexts of tests.
#ifndef CHORALE_TESTS_ENGINE_APPENDED_ROWS_H_
#define CHORALE_TESTS_ENGINE_APPENDED_ROWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/table.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {

// The rows of a dataset as a table to append.
inline Table RowsOf(const Dataset& dataset) {
  Table rows = dataset.features;
  rows.columns.push_back({.name = dataset.target,
                          .type = ColumnType::kNumeric,
                          .numbers = dataset.y,
                          .categories = {},
                          .codes = {}});
  return rows;
}

inline Table NewRows(int64_t rows, uint64_t seed) { return RowsOf(MakeDataset(rows, seed)); }

// The rows of both, without appends.
inline Dataset Joined(Dataset first, const Dataset& second) {
  for (size_t i = 0; i < first.features.columns.size(); ++i) {
    std::vector<double>& numbers = first.features.columns[i].numbers;
    const std::vector<double>& more = second.features.columns[i].numbers;
    numbers.insert(numbers.end(), more.begin(), more.end());
  }
  first.y.insert(first.y.end(), second.y.begin(), second.y.end());
  return first;
}

// An engine whose contexts get more rows.
class AppendFixture : public EngineFixture {
 protected:
  absl::StatusOr<AppendOutcome> Append(const AppendRequest& request, const Table& rows) {
    return engine_->Append(kTenant, request, rows, StoreQuota());
  }
  AppendOutcome MustAppend(const std::string& name, int64_t rows, uint64_t seed) {
    const auto outcome = Append({.context = name}, NewRows(rows, seed));
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? *outcome : AppendOutcome();
  }
  ContextRecord Record(const std::string& name) {
    return engine_->GetContext(kTenant, name)->record;
  }
  // The digest of the content that answers a call.
  std::string Answering(const std::string& name) {
    auto recorder = std::make_shared<SampleRecorder>();
    engine_->Sample(call_, SampleOf(name, 1, 1), recorder);
    const absl::Status status = recorder->Wait();
    EXPECT_TRUE(status.ok()) << status;
    return recorder->summary().source.context_digest;
  }
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_APPENDED_ROWS_H_
