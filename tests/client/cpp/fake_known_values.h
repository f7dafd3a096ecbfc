// The groups and the known values of requests to the fake server.
#ifndef CHORALE_TESTS_CLIENT_CPP_FAKE_KNOWN_VALUES_H_
#define CHORALE_TESTS_CLIENT_CPP_FAKE_KNOWN_VALUES_H_

#include <cstdint>
#include <vector>

#include "chorale/v1/chorale.pb.h"

namespace chorale::client {

// A valid message, read without the code under test: the known values of the rows of a group.
class FakeKnownValues {
 public:
  FakeKnownValues(const v1::KnownValues& known, int64_t first_row, int64_t row_count);

  // The rows of the group that the results belong to.
  const std::vector<int64_t>& others() const { return others_; }
  // The sum of the known values of a path or vector, which the fake adds to the scores of the
  // others.
  double Shift(int64_t vector) const;

 private:
  const v1::KnownValues& known_;
  std::vector<int> own_;  // indexes of known values
  std::vector<int64_t> others_;
};

// The groups of a request; a single group if `sizes` is empty.
std::vector<FakeKnownValues> FakeGroups(const v1::KnownValues& known,
                                        const google::protobuf::RepeatedField<int32_t>& sizes,
                                        int64_t row_count);

// Adds the fake's log-densities of the known values of each group: -shift.
void AddKnownLogDensities(const v1::KnownValues& known, const std::vector<FakeKnownValues>& groups,
                          google::protobuf::RepeatedField<double>* out);

}  // namespace chorale::client

#endif  // CHORALE_TESTS_CLIENT_CPP_FAKE_KNOWN_VALUES_H_
