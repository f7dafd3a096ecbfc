// Calls of a simulation as their clients see them, and what is drawn for them.
#ifndef CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_CALL_H_
#define CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_CALL_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "engine/api/call.h"
#include "engine/api/call_report.h"
#include "engine/session/call_control.h"
#include "gtest/gtest.h"

namespace chorale::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // From 0 to n - 1.
  int64_t Below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  bool Percent(int64_t percent) { return Below(100) < percent; }
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[Below(static_cast<int64_t>(values.size()))];
  }
  absl::Duration UpTo(absl::Duration most) {
    return absl::Microseconds(Below(absl::ToInt64Microseconds(most) + 1));
  }

 private:
  std::mt19937_64 engine_;
};

// A call, as its client sees it.
struct SimulatedCall {
  std::string what;
  absl::Time arrival;
  absl::Time deadline = absl::InfiniteFuture();
  absl::Time cancelled = absl::InfiniteFuture();
  absl::Time displaced = absl::InfiniteFuture();  // from the queue, by another call
  std::shared_ptr<CallControl> control;
  int ends = 0;
  absl::Time end;
  absl::Status status;
  CallReport report;

  // Of a Sample.
  int64_t paths = 0;
  int64_t query_rows = 0;
  uint64_t random_key = 0;
  std::vector<std::vector<double>> values;  // [path][step], in the order of their arrival
  std::function<void(int64_t values)> on_values;
  std::function<void(const SimulatedCall&)> on_end;
};

class SimulatedObserver : public SampleObserver {
 public:
  SimulatedObserver(std::shared_ptr<SimulatedCall> call, const Clock* clock)
      : call_(std::move(call)), clock_(clock) {}
  void OnBlock(SampleBlock block) override {
    EXPECT_EQ(call_->ends, 0) << "a block after the end";
    for (int64_t path = 0; path < block.paths; ++path) {
      std::vector<double>& values = call_->values.at(block.first_path + path);
      EXPECT_EQ(block.first_step, static_cast<int64_t>(values.size()));
      const auto first = block.values.begin() + path * block.steps;
      values.insert(values.end(), first, first + block.steps);
    }
    call_->on_values(block.paths * block.steps);
  }
  void OnDone(const absl::Status& status, const SampleSummary& /*summary*/) override {
    ++call_->ends;
    call_->status = status;
    call_->end = clock_->Now();
    if (call_->on_end) call_->on_end(*call_);
  }

 private:
  const std::shared_ptr<SimulatedCall> call_;
  const Clock* const clock_;
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_CALL_H_
