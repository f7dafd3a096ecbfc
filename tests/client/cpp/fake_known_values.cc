#include "tests/client/cpp/fake_known_values.h"

#include <algorithm>

namespace chorale::client {

FakeKnownValues::FakeKnownValues(const v1::KnownValues& known, int64_t rows) : known_(known) {
  for (int64_t row = 0; row < rows; ++row) {
    if (std::count(known.rows().begin(), known.rows().end(), row) == 0) others_.push_back(row);
  }
}

double FakeKnownValues::Shift(int64_t vector) const {
  const int64_t rows = known_.rows_size();
  const int64_t begin = known_.values_size() == rows ? 0 : vector * rows;
  double shift = 0.0;
  for (int64_t i = begin; i < begin + rows; ++i) shift += known_.values(static_cast<int>(i));
  return shift;
}

void FakeKnownValues::AddLogDensities(google::protobuf::RepeatedField<double>* out) const {
  if (known_.rows().empty()) return;
  const int64_t vectors = known_.values_size() / known_.rows_size();
  for (int64_t vector = 0; vector < vectors; ++vector) out->Add(-Shift(vector));
}

}  // namespace chorale::client
