// An engine over the fake backend with the context "c", and calls that wait for their results.
#ifndef CHORALE_TESTS_ENGINE_ENGINE_CALLS_FIXTURE_H_
#define CHORALE_TESTS_ENGINE_ENGINE_CALLS_FIXTURE_H_

#include <cmath>
#include <cstdint>
#include <memory>

#include "engine/data/feature_transform.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {

class EngineCallsFixture : public EngineFixture {
 protected:
  EngineCallsFixture() {
    model_.config.normalize_y = Normalization::kZScore;
    options_.target_tick = EngineOptions().target_tick;
    options_.max_unacknowledged_values = 1 << 20;
    StartEngine();
    Register("c");
    transform_ = *FeatureTransform::Fit(MakeDataset(10), model_.config);
  }

  std::shared_ptr<SampleRecorder> Sample(const SampleRequest& request) {
    auto recorder = std::make_shared<SampleRecorder>();
    engine_->Sample(call_, request, recorder);
    EXPECT_EQ(recorder->Wait(), absl::OkStatus());
    return recorder;
  }
  LogDensityResult LogDensity(const LogDensityRequest& request) {
    Answer<LogDensityResult> answer;
    engine_->LogDensity(call_, request, answer.callback());
    return answer.Wait().value();
  }
  PredictResult Predict(const PredictRequest& request) {
    Answer<PredictResult> answer;
    engine_->Predict(call_, request, answer.callback());
    return answer.Wait().value();
  }

  // The log-density of a value at a position of a path, if the row is query row `row`.
  double LogDensityOf(double value, int64_t position, int64_t row) const {
    return FakeLogDensity(transform_.ToModel(value), position, row) - std::log(transform_.y_std());
  }

  FeatureTransform transform_;
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_ENGINE_CALLS_FIXTURE_H_
