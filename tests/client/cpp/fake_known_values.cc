#include "tests/client/cpp/fake_known_values.h"

#include <algorithm>

namespace chorale::client {

FakeKnownValues::FakeKnownValues(const v1::KnownValues& known, int64_t first_row, int64_t row_count)
    : known_(known) {
  for (int64_t row = first_row; row < first_row + row_count; ++row) {
    if (std::count(known.rows().begin(), known.rows().end(), row) == 0) others_.push_back(row);
  }
  for (int i = 0; i < known.rows_size(); ++i) {
    if (known.rows(i) >= first_row && known.rows(i) < first_row + row_count) own_.push_back(i);
  }
}

double FakeKnownValues::Shift(int64_t vector) const {
  const int64_t rows = known_.rows_size();
  const int64_t begin = known_.values_size() == rows ? 0 : vector * rows;
  double shift = 0.0;
  for (const int i : own_) shift += known_.values(static_cast<int>(begin + i));
  return shift;
}

std::vector<FakeKnownValues> FakeGroups(const v1::KnownValues& known,
                                        const google::protobuf::RepeatedField<int32_t>& sizes,
                                        int64_t row_count) {
  std::vector<FakeKnownValues> groups;
  int64_t first = 0;
  for (const int32_t size : sizes) {
    groups.emplace_back(known, first, size);
    first += size;
  }
  if (sizes.empty()) groups.emplace_back(known, 0, row_count);
  return groups;
}

void AddKnownLogDensities(const v1::KnownValues& known, const std::vector<FakeKnownValues>& groups,
                          google::protobuf::RepeatedField<double>* out) {
  if (known.rows().empty()) return;
  const int64_t vectors = known.values_size() / known.rows_size();
  for (int64_t vector = 0; vector < vectors; ++vector) {
    for (const FakeKnownValues& group : groups) out->Add(-group.Shift(vector));
  }
}

}  // namespace chorale::client
