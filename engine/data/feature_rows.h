// Some rows of a matrix of features.
#ifndef CHORALE_ENGINE_DATA_FEATURE_ROWS_H_
#define CHORALE_ENGINE_DATA_FEATURE_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/data/feature_transform.h"

namespace chorale {

// The rows of `all` with these indices, in the order of the indices, with the marks of their
// missing cells and of categorical columns.
inline FeatureMatrix SelectRows(const FeatureMatrix& all, absl::Span<const int32_t> rows) {
  const auto select = [&](const auto& from, auto* to) {
    to->reserve(rows.size() * all.features);
    for (const int32_t row : rows) {
      const auto first = from.begin() + row * all.features;
      to->insert(to->end(), first, first + all.features);
    }
  };
  FeatureMatrix selected = {.rows = static_cast<int64_t>(rows.size()), .features = all.features};
  select(all.x, &selected.x);
  if (!all.missing.empty()) select(all.missing, &selected.missing);
  selected.categorical = all.categorical;
  return selected;
}

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_FEATURE_ROWS_H_
