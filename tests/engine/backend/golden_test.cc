// The golden models through the CPU backend: every quantity against values that were computed in
// float64 by another implementation.
#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cpu/encode.h"
#include "engine/backend/cpu/forward.h"
#include "engine/backend/cpu/model.h"
#include "gtest/gtest.h"
#include "kernels/cpu/target.h"
#include "kernels/ops/panel_layout.h"
#include "tests/engine/backend/backend_driver.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/golden_case.h"
#include "tests/engine/backend/path_arrays.h"

namespace chorale {
namespace {

constexpr double kTolerance = 1e-4;  // absolute, every element

// With each model, on each instruction set that this machine has.
class GoldenTest : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  static std::string Label() { return std::get<0>(GetParam()) + " " + std::get<1>(GetParam()); }

  void TearDown() override { kernels::ForceSimdTargetForTest(""); }
  void SetUp() override { ASSERT_TRUE(kernels::ForceSimdTargetForTest(std::get<1>(GetParam()))); }

  template <typename T>
  void Compare(const std::string& name, const std::vector<T>& actual) {
    const std::vector<double> expected = golden_.Expected(name);
    const Worst worst =
        ExpectClose(name, absl::MakeConstSpan(actual), absl::MakeConstSpan(expected), kTolerance);
    std::cout << Label() << " " << name << ": worst absolute error " << worst << "\n";
  }

  void Start() {
    driver_ = std::make_unique<BackendDriver>(BackendDriver::Cpu(2));
    context_ = driver_->Encode(driver_->AddModel(golden_.model()), golden_.x_context(),
                               golden_.y_context());
    rows_ = driver_->EncodeRows(context_, golden_.x_target());
  }

  TileSpec Tile() const { return golden_.Tile(context_, rows_); }

  // [T, paths] as the golden files have it, [paths, T].
  std::vector<double> ByPath(absl::Span<const double> results) const {
    return Transposed(std::vector<double>(results.begin(), results.end()), targets_, paths_);
  }

  const GoldenCase golden_{std::get<0>(GetParam())};
  const int64_t paths_ = golden_.paths();
  const int64_t targets_ = golden_.targets();

  std::unique_ptr<BackendDriver> driver_;
  std::shared_ptr<const ResidentContext> context_;
  std::shared_ptr<const EncodedRows> rows_;
};

TEST_P(GoldenTest, ContextKeysAndValues) {
  const auto packed = std::make_shared<const cpu::PackedModel>(golden_.model());
  const ModelConfig& config = golden_.model().config;
  const int64_t n = golden_.x_context().rows;
  const int64_t width = config.head_dim();
  const PoolRange range = {.offset = 0, .bytes = cpu::ContextKvBytes(config, n)};
  AlignedBuffer memory(range.bytes / sizeof(float));
  cpu::EncodeWork work(packed, golden_.x_context(), golden_.y_context(), range, memory.data(), 1);
  cpu::Scratch scratch;
  scratch.Reserve(config);
  while (!work.done()) {
    const int64_t tasks = work.BeginBatch(3, 1);
    for (int64_t task = 0; task < tasks; ++task) work.RunTask(task, scratch);
    work.EndBatch();
  }

  const KvShape shape = LayerKvShape(config);
  const KvView<float> first = shape.At(memory.data(), n);
  const KvView<float> last = shape.At(memory.data() + (config.n_layers - 1) * shape.Elements(n), n);
  std::vector<float> keys, values;  // [H, N, Dh]
  for (int64_t h = 0; h < config.n_kv_heads; ++h) {
    const float* head = first.keys + h * kernels::PackedKeysSize(n, width);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t d = 0; d < width; ++d) {
        keys.push_back(
            head[((i / kernels::kPanel) * width + d) * kernels::kPanel + i % kernels::kPanel]);
        values.push_back(last.values[(h * n + i) * width + d]);
      }
    }
  }
  Compare("k_context_first", keys);
  Compare("v_context_last", values);
}

TEST_P(GoldenTest, PointPredictions) {
  Start();
  const std::unique_ptr<PredictWork> work = driver_->NewPredict(context_, rows_, 0, targets_);
  driver_->Run(work.get());
  MixtureLists mixtures;
  for (int64_t row = 0; row < targets_; ++row) mixtures.Add(work->mixture(row));
  Compare("point_mean", mixtures.mean);
  Compare("point_std", mixtures.std);
  Compare("point_weight", mixtures.weight);
}

TEST_P(GoldenTest, TeacherForcedDensity) {
  Start();
  const std::unique_ptr<DensityWork> work = driver_->NewDensity(Tile(), golden_.y_target());
  driver_->Run(work.get());
  MixtureLists mixtures;
  for (int64_t path = 0; path < paths_; ++path) {
    for (int64_t t = 0; t < targets_; ++t) mixtures.Add(work->mixture(path, t));
  }
  Compare("mean", mixtures.mean);
  Compare("std", mixtures.std);
  Compare("weight", mixtures.weight);
  Compare("log_density", ByPath(work->log_densities()));
}

TEST_P(GoldenTest, StepwiseDensity) {
  Start();
  const std::unique_ptr<DecodeWork> work = driver_->NewDecode(Tile(), 0, 0, golden_.y_target());
  driver_->Run(work.get(), 3);
  MixtureLists mixtures;
  for (int64_t path = 0; path < paths_; ++path) {
    for (int64_t t = 0; t < targets_; ++t) mixtures.Add(work->mixture(path, t));
  }
  Compare("mean", mixtures.mean);
  Compare("std", mixtures.std);
  Compare("weight", mixtures.weight);
  Compare("step_log_density", ByPath(work->log_densities()));
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest,
                         testing::Combine(testing::Values("golden_tiny", "golden_base"),
                                          testing::ValuesIn(kernels::SimdTargetNames())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace chorale
