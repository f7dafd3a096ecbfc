// The keys and values of a context that the CPU backend computes for the golden models, on each
// instruction set.
#include "engine/backend/cpu/encode.h"

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/backend/cpu/context_layout.h"
#include "engine/backend/cpu/forward.h"
#include "engine/backend/cpu/model.h"
#include "gtest/gtest.h"
#include "kernels/cpu/target.h"
#include "kernels/ops/panel_layout.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/golden_case.h"

namespace chorale {
namespace {

constexpr double kTolerance = 1e-4;  // absolute, every element

class CpuEncodeTest : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override { ASSERT_TRUE(kernels::ForceSimdTargetForTest(std::get<1>(GetParam()))); }
  void TearDown() override { kernels::ForceSimdTargetForTest(""); }
};

TEST_P(CpuEncodeTest, ContextKeysAndValues) {
  const GoldenCase golden(std::get<0>(GetParam()));
  const auto packed = std::make_shared<const cpu::PackedModel>(golden.model());
  const ModelConfig& config = golden.model().config;
  const int64_t n = golden.x_context().rows;
  const int64_t width = config.head_dim();
  const cpu::ContextLayout layout(config, {.rows = n});
  AlignedBuffer memory(layout.bytes() / sizeof(float));
  cpu::EncodeWork work({.model = packed,
                        .features = golden.x_context(),
                        .y = golden.y_context(),
                        .kv = {.offset = 0, .bytes = layout.bytes()}},
                       memory.data(), 1);
  cpu::Scratch scratch;
  scratch.Reserve(config);
  while (!work.done()) {
    const int64_t tasks = work.BeginBatch(3, 1);
    for (int64_t task = 0; task < tasks; ++task) work.RunTask(task, scratch);
    work.EndBatch();
  }

  const KvView<float> first = layout.Layer(memory.data(), 0).kv;
  const KvView<float> last = layout.Layer(memory.data(), config.n_layers - 1).kv;
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
  for (const auto& [tensor, actual] :
       {std::pair("k_context_first", &keys), std::pair("v_context_last", &values)}) {
    const std::vector<double> expected = golden.Expected(tensor);
    ExpectClose(tensor, absl::MakeConstSpan(*actual), absl::MakeConstSpan(expected), kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CpuEncodeTest,
                         testing::Combine(testing::Values("golden_tiny", "golden_base"),
                                          testing::ValuesIn(kernels::SimdTargetNames())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace chorale
