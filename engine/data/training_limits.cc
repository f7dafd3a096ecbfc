#include "engine/data/training_limits.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace chorale {

ColumnNote TrainingNote(int64_t rows, int64_t features, const ModelConfig& config) {
  std::vector<std::string> sizes;
  std::vector<std::string> limits;
  const auto compare = [&](int64_t size, int64_t limit, const char* unit) {
    if (limit == 0 || size <= limit) return;
    sizes.push_back(absl::StrCat(size, " ", unit));
    limits.push_back(absl::StrCat(limit, " ", unit));
  };
  compare(rows, config.trained_rows, "rows");
  compare(features, config.trained_features, "features");
  ColumnNote note;
  if (sizes.empty()) return note;
  note.beyond_training =
      absl::StrCat("the context has ", absl::StrJoin(sizes, " and "),
                   "; the model was trained on tables of at most ", absl::StrJoin(limits, " and "),
                   ", so results may be less accurate");
  return note;
}

}  // namespace chorale
