// Means of groups of keys against the float64 reference, and what is copied bit by bit.
#include "kernels/cuda/memory_set/merge_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numbers>
#include <numeric>
#include <vector>

#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/memory_set/copy_set.h"
#include "kernels/ops/panel_layout.h"
#include "tests/kernels/cuda/memory_set/memory_problem.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

// A mean is rounded to bf16.
constexpr Tolerance kRounding = {2e-6, 0x1p-8};

struct Groups {
  std::vector<int32_t> member, group_begin;  // [Hkv, n] and [Hkv, groups + 1]
};

// By the definition.
Groups GroupsOf(const std::vector<int32_t>& nearest, int n, int groups) {
  Groups result;
  for (size_t head = 0; head < nearest.size() / n; ++head) {
    const size_t before = result.member.size();
    for (int g = 0; g < groups; ++g) {
      result.group_begin.push_back(static_cast<int32_t>(result.member.size() - before));
      for (int key = 0; key < n; ++key) {
        if (nearest[head * n + key] == g) result.member.push_back(key);
      }
    }
    result.group_begin.push_back(n);
  }
  return result;
}

// Groups of many sizes: most keys in the first ones, one key in the last one.
std::vector<int32_t> Nearest(const MemoryProblem& problem, int groups) {
  std::vector<int32_t> nearest(static_cast<size_t>(problem.n()) * problem.shape().kv_heads);
  for (size_t i = 0; i < nearest.size(); ++i) {
    const auto key = static_cast<int>(i % problem.n());
    const auto head = static_cast<int>(i / problem.n());
    nearest[i] = key < groups ? groups - 1 - key : (key * 7 + head) % groups * (key % 5) / 5;
  }
  return nearest;
}

class MergeKeysTest : public DeviceTest {
 protected:
  struct Set {
    std::vector<uint16_t> kv;
    std::vector<float> log_weights;  // [Hkv, ContextWeights(groups)]
  };

  // `new_log_weights` is empty, or [Hkv, groups].
  Set Merge(MemoryProblem& problem, const Groups& of, const std::vector<float>& new_log_weights,
            int step) {
    problem.Upload();
    const ModelShape& shape = problem.shape();
    const auto groups = static_cast<int>(of.group_begin.size()) / shape.kv_heads - 1;
    const DeviceArray<int32_t> member(of.member), group_begin(of.group_begin);
    const DeviceArray<float> given(new_log_weights);
    const DeviceArray<uint16_t> kv(ContextLayerSize(groups, shape.kv_heads, shape.head_dim));
    const DeviceArray<float> log_weights(shape.kv_heads * ContextWeights(groups));
    for (int first = 0; first < groups; first += step) {
      const MergeKeysParams params = {
          .keys = problem.keys(),
          .groups = {.member = member.data(),
                     .group_begin = group_begin.data(),
                     .n = problem.n(),
                     .groups = groups},
          .new_log_weights = new_log_weights.empty() ? nullptr : given.data(),
          .set_kv = kv.data(),
          .set_log_weights = log_weights.data(),
          .first_group = first,
          .end_group = std::min(first + step, groups),
          .shape = shape};
      EXPECT_TRUE(ValidateMergeKeys(params).ok()) << ValidateMergeKeys(params);
      ExpectSuccess(LaunchMergeKeys(params, stream_), "launching");
    }
    return {kv.ToHost(stream_), log_weights.ToHost(stream_)};
  }

