// A call of a simulation, as its client sees it.
#ifndef CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_CALL_H_
#define CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_CALL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "engine/api/call.h"
#include "engine/api/call_report.h"
#include "gtest/gtest.h"
#include "tests/engine/fake_backend.h"

namespace chorale::testing {

struct SimulatedCall {
  std::string what;
  std::string context;
  size_t first_version = 0;  // of the context, that may answer
  absl::Time arrival;
  absl::Time deadline = absl::InfiniteFuture();
  absl::Time cancelled = absl::InfiniteFuture();
  std::shared_ptr<Call> handle;
  int ends = 0;
  absl::Time end;
  absl::Status status;
  CallReport report;
  std::string digest;  // of the context that answered
  int64_t query_rows = 0;
  int64_t paths = 0;  // or vectors

  // Of a Sample.
  uint64_t seed = 0;
  int64_t first_path = 0;
  bool whole_paths = false;
  bool want_log_densities = false;
  std::vector<std::vector<double>> values;  // [path][step], in the order of their arrival
  int64_t outstanding = 0;                  // values that are not acknowledged
  absl::Time progressed;                    // when values arrived, or were acknowledged

  void End(const absl::Status& ended, absl::Time now) {
    ++ends;
    status = ended;
    end = now;
  }
};

class SimulatedObserver : public SampleObserver {
 public:
  using OnValues = std::function<void(int64_t values)>;

  // `on_values` is called for each block, and `on_end`, if there is one, at the end. `clock` is not
  // owned.
  SimulatedObserver(std::shared_ptr<SimulatedCall> call, const Clock* clock, OnValues on_values,
                    std::function<void()> on_end = {})
      : call_(std::move(call)),
        clock_(clock),
        on_values_(std::move(on_values)),
        on_end_(std::move(on_end)) {}

  void OnBlock(SampleBlock block) override {
    EXPECT_EQ(call_->ends, 0) << "a block after the end";
    for (int64_t path = 0; path < block.paths; ++path) {
      std::vector<double>& values = call_->values.at(block.first_path - call_->first_path + path);
      EXPECT_EQ(block.first_step, static_cast<int64_t>(values.size()));
      if (call_->whole_paths) EXPECT_EQ(block.steps, call_->query_rows);
      const auto first = block.values.begin() + path * block.steps;
      values.insert(values.end(), first, first + block.steps);
    }
    if (call_->want_log_densities) CheckLogDensities(block);
    on_values_(block.paths * block.steps);
  }
  void OnDone(const absl::Status& status, const SampleSummary& summary) override {
    call_->digest = summary.source.context_digest;
    call_->End(status, clock_->Now());
    if (on_end_) on_end_();
  }

 private:
  static void CheckLogDensities(const SampleBlock& block) {
    ASSERT_EQ(block.log_densities.size(), block.values.size());
    for (int64_t i = 0; i < block.paths * block.steps; ++i) {
      const int64_t step = block.first_step + i % block.steps;
      ASSERT_EQ(block.log_densities[i],
                FakeLogDensity(static_cast<float>(block.values[i]), step, step));
    }
  }

  const std::shared_ptr<SimulatedCall> call_;
  const Clock* const clock_;
  const OnValues on_values_;
  const std::function<void()> on_end_;
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_CALL_H_
