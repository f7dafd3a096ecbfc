// Encoding of blocks of Sample.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/codec/response_encoder.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SampleBlock ThreePaths() {
  SampleBlock block;
  block.first_path = 10;
  block.paths = 3;
  block.first_step = 4;
  block.steps = 2;
  block.values = {1, 2, 3, 4, 5, 6};
  block.log_densities = {-1, -2, -3, -4, -5, -6};
  block.query_rows = {1, 0, 0, 1, 1, 0};
  return block;
}

TEST(SampleBlockTest, PartOfABlock) {
  v1::SampleBlock message;
  EncodeBlock(ThreePaths(), 1, 2, Precision::kFloat64, &message);
  EXPECT_EQ(message.first_path(), 11);
  EXPECT_EQ(message.path_count(), 2);
  EXPECT_EQ(message.first_step(), 4);
  EXPECT_EQ(message.step_count(), 2);
  EXPECT_THAT(message.values(), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(message.log_densities(), ElementsAre(-3, -4, -5, -6));
  EXPECT_THAT(message.rows(), ElementsAre(0, 1, 1, 0));
}

TEST(SampleBlockTest, WhatWasNotAskedForIsAbsent) {
  SampleBlock block = ThreePaths();
  block.log_densities.clear();
  block.query_rows.clear();
  v1::SampleBlock message;
  EncodeBlock(block, 0, 3, Precision::kFloat64, &message);
  EXPECT_EQ(message.values_size(), 6);
  EXPECT_THAT(message.log_densities(), IsEmpty());
  EXPECT_THAT(message.rows(), IsEmpty());
}

TEST(SampleBlockTest, BytesPerPathBoundTheMessage) {
  SampleBlock block;
  block.paths = 100;
  block.steps = 40;
  block.values.assign(4000, 1.5);
  for (int variant = 0; variant < 3; ++variant) {
    if (variant >= 1) block.log_densities.assign(4000, -1.5);
    if (variant >= 2) block.query_rows.assign(4000, 2'000'000'000);
    for (const Precision precision : {Precision::kFloat64, Precision::kFloat32}) {
      v1::SampleBlock message;
      EncodeBlock(block, 0, block.paths, precision, &message);
      const auto bytes = static_cast<int64_t>(message.ByteSizeLong());
      constexpr int64_t kHead = 64;
      EXPECT_LE(bytes, block.paths * EncodedBytesPerPath(block, precision) + kHead);
      EXPECT_GE(bytes, block.paths * EncodedBytesPerPath(block, precision) * 9 / 10);
    }
  }
}

TEST(SampleBlockTest, Float32ValuesAreRounded) {
  SampleBlock block = ThreePaths();
  block.values[2] = 0.1;
  block.values[3] = -1e300;
  v1::SampleBlock message;
  EncodeBlock(block, 1, 1, Precision::kFloat32, &message);
  EXPECT_THAT(message.values(), IsEmpty());
  EXPECT_THAT(message.log_densities(), IsEmpty());
  EXPECT_THAT(message.float_values(), ElementsAre(0.1f, std::numeric_limits<float>::lowest()));
  EXPECT_THAT(message.float_log_densities(), ElementsAre(-3, -4));
  EXPECT_THAT(message.rows(), ElementsAre(0, 1));
}

// The values of 1,000 paths over 24 rows in blocks of a tile.
TEST(SampleBlockTest, Float32ValuesHaveHalfTheBytes) {
  SampleBlock block;
  block.paths = 32;
  block.steps = 24;
  block.values.assign(32 * 24, 1234.5);
  const auto bytes_of = [&block](Precision precision) {
    v1::SampleResponse response;
    for (int64_t path = 0; path < 1000; path += block.paths) {
      block.first_path = path;
      EncodeBlock(block, 0, std::min(block.paths, 1000 - path), precision,
                  response.mutable_blocks()->add_blocks());
    }
    return static_cast<int64_t>(response.ByteSizeLong());
  };
  const int64_t heads = 32 * 24;
  EXPECT_GE(bytes_of(Precision::kFloat64), 1000 * 24 * 8);
  EXPECT_LE(bytes_of(Precision::kFloat64), 1000 * 24 * 8 + heads);
  EXPECT_LE(bytes_of(Precision::kFloat32), 1000 * 24 * 4 + heads);
}

}  // namespace
}  // namespace chorale