  static KeySet Reference(const MemoryProblem& problem, const Groups& of) {
    const int heads = problem.shape().kv_heads;
    const int64_t width = problem.shape().head_dim;
    const auto groups = static_cast<int64_t>(of.group_begin.size()) / heads - 1;
    KeySet set;
    for (int head = 0; head < heads; ++head) {
      HeadKeys keys = problem.Head(head);
      std::vector<float> packed(PackedKeysSize(groups, width)), values(groups * width);
      std::vector<float> log_weights(groups);
      reference::MergeKeys({.keys = keys.keys.data(),
                            .values = keys.values.data(),
                            .log_weights = keys.log_weights.data(),
                            .member = of.member.data() + head * problem.n(),
                            .group_begin = of.group_begin.data() + head * (groups + 1),
                            .out_keys = packed.data(),
                            .out_values = values.data(),
                            .out_log_weights = log_weights.data(),
                            .n = problem.n(),
                            .head_dim = width,
                            .groups = groups,
                            .end_group = groups});
      for (int64_t g = 0; g < groups; ++g) {
        for (int64_t d = 0; d < width; ++d) {
          set.k.push_back(packed[((g / kPanel) * width + d) * kPanel + g % kPanel]);
        }
        set.log_weights.push_back(log_weights[g] * std::numbers::log2e_v<float>);
      }
      set.v.insert(set.v.end(), values.begin(), values.end());
    }
    return set;
  }
};

