// The importance of keys against its float64 reference, and the reference against the change of
// the outputs when a key is dropped.
#include "kernels/ops/key_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/ops/panel_layout.h"
#include "kernels/ops/shared_context_attention.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels {
namespace {

using Doubles = std::vector<double>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Rows that attended to a context, by the reference. The padding of the keys is NaN.
struct Problem {
  int64_t rows = 20;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 16;
  int64_t n = 50;
  std::vector<float> q, keys, values, log_weights, out, lse;
  std::vector<int32_t> hidden;

  void Fill(uint32_t seed) {
    q = RandomTensor(rows * q_stride(), seed);
    keys = RandomTensor(kv_heads * PackedKeysSize(n, head_dim), seed + 1);
    values = RandomTensor(kv_heads * ValuesSize(n, head_dim), seed + 2);
    log_weights = RandomTensor(kv_heads * n, seed + 3);
    for (int64_t i = 0; i < rows * kv_heads; ++i) {
      hidden.push_back(static_cast<int32_t>((31 * i) % (n + 1) - 1));
    }
    for (int64_t head = 0; head < kv_heads; ++head) {
      for (int64_t key = n; key < RoundUp(n, kPanel); ++key) {
        for (int64_t d = 0; d < head_dim; ++d) *KeyElement(head, key, d) = kNan;
      }
    }
  }

  // REQUIRES: Fill. Computes `out` and `lse`.
  void Attend() {
    out.assign(rows * out_stride(), kNan);
    lse.assign(rows * heads, kNan);
    SharedContextAttentionParams p = Attention();
    ASSERT_TRUE(ValidateSharedContextAttention(p).ok());
    reference::SharedContextAttention(p);
  }

  SharedContextAttentionParams Attention() {
    SharedContextAttentionParams p;
    p.q = q.data();
    p.out = out.data();
    p.lse = lse.data();
    p.context_keys = keys.data();
    p.context_values = values.data();
    p.context_log_weights = log_weights.data();
    p.row_hidden_key = hidden.data();
    p.rows = rows;
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.head_dim = head_dim;
    p.context_rows = p.context_capacity = n;
    p.q_stride = q_stride();
    p.out_stride = out_stride();
    p.scale = scale();
    return p;
  }

  KeyAttentionParams Params(const std::vector<float>& with_lse, Doubles& importance) const {
    KeyAttentionParams p;
    p.q = q.data();
    p.out = out.data();
    p.lse = with_lse.data();
    p.row_hidden_key = hidden.data();
    p.context_keys = keys.data();
    p.context_values = values.data();
    p.context_log_weights = log_weights.data();
    p.importance = importance.data();
    p.keys = n;
    p.rows = rows;
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.head_dim = head_dim;
    p.context_rows = n;
    p.q_stride = q_stride();
    p.out_stride = out_stride();
    p.scale = scale();
    return p;
  }

  Doubles Run(void (*key_attention)(const KeyAttentionParams&), float lse_change = 0) const {
    std::vector<float> changed = lse;
    for (float& number : changed) number += lse_change;
    Doubles importance(kv_heads * n, kNan);
    const KeyAttentionParams p = Params(changed, importance);
    EXPECT_TRUE(ValidateKeyAttention(p).ok()) << ValidateKeyAttention(p);
    key_attention(p);
    return importance;
  }

