// Attention of measuring rows, and the importance of keys, against the float64 references.
#include "kernels/cuda/memory_set/measuring_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/memory_set/key_importance.h"
#include "tests/kernels/cuda/attention_inputs.h"
#include "tests/kernels/cuda/memory_set/memory_problem.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

constexpr float kLog2E = std::numbers::log2e_v<float>;
constexpr float kLn2 = std::numbers::ln2_v<float>;

struct MeasuringCase {
  MemoryCase keys;
  int rows = 0;
  float score_deviation = 1;
  bool hides = true;
};

class MeasuringTest : public DeviceTest {
 protected:
  struct Measured {
    std::vector<float> out;            // [rows, H, Dh]
    std::vector<float> lse;            // [rows, H], in units of log 2
    std::vector<float> attended = {};  // [rows, H, Dh]
  };

  // Row strides of q leave a gap, as in the unfused form. Rows that are not there are NaN.
  void Begin(const MeasuringCase& of) {
    case_ = of;
    problem_.emplace(of.keys, 1);
    const ModelShape& shape = of.keys.shape;
    const float deviation =
        of.score_deviation * kLog2E / std::sqrt(static_cast<float>(shape.head_dim));
    q_ = Rounded(RandomTensor(int64_t{of.rows} * shape.query_width(), 7, deviation));
    hidden_.assign(static_cast<size_t>(of.rows) * shape.kv_heads, -1);
    for (size_t i = 0; of.hides && i < hidden_.size(); i += 3) {
      hidden_[i] = static_cast<int32_t>(i * 11 % problem_->n());
    }
  }

  int64_t Stride() const { return case_.keys.shape.query_width() + 8; }

  void UploadRows() {
    problem_->Upload();
    const int64_t width = case_.keys.shape.query_width();
    std::vector<uint16_t> rows(RoundUp(case_.rows, kTileRows) * Stride(), 0);
    for (int64_t row = 0; row < case_.rows; ++row) {
      for (int64_t i = 0; i < width; ++i) rows[row * Stride() + i] = ToBf16(q_[row * width + i]);
    }
    device_q_ = DeviceArray<uint16_t>(rows);
    std::vector<int32_t> places = hidden_;
    for (int32_t& place : places) {
      if (place >= 0) place = problem_->keys().PlaceOf(place);
    }
    device_hidden_ = DeviceArray<int32_t>(places);
    const size_t count = static_cast<size_t>(case_.rows) * width;
    out_ = DeviceArray<float>(count);
    lse_ = DeviceArray<float>(static_cast<size_t>(case_.rows) * case_.keys.shape.heads);
  }

  Measured Attend() {
    UploadRows();
    const int64_t width = case_.keys.shape.query_width();
    const DeviceArray<uint16_t> attended(RoundUp(case_.rows, kTileRows) * width);
    const MeasuringAttentionParams params = {.keys = problem_->keys(),
                                             .q = device_q_.data(),
                                             .q_stride = Stride(),
                                             .hidden_places = device_hidden_.data(),
                                             .attended = attended.data(),
                                             .out = out_.data(),
                                             .lse = lse_.data(),
                                             .rows = case_.rows,
                                             .shape = case_.keys.shape};
    EXPECT_TRUE(ValidateMeasuringAttention(params).ok()) << ValidateMeasuringAttention(params);
    ExpectSuccess(LaunchMeasuringAttention(params, stream_), "launching");
    Measured measured = {.out = out_.ToHost(stream_), .lse = lse_.ToHost(stream_)};
    for (const uint16_t bits : attended.ToHost(stream_)) {
      measured.attended.push_back(FromBf16(bits));
    }
    measured.attended.resize(case_.rows * width);
    return measured;
  }

  // The results of the launch before, in key blocks of `step`.
  std::vector<double> Importance(int step) {
    const int places = problem_->places();
    const DeviceArray<double> importance(static_cast<size_t>(places) * case_.keys.shape.kv_heads);
    const auto blocks = static_cast<int>(ContextKeyBlocks(places));
    for (int first = 0; first < blocks; first += step) {
      const KeyImportanceParams params = {.keys = problem_->keys(),
                                          .q = device_q_.data(),
                                          .q_stride = Stride(),
                                          .hidden_places = device_hidden_.data(),
                                          .out = out_.data(),
                                          .lse = lse_.data(),
                                          .importance = importance.data(),
                                          .rows = case_.rows,
                                          .first_key_block = first,
                                          .end_key_block = std::min(first + step, blocks),
                                          .shape = case_.keys.shape};
      EXPECT_TRUE(ValidateKeyImportance(params).ok()) << ValidateKeyImportance(params);
      ExpectSuccess(LaunchKeyImportance(params, stream_), "launching");
    }
    return importance.ToHost(stream_);
  }

