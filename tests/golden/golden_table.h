// A real table with what the default model says of it, as tests/golden/make_default_model.py wrote
// it down: see README.md in this folder.
#ifndef CHORALE_TESTS_GOLDEN_GOLDEN_TABLE_H_
#define CHORALE_TESTS_GOLDEN_GOLDEN_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/table.h"
#include "engine/model/tensor_file.h"

namespace chorale {

// "penguins", "autos", "engel"
const std::vector<std::string>& GoldenTableNames();

// The folder of the model that the tables were made with.
std::string DefaultModelFolder();

// Immutable and thread-safe.
class GoldenTable {
 public:
  // FailedPrecondition, saying what to do, when the file was made with another model than the one
  // of that digest.
  static absl::StatusOr<GoldenTable> Open(const std::string& name, absl::string_view model_digest);

  const Dataset& context() const { return context_; }
  const Table& query_rows() const { return query_rows_; }
  // How much one unit of the model's y is in the user's units.
  double y_std() const { return y_std_; }

  // A tensor's values as they are in the file. REQUIRES: the file has it.
  std::vector<double> operator()(const std::string& tensor) const;

 private:
  explicit GoldenTable(TensorFile file);

  TensorFile file_;
  Dataset context_;
  Table query_rows_;
  double y_std_ = 1;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_GOLDEN_GOLDEN_TABLE_H_
