#include "tests/golden/golden_table.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/require.h"
#include "engine/data/column_statistics.h"
#include "tests/golden/source_folder.h"

namespace chorale {
namespace {

// The cells [rows, columns] as the columns that the file's metadata describe.
Table ToTable(const nlohmann::json& columns, const std::vector<double>& cells) {
  Table table;
  const size_t stride = columns.size();
  for (size_t f = 0; f < stride; ++f) {
    Column column;
    column.name = columns[f]["name"].get<std::string>();
    if (columns[f].contains("categories")) {
      column.type = ColumnType::kCategorical;
      column.categories = columns[f]["categories"].get<std::vector<std::string>>();
    }
    for (size_t at = f; at < cells.size(); at += stride) {
      if (column.type == ColumnType::kNumeric) {
        column.numbers.push_back(cells[at]);
      } else {
        column.codes.push_back(std::isnan(cells[at]) ? kMissingCode
                                                     : static_cast<int32_t>(cells[at]));
      }
    }
    table.columns.push_back(std::move(column));
  }
  return table;
}

}  // namespace

const std::vector<std::string>& GoldenTableNames() {
  static const auto* const kNames = new std::vector<std::string>{"penguins", "autos", "engel"};
  return *kNames;
}

std::string DefaultModelFolder() { return SourceFolder() + "/models/default"; }

absl::StatusOr<GoldenTable> GoldenTable::Open(const std::string& name,
                                              absl::string_view model_digest) {
  const std::string path =
      absl::StrCat(SourceFolder(), "/tests/golden/default_model/", name, ".safetensors");
  absl::StatusOr<TensorFile> file = TensorFile::Open(path);
  if (!file.ok()) return file.status();
  for (const char* key : {"columns", "target_column"}) {
    if (file->metadata().find(key) == file->metadata().end()) {
      return absl::DataLossError(absl::StrCat(path, ": no ", key, " in the metadata"));
    }
  }
  const auto digest = file->metadata().find("model_digest");
  if (digest == file->metadata().end() || digest->second != model_digest) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " was made with other weights than those of models/default: run ",
                     "build/python/bin/python tests/golden/make_default_model.py"));
  }
  return GoldenTable(*std::move(file));
}

GoldenTable::GoldenTable(TensorFile file) : file_(std::move(file)) {
  const auto columns = nlohmann::json::parse(file_.metadata().find("columns")->second);
  context_ = {.features = ToTable(columns, (*this)("context_x")),
              .target = file_.metadata().find("target_column")->second,
              .y = (*this)("context_y")};
  query_rows_ = ToTable(columns, (*this)("target_x"));
  y_std_ = ComputeStatistics(context_.y).std;
}

std::vector<double> GoldenTable::operator()(const std::string& tensor) const {
  const absl::StatusOr<TensorView> view = file_.Find(tensor);
  Require(view.ok(), "the golden file has the tensor");
  return ReadFloat64(*view);
}

}  // namespace chorale