  // Of all heads, as kernels/ops has them.
  struct OpsKeys {
    std::vector<float> keys, values, log_weights;
  };
  OpsKeys AllHeads() const {
    OpsKeys all;
    for (int head = 0; head < case_.keys.shape.kv_heads; ++head) {
      const HeadKeys of_head = problem_->Head(head);
      all.keys.insert(all.keys.end(), of_head.keys.begin(), of_head.keys.end());
      all.values.insert(all.values.end(), of_head.values.begin(), of_head.values.end());
      all.log_weights.insert(all.log_weights.end(), of_head.log_weights.begin(),
                             of_head.log_weights.end());
    }
    return all;
  }

  Measured ReferenceAttention() const {
    const ModelShape& shape = case_.keys.shape;
    const OpsKeys all = AllHeads();
    Measured expected = {.out = std::vector<float>(q_.size()),
                         .lse = std::vector<float>(static_cast<size_t>(case_.rows) * shape.heads)};
    reference::SharedContextAttentionWithLse({.q = q_.data(),
                                              .out = expected.out.data(),
                                              .context_keys = all.keys.data(),
                                              .context_values = all.values.data(),
                                              .context_log_weights = all.log_weights.data(),
                                              .row_hidden_key = hidden_.data(),
                                              .rows = case_.rows,
                                              .heads = shape.heads,
                                              .kv_heads = shape.kv_heads,
                                              .head_dim = shape.head_dim,
                                              .context_rows = problem_->n(),
                                              .context_capacity = problem_->n(),
                                              .q_stride = shape.query_width(),
                                              .out_stride = shape.query_width(),
                                              .scale = kLn2},
                                             expected.lse.data());
    for (float& lse : expected.lse) lse *= kLog2E;
    return expected;
  }

  // From these outputs.
  std::vector<double> ReferenceImportance(const Measured& measured) const {
    const ModelShape& shape = case_.keys.shape;
    const OpsKeys all = AllHeads();
    std::vector<float> lse = measured.lse;
    for (float& number : lse) number *= kLn2;
    std::vector<double> of_keys(static_cast<size_t>(problem_->n()) * shape.kv_heads);
    reference::KeyAttention({.q = q_.data(),
                             .out = measured.out.data(),
                             .lse = lse.data(),
                             .row_hidden_key = hidden_.data(),
                             .context_keys = all.keys.data(),
                             .context_values = all.values.data(),
                             .context_log_weights = all.log_weights.data(),
                             .importance = of_keys.data(),
                             .keys = problem_->n(),
                             .rows = case_.rows,
                             .heads = shape.heads,
                             .kv_heads = shape.kv_heads,
                             .head_dim = shape.head_dim,
                             .context_rows = problem_->n(),
                             .q_stride = shape.query_width(),
                             .out_stride = shape.query_width(),
                             .scale = kLn2});
    std::vector<double> of_places(static_cast<size_t>(problem_->places()) * shape.kv_heads);
    for (int head = 0; head < shape.kv_heads; ++head) {
      for (int key = 0; key < problem_->n(); ++key) {
        of_places[head * problem_->places() + problem_->keys().PlaceOf(key)] =
            of_keys[head * problem_->n() + key];
      }
    }
    return of_places;
  }

  MeasuringCase case_;
  std::optional<MemoryProblem> problem_;
  std::vector<float> q_;         // [rows, H, Dh], in units of log 2
  std::vector<int32_t> hidden_;  // [rows, Hkv], keys
  DeviceArray<uint16_t> device_q_;
  DeviceArray<int32_t> device_hidden_;
  DeviceArray<float> out_, lse_;
};

