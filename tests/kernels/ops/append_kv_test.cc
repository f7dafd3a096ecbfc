#include "kernels/ops/append_kv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

#include "kernels/ops/panel_layout.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels {
namespace {

using Tensor = std::vector<float>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ReferenceAppendKvTest, PutsKeysIntoPanelsAndValuesIntoRows) {
  // Two heads of width 2, capacity 18, one new key at position 17: panel 1, column 1.
  // keys: head h, element d at h * 32 * 2 + (1 * 2 + d) * 16 + 1; values: (h * 18 + 17) * 2 + d.
  const Tensor k = {1, 2, 3, 4};
  const Tensor v = {5, 6, 7, 8};
  Tensor keys(2 * PackedKeysSize(18, 2), 0.0f);
  Tensor values(2 * ValuesSize(18, 2), 0.0f);
  AppendKvParams p;
  p.k = k.data();
  p.v = v.data();
  p.keys = keys.data();
  p.values = values.data();
  p.n = 1;
  p.offset = 17;
  p.capacity = 18;
  p.kv_heads = 2;
  p.head_dim = 2;
  p.kv_stride = 4;
  ASSERT_TRUE(ValidateAppendKv(p).ok());
  reference::AppendKv(p);
  EXPECT_EQ(keys[33], 1.0f);
  EXPECT_EQ(keys[49], 2.0f);
  EXPECT_EQ(keys[64 + 33], 3.0f);
  EXPECT_EQ(keys[64 + 49], 4.0f);
  EXPECT_EQ(values[34], 5.0f);
  EXPECT_EQ(values[35], 6.0f);
  EXPECT_EQ(values[70], 7.0f);
  EXPECT_EQ(values[71], 8.0f);
}

struct Block {
  Block(int64_t capacity, int64_t heads, int64_t head_dim)
      : keys(heads * PackedKeysSize(capacity, head_dim), kNan),
        values(heads * ValuesSize(capacity, head_dim), kNan) {}
  Tensor keys, values;
};

TEST(AppendKvTest, WritesWhatTheReferenceWritesAndNothingElse) {
  // Untouched elements stay NaN in both, and TensorBitsEqual compares them too.
  for (int64_t n : {1, 2, 15, 16, 17, 40}) {
    for (int64_t offset : {0, 1, 15, 16, 30}) {
      const int64_t capacity = 75;
      const int64_t heads = 3;
      const int64_t head_dim = 8;
      const Tensor k = RandomTensor(n * 30, 1);
      const Tensor v = RandomTensor(n * 30, 2);
      AppendKvParams p;
      p.k = k.data();
      p.v = v.data();
      p.n = n;
      p.offset = offset;
      p.capacity = capacity;
      p.kv_heads = heads;
      p.head_dim = head_dim;
      p.kv_stride = 30;
      Block expected(capacity, heads, head_dim);
      p.keys = expected.keys.data();
      p.values = expected.values.data();
      ASSERT_TRUE(ValidateAppendKv(p).ok());
      reference::AppendKv(p);
      Block actual(capacity, heads, head_dim);
      p.keys = actual.keys.data();
      p.values = actual.values.data();
      AppendKv(p);
      EXPECT_THAT(actual.keys, TensorBitsEqual(expected.keys)) << n << " at " << offset;
      EXPECT_THAT(actual.values, TensorBitsEqual(expected.values)) << n << " at " << offset;
    }
  }
}

TEST(AppendKvTest, DisjointRangesOfOneBlockMayBeWrittenConcurrently) {
  // Four threads write neighbouring keys of the same panels; the thread sanitizer watches.
  const int64_t capacity = 64;
  const int64_t head_dim = 16;
  const Tensor k = RandomTensor(capacity * head_dim, 1);
  const Tensor v = RandomTensor(capacity * head_dim, 2);
  AppendKvParams whole;
  whole.k = k.data();
  whole.v = v.data();
  whole.n = capacity;
  whole.capacity = capacity;
  whole.kv_heads = 1;
  whole.head_dim = head_dim;
  whole.kv_stride = head_dim;
  Block expected(capacity, 1, head_dim);
  whole.keys = expected.keys.data();
  whole.values = expected.values.data();
  AppendKv(whole);

  Block actual(capacity, 1, head_dim);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t key = t; key < capacity; key += 4) {
        AppendKvParams one = whole;
        one.k += key * head_dim;
        one.v += key * head_dim;
        one.n = 1;
        one.offset = key;
        one.keys = actual.keys.data();
        one.values = actual.values.data();
        AppendKv(one);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(actual.keys, TensorBitsEqual(expected.keys));
  EXPECT_THAT(actual.values, TensorBitsEqual(expected.values));
}

}  // namespace
}  // namespace chorale::kernels