TEST_F(MergeKeysTest, MeansAgreeWithReference) {
  for (const int head_dim : {16, 32, 64, 128}) {
    for (const float largest : {0.0f, 5.0f, 40.0f}) {
      SCOPED_TRACE(testing::Message() << "Dh " << head_dim << ", weights up to 2^" << largest);
      MemoryProblem problem({.set_keys = 70,
                             .segment_rows = 200,
                             .shape = {.heads = 4, .kv_heads = 2, .head_dim = head_dim},
                             .largest_log_weight = largest},
                            2);
      const Groups groups = GroupsOf(Nearest(problem, 67), problem.n(), 67);
      const Set actual = Merge(problem, groups, {}, 1'024);
      const KeySet set = UnpackKeyBlocks(actual.kv, actual.log_weights, 67, problem.shape());
      const KeySet expected = Reference(problem, groups);
      EXPECT_THAT(set.k, TensorNear(expected.k, kRounding));
      EXPECT_THAT(set.v, TensorNear(expected.v, kRounding));
      EXPECT_THAT(set.log_weights, TensorNear(expected.log_weights, Tolerance{2e-6, 1e-6}));
    }
  }
}

TEST_F(MergeKeysTest, AnyDivisionIntoCallsHasTheSameBits) {
  MemoryProblem problem({.set_keys = 65, .segment_rows = 100}, 3);
  const Groups groups = GroupsOf(Nearest(problem, 65), problem.n(), 65);
  const Set at_once = Merge(problem, groups, {}, 65);
  const Set stepwise = Merge(problem, groups, {}, 7);
  EXPECT_EQ(stepwise.kv, at_once.kv);
  EXPECT_THAT(stepwise.log_weights, TensorBitsEqual(at_once.log_weights));
}

// Groups of one key, with its weight or another one. The padding is what PackKeyBlocks leaves.
TEST_F(MergeKeysTest, SingleKeysAreCopied) {
  for (const int head_dim : {16, 32, 128}) {
    MemoryProblem problem({.set_keys = 70,
                           .segment_rows = 100,
                           .shape = {.heads = 2, .kv_heads = 2, .head_dim = head_dim}},
                          4);
    constexpr int kKept = 85;
    Groups groups;
    KeySet expected;
    std::vector<float> new_log_weights;
    for (int head = 0; head < 2; ++head) {
      for (int g = 0; g < problem.n(); ++g) {
        const int key = g < kKept ? 2 * g + head : 0;
        groups.member.push_back(key);
        if (g >= kKept) continue;
        groups.group_begin.push_back(g);
        const int64_t from = head * problem.n() + key;
        for (int d = 0; d < head_dim; ++d) {
          expected.k.push_back(problem.all.k[from * head_dim + d]);
          expected.v.push_back(problem.all.v[from * head_dim + d]);
        }
        expected.log_weights.push_back(problem.all.log_weights[from]);
        new_log_weights.push_back(static_cast<float>(g) / 3);
      }
      groups.group_begin.push_back(kKept);
    }
    const Set copied = Merge(problem, groups, {}, 32);
    EXPECT_EQ(copied.kv, PackKeyBlocks(expected, kKept, problem.shape()));
    const KeySet set = UnpackKeyBlocks(copied.kv, copied.log_weights, kKept, problem.shape());
    EXPECT_EQ(set.log_weights, expected.log_weights);
    for (int place = kKept; place < ContextWeights(kKept); ++place) {
      EXPECT_EQ(copied.log_weights[place], kNoKeyLogWeight);
    }
    const Set weighted = Merge(problem, groups, new_log_weights, 1'024);
    EXPECT_EQ(weighted.kv, copied.kv);
    EXPECT_EQ(
        UnpackKeyBlocks(weighted.kv, weighted.log_weights, kKept, problem.shape()).log_weights,
        new_log_weights);
  }
}

TEST_F(MergeKeysTest, CopySetLeavesTheRowsOfTheSegment) {
  for (const int set_keys : {0, 64, 70}) {
    SCOPED_TRACE(set_keys);
    MemoryProblem problem({.set_keys = set_keys, .segment_rows = 90}, 5);
    const ModelShape& shape = problem.shape();
    KeySet set;
    for (int head = 0; head < shape.kv_heads; ++head) {
      const int64_t key = int64_t{head} * problem.n();
      const auto append = [&](std::vector<float>& to, const std::vector<float>& from, int width) {
        to.insert(to.end(), from.begin() + key * width, from.begin() + (key + set_keys) * width);
      };
      append(set.k, problem.all.k, shape.head_dim);
      append(set.v, problem.all.v, shape.head_dim);
      append(set.log_weights, problem.all.log_weights, 1);
    }
    std::vector<float> weights(shape.kv_heads * ContextWeights(set_keys), 77);
    for (int head = 0; head < shape.kv_heads; ++head) {
      std::copy_n(set.log_weights.begin() + head * set_keys, set_keys,
                  weights.begin() + head * ContextWeights(set_keys));
    }
    problem.Upload();
    const MemoryKeys all = problem.keys();
    const DeviceArray<uint16_t> set_kv(PackKeyBlocks(set, set_keys, shape));
    const DeviceArray<float> set_weights(weights);
    const size_t kv_size = ContextLayerSize(all.places(), shape.kv_heads, shape.head_dim);
    const size_t weights_size = shape.kv_heads * ContextWeights(all.places());
    std::vector<uint16_t> expected_kv(kv_size), kv(kv_size);
    std::vector<float> expected_weights(weights_size), log_weights(weights_size);
    const auto read = [&](const MemoryKeys& from, std::vector<uint16_t>& to_kv,
                          std::vector<float>& to_weights) {
      ExpectSuccess(CopyToHost(to_kv.data(), from.kv, kv_size * 2, stream_), "copying");
      ExpectSuccess(CopyToHost(to_weights.data(), from.log_weights, weights_size * 4, stream_),
                    "copying");
      ExpectSuccess(Synchronize(stream_), "copying");
    };
    read(all, expected_kv, expected_weights);
    // The same keys, of which only the segment's K and V are there.
    MemoryProblem other({.set_keys = set_keys, .segment_rows = 90}, 5);
    for (size_t i = 0; i < other.all.k.size(); ++i) {
      const bool of_set = static_cast<int>(i / shape.head_dim) % problem.n() < set_keys;
      if (of_set) other.all.k[i] = other.all.v[i] = 3;
    }
    for (float& log_weight : other.all.log_weights) log_weight = -7;
    other.Upload();
    const CopySetParams params = {.keys = other.keys(),
                                  .set_kv = set_kv.data(),
                                  .set_log_weights = set_weights.data(),
                                  .shape = shape};
    ASSERT_TRUE(ValidateCopySet(params).ok()) << ValidateCopySet(params);
    ExpectSuccess(LaunchCopySet(params, stream_), "launching");
    read(other.keys(), kv, log_weights);
    EXPECT_EQ(kv, expected_kv);
    EXPECT_EQ(log_weights, expected_weights);
  }
}

}  // namespace
}  // namespace chorale::kernels::cuda
