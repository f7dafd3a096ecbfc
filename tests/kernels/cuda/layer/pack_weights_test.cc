#include "kernels/cuda/layer/pack_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/layout.h"

namespace chorale::kernels::cuda {
namespace {

using ::testing::ElementsAre;

TEST(Bf16Test, RoundsToTheNearestAndTiesToEven) {
  // Between 1 and 2, numbers are 2^-7 apart.
  EXPECT_EQ(FromBf16(ToBf16(1.0f)), 1.0f);
  EXPECT_EQ(FromBf16(ToBf16(1.0f + 0x1p-9f)), 1.0f);
  EXPECT_EQ(FromBf16(ToBf16(1.0f + 0x1p-8f)), 1.0f);                // tie, down to even
  EXPECT_EQ(FromBf16(ToBf16(1.0f + 3 * 0x1p-8f)), 1.0f + 0x1p-6f);  // tie, up to even
  EXPECT_EQ(FromBf16(ToBf16(-1.0f - 0x1.8p-8f)), -1.0f - 0x1p-7f);
}

TEST(PadHeadsTest, PutsZerosBehindEveryHead) {
  const Matrix matrix = {{1, 2, 3, 4}, 2, 2};
  const Matrix outputs = PadHeadOutputs(matrix, 1, 2);
  EXPECT_EQ(outputs.out, 4);
  EXPECT_THAT(outputs.values, ElementsAre(1, 2, 0, 0, 3, 4, 0, 0));
  const Matrix inputs = PadHeadInputs(matrix, 1, 2);
  EXPECT_EQ(inputs.in, 4);
  EXPECT_THAT(inputs.values, ElementsAre(1, 0, 2, 0, 3, 0, 4, 0));
}

TEST(PackSlabsTest, SlabsLieInTheOrderInWhichTheyAreConsumed) {
  // D = 130 and Dff = 129, so that every matrix has two slabs each way, and element (o, i) of each
  // matrix is its name: slab 10 m + 2 (o / 128) + i / 128.
  const auto matrix = [](int name, int64_t out, int64_t in) {
    Matrix m = {{}, out, in};
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i) m.values.push_back(10 * name + 2 * (o / 128) + i / 128);
    }
    return m;
  };
  const std::vector<uint16_t> finish =
      PackFinishSlabs(matrix(1, 130, 130), matrix(2, 129, 130), matrix(3, 130, 129));
  ASSERT_EQ(static_cast<int64_t>(finish.size()), FinishSlabs(130, 130, 129) * kSlabSize);
  std::vector<float> names;
  for (size_t i = 0; i < finish.size(); i += kSlabSize) names.push_back(FromBf16(finish[i]));
  EXPECT_THAT(names, ElementsAre(10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33));

  const std::vector<uint16_t> leave = PackLeaveSlabs(matrix(1, 130, 130), matrix(2, 250, 130));
  ASSERT_EQ(static_cast<int64_t>(leave.size()), LeaveSlabs(130, 250) * kSlabSize);
  names.clear();
  for (size_t i = 0; i < leave.size(); i += kSlabSize) names.push_back(FromBf16(leave[i]));
  EXPECT_THAT(names, ElementsAre(10, 11, 12, 13, 20, 21, 22, 23));
  EXPECT_EQ(leave[3 * kSlabSize + SlabAt(2, 0)], 0) << "beyond the matrix";
  EXPECT_EQ(FromBf16(leave[3 * kSlabSize + SlabAt(1, 1)]), 13);
}

// Read as the instruction reads it, a quarter is the slab's outputs, neighbours 8 rows apart, and
// its inputs in the order of mma.
TEST(PackSlabsTest, QuartersAreWhatProductsOfAWarpgroupTake) {
  std::vector<uint16_t> slabs(2 * kSlabSize);
  const auto name = [](int slab, int output, int input) {
    return static_cast<uint16_t>(slab * kSlabSize + output * kSlabInputs + input);
  };
  for (int slab = 0; slab < 2; ++slab) {
    for (int o = 0; o < kSlabOutputs; ++o) {
      for (int i = 0; i < kSlabInputs; ++i) {
        slabs[slab * kSlabSize + SlabAt(o, i)] = name(slab, o, i);
      }
    }
  }
  const std::vector<uint16_t> quarters = PackQuarters(slabs);
  ASSERT_EQ(quarters.size(), slabs.size());
  for (int quarter = 0; quarter < 8; ++quarter) {
    for (int product = 0; product < kQuarterInputs / 16; ++product) {
      for (int row = 0; row < kQuarterOutputs; ++row) {
        for (int place = 0; place < 16; ++place) {
          const int output = quarter % 4 / 2 * 64 + row / 16 * 16 + row % 8 * 2 + row % 16 / 8;
          // Lane j of mma has places 2j, 2j + 1, 2j + 8 and 2j + 9, and of 32 inputs 8j to 8j + 7.
          const int input = quarter % 2 * 64 + product / 2 * 32 + place % 8 / 2 * 8 +
                            product % 2 * 4 + place / 8 * 2 + place % 2;
          const int at = quarter * kQuarterSize + product * 16 * kQuarterOutputs +
                         place / 8 * (kQuarterHalfBytes / 2) + row / 8 * 64 + row % 8 * 8 +
                         place % 8;
          ASSERT_EQ(quarters[at], name(quarter / 4, output, input)) << at;
        }
      }
    }
  }
}

}  // namespace
}  // namespace chorale::kernels::cuda
