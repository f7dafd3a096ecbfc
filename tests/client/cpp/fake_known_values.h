// The known values of requests to the fake server.
#ifndef CHORALE_TESTS_CLIENT_CPP_FAKE_KNOWN_VALUES_H_
#define CHORALE_TESTS_CLIENT_CPP_FAKE_KNOWN_VALUES_H_

#include <cstdint>
#include <vector>

#include "chorale/v1/chorale.pb.h"

namespace chorale::client {

// A valid message, read without the code under test.
class FakeKnownValues {
 public:
  FakeKnownValues(const v1::KnownValues& known, int64_t rows);

  // The rows that the results belong to.
  const std::vector<int64_t>& others() const { return others_; }
  // The sum of the known values of a path or vector, which the fake adds to the scores of the
  // others.
  double Shift(int64_t vector) const;
  // Adds the fake's log-densities of the known values: -shift.
  void AddLogDensities(google::protobuf::RepeatedField<double>* out) const;

 private:
  const v1::KnownValues& known_;
  std::vector<int64_t> others_;
};

}  // namespace chorale::client

#endif  // CHORALE_TESTS_CLIENT_CPP_FAKE_KNOWN_VALUES_H_
