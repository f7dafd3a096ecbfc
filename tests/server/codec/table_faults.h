// Faults of the tables in requests, for tests.
#ifndef CHORALE_TESTS_SERVER_CODEC_TABLE_FAULTS_H_
#define CHORALE_TESTS_SERVER_CODEC_TABLE_FAULTS_H_

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/error_details.h"
#include "chorale/v1/chorale.pb.h"

namespace chorale {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // From `low` to `high`, inclusive.
  int Between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }

 private:
  std::mt19937_64 engine_;
};

// Where a fault was made, and what the error must name.
struct Expected {
  std::string field;
  ErrorReason reason = ErrorReason::kInvalidField;
};

// A valid table: a column of each form, the first of which is a target.
v1::Table ValidTable(int rows, Random* random);

// A fault spoils a valid table with `rows` rows.
using TableFault = std::function<Expected(int rows, Random* random, v1::Table* table)>;

// Faults of all tables; they exceed the limits of 12 rows and 24 bytes in a name.
std::vector<TableFault> TableFaults();
// Faults of registered tables: TableFaults, and those that only they can have. They also exceed
// the limit of 8 categories.
std::vector<TableFault> RegistrationFaults();

}  // namespace chorale

#endif  // CHORALE_TESTS_SERVER_CODEC_TABLE_FAULTS_H_
