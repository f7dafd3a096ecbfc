// The engine in virtual time: what must hold whatever happens.
//
// CHORALE_SIMULATION_SEED=N runs the scenario of one seed alone.
#include <cstdint>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/sanitized.h"
#include "gtest/gtest.h"
#include "spdlog/spdlog.h"
#include "tests/engine/simulation/scenario.h"
#include "tests/support/length.h"

namespace chorale::testing {
namespace {

int64_t Scenarios() {
  if (kSanitized) return FullLength() ? 200 : 20;
  return FullLength() ? 10'000 : 200;
}

// In ten parts, which can run in parallel.
class ScenariosTest : public ::testing::TestWithParam<int> {};

TEST_P(ScenariosTest, HoldWhateverHappens) {
  spdlog::set_level(spdlog::level::off);
  const char* const one = std::getenv("CHORALE_SIMULATION_SEED");
  if (one != nullptr && GetParam() > 0) GTEST_SKIP() << "CHORALE_SIMULATION_SEED is set";
  const int64_t scenarios = one != nullptr ? 1 : Scenarios() / 10;
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : GetParam() * scenarios;
  for (int64_t i = 0; i < scenarios && !HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("CHORALE_SIMULATION_SEED=", first + i));
    RunScenario(first + i);
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, ScenariosTest, ::testing::Range(0, 10));

}  // namespace
}  // namespace chorale::testing