  float* KeyElement(int64_t head, int64_t key, int64_t d) {
    return keys.data() + head * PackedKeysSize(n, head_dim) +
           ((key / kPanel) * head_dim + d) * kPanel + key % kPanel;
  }
  int64_t q_stride() const { return heads * head_dim + 5; }
  int64_t out_stride() const { return heads * head_dim + 3; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
};

// Importance grows with every score. So an error of the scores of at most `error` keeps it between
// those of scores that are all lower, and all higher, by that error.
void ExpectWithinErrorOfScores(const Problem& problem, float error) {
  constexpr double kRounding = 2e-5;
  const Doubles actual = problem.Run(&KeyAttention);
  const Doubles least = problem.Run(&reference::KeyAttention, error);
  const Doubles most = problem.Run(&reference::KeyAttention, -error);
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_GE(actual[i], least[i] * (1 - kRounding) - 1e-30) << i;
    EXPECT_LE(actual[i], most[i] * (1 + kRounding) + 1e-30) << i;
  }
}

TEST(ReferenceKeyAttentionTest, IsTheChangeOfTheOutputsWithoutTheKey) {
  Problem problem;
  problem.Fill(1);
  problem.hidden.assign(problem.hidden.size(), -1);
  problem.Attend();
  const Doubles importance = problem.Run(&reference::KeyAttention);
  for (const int32_t key : {0, 17, 49}) {
    Problem without = problem;
    without.hidden.assign(problem.hidden.size(), key);
    without.Attend();
    Doubles change(problem.kv_heads);
    for (int64_t row = 0; row < problem.rows; ++row) {
      for (int64_t i = 0; i < problem.heads * problem.head_dim; ++i) {
        const int64_t at = row * problem.out_stride() + i;
        const double difference = static_cast<double>(without.out[at]) - problem.out[at];
        change[i / problem.head_dim / 2] += difference * difference;
      }
    }
    for (int64_t head = 0; head < problem.kv_heads; ++head) {
      const double expected = change[head];
      EXPECT_NEAR(importance[head * problem.n + key], expected, 1e-4 * expected) << key;
    }
  }
}

class KeyAttentionTest : public SimdTargetTest {};
CHORALE_INSTANTIATE_FOR_SIMD_TARGETS(KeyAttentionTest);

TEST_P(KeyAttentionTest, EveryHeadWidthGroupingAndRaggedCounts) {
  for (int64_t head_dim : {8, 16, 32, 64, 128}) {
    for (int64_t kv_heads : {1, 2, 4}) {
      for (int64_t n : {2, 15, 16, 17, 64, 65, 130}) {
        SCOPED_TRACE(testing::Message()
                     << "Dh " << head_dim << ", Hkv " << kv_heads << ", n " << n);
        Problem problem = {.rows = 37, .kv_heads = kv_heads, .head_dim = head_dim, .n = n};
        problem.Fill(2);
        problem.Attend();
        ExpectWithinErrorOfScores(problem, 4e-6f);
      }
    }
  }
}

TEST_P(KeyAttentionTest, ManyRowsOfManyTiles) {
  Problem problem = {.rows = 300, .n = 90};
  problem.Fill(3);
  problem.Attend();
  ExpectWithinErrorOfScores(problem, 4e-6f);
}

// Queries that attend to almost a single key, and keys that receive almost nothing.
TEST_P(KeyAttentionTest, ScoresUpToAHundredAndSetsSixtyApart) {
  Problem problem = {.rows = 60, .n = 100};
  problem.Fill(4);
  for (float& number : problem.q) number *= 25;  // scores up to about a hundred
  for (int64_t i = 0; i < problem.kv_heads * problem.n; ++i) {
    if (i % problem.n < 40) problem.log_weights[i] += 60;
  }
  problem.Attend();
  ExpectWithinErrorOfScores(problem, 1e-4f);
}

TEST_P(KeyAttentionTest, HugeAndTinyWeights) {
  Problem problem = {.rows = 60, .n = 100};
  problem.Fill(5);
  for (float& number : problem.log_weights) number *= 30;
  problem.Attend();
  ExpectWithinErrorOfScores(problem, 1e-4f);
}

// The bits of a key do not depend on the range of the call, and other keys are not written.
TEST_P(KeyAttentionTest, AnyRangesOfKeys) {
  Problem problem = {.rows = 50, .n = 203};
  problem.Fill(6);
  problem.Attend();
  const Doubles all = problem.Run(&KeyAttention);
  for (int64_t size : {16, 48, 64, 112}) {
    Doubles parts(all.size(), -7.0);
    KeyAttentionParams p = problem.Params(problem.lse, parts);
    for (p.first_key = 16; p.first_key < problem.n; p.first_key += size) {
      p.keys = std::min(size, problem.n - p.first_key);
      ASSERT_TRUE(ValidateKeyAttention(p).ok());
      KeyAttention(p);
    }
    for (size_t i = 0; i < all.size(); ++i) {
      const bool outside = static_cast<int64_t>(i) % problem.n < 16;
      ASSERT_EQ(parts[i], outside ? -7.0 : all[i]) << i;
    }
  }
}

TEST_P(KeyAttentionTest, RowsThatAttendToNothingAddNothing) {
  Problem problem = {.rows = 9, .n = 1};
  problem.Fill(7);
  problem.hidden.assign(problem.hidden.size(), 0);
  problem.Attend();
  for (const float lse : problem.lse) ASSERT_EQ(lse, -HUGE_VALF);
  EXPECT_THAT(problem.Run(&KeyAttention), testing::Each(0.0));
  // Attending to the only key, o = v: its importance is 0 up to rounding, which odds of 10^6
  // magnify.
  problem.hidden.assign(problem.hidden.size(), -1);
  problem.Attend();
  EXPECT_THAT(problem.Run(&KeyAttention),
              testing::Each(testing::AllOf(testing::Ge(0.0), testing::Le(1e3))));
}

TEST_P(KeyAttentionTest, HugeValuesAreNeverNan) {
  Problem problem = {.rows = 30, .n = 40};
  problem.Fill(8);
  for (float& number : problem.values) number *= 1e20f;
  problem.Attend();
  for (const double importance : problem.Run(&KeyAttention)) EXPECT_GE(importance, 0.0);
}

}  // namespace
}  // namespace chorale::kernels