std::vector<MeasuringCase> Cases() {
  std::vector<MeasuringCase> cases;
  for (const int head_dim : {16, 32, 64, 128}) {
    cases.push_back({.keys = {.set_keys = 70,
                              .segment_rows = 90,
                              .shape = {.heads = 2, .kv_heads = 1, .head_dim = head_dim}},
                     .rows = 70});
  }
  const ModelShape shape = {.heads = 2, .kv_heads = 2, .head_dim = 32};
  cases.push_back({.keys = {.segment_rows = 200, .shape = shape}, .rows = 20, .hides = false});
  cases.push_back({.keys = {.set_keys = 64, .segment_rows = 1, .shape = shape}, .rows = 130});
  cases.push_back(
      {.keys = {.set_keys = 100, .segment_rows = 100, .shape = shape, .largest_log_weight = 10},
       .rows = 64,
       .score_deviation = 3});
  // Large scores, and weights far apart.
  cases.push_back(
      {.keys = {.set_keys = 100, .segment_rows = 100, .shape = shape, .largest_log_weight = 40},
       .rows = 64,
       .score_deviation = 10});
  return cases;
}

TEST_F(MeasuringTest, AttentionAgreesWithReference) {
  for (const MeasuringCase& of : Cases()) {
    SCOPED_TRACE(testing::Message() << of.keys.set_keys << " and " << of.keys.segment_rows
                                    << " keys, Dh " << of.keys.shape.head_dim);
    Begin(of);
    const Measured actual = Attend();
    const Measured expected = ReferenceAttention();
    EXPECT_THAT(actual.out, TensorNear(expected.out, Tolerance{4e-5, 4e-5}));
    EXPECT_THAT(actual.lse, TensorNear(expected.lse, Tolerance{2e-5, 2e-6}));
    EXPECT_THAT(actual.attended, TensorNear(expected.out, Tolerance{4e-5, 0x1p-8}));
  }
}

TEST_F(MeasuringTest, ImportanceAgreesWithReference) {
  for (const MeasuringCase& of : Cases()) {
    SCOPED_TRACE(testing::Message() << of.keys.set_keys << " and " << of.keys.segment_rows
                                    << " keys, Dh " << of.keys.shape.head_dim);
    Begin(of);
    const Measured measured = Attend();
    const std::vector<double> actual = Importance(1'024);
    EXPECT_THAT(Importance(1), TensorBitsEqual(actual));
    if (of.score_deviation > 5) {
      // 1 - p is as small as the errors of p.
      for (const double number : actual) EXPECT_TRUE(std::isfinite(number) && number >= 0);
      continue;
    }
    const Tolerance tolerance = {1e-30, of.score_deviation > 1 ? 2e-2 : 2e-3};
    EXPECT_THAT(actual, TensorNear(ReferenceImportance(measured), tolerance));
  }
}

// A query that attends to a single key: its importance is the distance to what the other keys would
// give, however small their attention is.
TEST_F(MeasuringTest, AKeyThatHasAlmostAllAttention) {
  const ModelShape shape = {.heads = 1, .kv_heads = 1, .head_dim = 32};
  Begin({.keys = {.set_keys = 64, .segment_rows = 64, .shape = shape}, .rows = 16, .hides = false});
  // All queries are alike, and the attention to key 40 is 2^16 times that to another.
  for (size_t i = 0; i < q_.size(); ++i) q_[i] = i % 32 == 0 ? 1.0f : 0.0f;
  for (size_t i = 0; i < problem_->all.k.size(); i += 32) {
    problem_->all.k[i] = i == 40 * 32 ? 16.0f : 0.0f;
  }
  std::fill(problem_->all.log_weights.begin(), problem_->all.log_weights.end(), 0.0f);
  const Measured measured = Attend();
  const Measured expected = ReferenceAttention();
  EXPECT_THAT(measured.out, TensorNear(expected.out, Tolerance{2e-6, 2e-6}));
  const std::vector<double> actual = Importance(1'024);
  const std::vector<double> of_expected = ReferenceImportance(expected);
  EXPECT_NEAR(actual[40] / of_expected[40], 1, 2e-3);
}

// A row whose only key is hidden has no attention, and adds nothing.
TEST_F(MeasuringTest, ARowWithoutKeys) {
  Begin({.keys = {.segment_rows = 1}, .rows = 5, .hides = false});
  for (size_t i = 0; i < hidden_.size(); i += 4) hidden_[i] = 0;
  const Measured measured = Attend();
  const Measured expected = ReferenceAttention();
  EXPECT_THAT(measured.out, TensorNear(expected.out, Tolerance{1e-6, 1e-6}));
  EXPECT_THAT(measured.lse, TensorNear(expected.lse, Tolerance{1e-5, 1e-6}));
  EXPECT_EQ(measured.lse[0], -HUGE_VALF);
  for (const double number : Importance(1)) EXPECT_TRUE(std::isfinite(number));
}

}  // namespace
}  // namespace chorale::kernels::cuda
