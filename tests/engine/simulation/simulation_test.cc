// The engine in virtual time: what must hold whatever happens.
//
// CHORALE_SIMULATION_SEED=N runs the scenario of one seed alone, in each of the tests.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

// What names the scenario that runs, for a program that is aborted.
std::array<char, 64> running;

extern "C" void SayWhichRuns(int /*signal*/) {
  // What fails is not worth another word.
  [[maybe_unused]] const auto written =
      write(STDERR_FILENO, running.data(), std::strlen(running.data()));
}

// In ten parts, which can run in parallel.
class ScenariosTest : public ::testing::TestWithParam<int> {};

TEST_P(ScenariosTest, HoldWhateverHappens) {
  spdlog::set_level(spdlog::level::off);
  signal(SIGABRT, SayWhichRuns);
  int64_t scenarios = Scenarios() / 10;
  uint64_t first = GetParam() * scenarios;
  if (const char* const one = std::getenv("CHORALE_SIMULATION_SEED"); one != nullptr) {
    ASSERT_TRUE(absl::SimpleAtoi(one, &first)) << "CHORALE_SIMULATION_SEED is not a number";
    scenarios = 1;
  }
  for (int64_t i = 0; i < scenarios && !HasFailure(); ++i) {
    const std::string name = absl::StrCat("CHORALE_SIMULATION_SEED=", first + i);
    SCOPED_TRACE(name);
    absl::SNPrintF(running.data(), running.size(), "%s\n", name);
    RunScenario(first + i);
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, ScenariosTest, ::testing::Range(0, 10));

}  // namespace
}  // namespace chorale::testing
