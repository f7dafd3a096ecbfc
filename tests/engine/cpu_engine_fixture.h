// An engine over the real CPU backend with the context "c", and calls that wait for their results.
#ifndef CHORALE_TESTS_ENGINE_CPU_ENGINE_FIXTURE_H_
#define CHORALE_TESTS_ENGINE_CPU_ENGINE_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine/api/engine.h"
#include "engine/backend/cpu/backend.h"
#include "gtest/gtest.h"
#include "tests/engine/backend/test_model.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/fake_store.h"

namespace chorale::testing {

// Parameter: the row encoder.
class CpuEngineFixture : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr char kTenant[] = "tenant";

  CpuEngineFixture() {
    const Model model = MakeTestModel({.row_encoder = GetParam(),
                                       .normalize_x = Normalization::kZScore,
                                       .normalize_y = Normalization::kZScore});
    engine_ = Engine::Create({}, cpu::NewBackend({2, 64 << 20, 16 << 20}).value(),
                             std::make_unique<FakeStore>(&store_), {model}, &metrics_)
                  .value();
    EXPECT_TRUE(engine_->Register(kTenant, "c", "", MakeDataset(40)).ok());
  }

  template <typename Request>
  Request MakeRequest(int64_t query_rows = 5) const {
    Request request;
    request.context = "c";
    request.query_rows = MakeTargets(query_rows);
    return request;
  }
  LogDensityResult LogDensity(const LogDensityRequest& request) {
    Answer<LogDensityResult> answer;
    engine_->LogDensity({.tenant = kTenant}, request, answer.callback());
    return answer.Wait().value();
  }
  PredictResult Predict(const PredictRequest& request) {
    Answer<PredictResult> answer;
    engine_->Predict({.tenant = kTenant}, request, answer.callback());
    return answer.Wait().value();
  }
  std::shared_ptr<SampleRecorder> Sample(const SampleRequest& request) {
    auto recorder = std::make_shared<SampleRecorder>();
    engine_->Sample({.tenant = kTenant}, request, recorder);
    EXPECT_EQ(recorder->Wait(), absl::OkStatus());
    return recorder;
  }

  FakeStoreLog store_;
  RecordingMetrics metrics_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_CPU_ENGINE_FIXTURE_H_
