#include "engine/context/registered_context.h"

#include <cstring>
#include <random>
#include <vector>

#include "engine/data/dataset_codec.h"
#include "gtest/gtest.h"
#include "tests/engine/data/random_dataset.h"

namespace chorale {
namespace {

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

ContextData DataOf(const Dataset& dataset, Normalization normalization) {
  ModelConfig config;
  config.num_features = 100;
  config.normalize_x = normalization;
  config.normalize_y = normalization;
  const absl::StatusOr<FeatureTransform> transform = FeatureTransform::Fit(dataset, config);
  EXPECT_TRUE(transform.ok()) << transform.status();
  absl::StatusOr<ContextData> data = MakeContextData(dataset, *transform);
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

// So a context gives the same numbers whether it was just registered or read from the store.
TEST(MakeContextDataTest, AStoredDatasetGivesTheSameBits) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    Dataset dataset = RandomDataset(random);
    for (Column& column : dataset.features.columns) {
      for (double& number : column.numbers) {
        if (number == -1e300) number = -1e3;  // what a float32 holds
      }
    }
    dataset.y[0] = -0.0;
    const absl::StatusOr<Dataset> stored = DecodeDataset(EncodeDataset(dataset));
    ASSERT_TRUE(stored.ok()) << stored.status();
    for (const Normalization normalization : {Normalization::kNone, Normalization::kZScore}) {
      const ContextData registered = DataOf(dataset, normalization);
      const ContextData read = DataOf(*stored, normalization);
      EXPECT_TRUE(SameBits(registered.y, read.y)) << i;
      EXPECT_TRUE(SameBits(registered.features.x, read.features.x)) << i;
      EXPECT_EQ(registered.features.missing, read.features.missing) << i;
      EXPECT_EQ(registered.features.categorical, read.features.categorical) << i;
    }
  }
}

TEST(SelectRowsTest, KeepsTheRowsInTheirOrder) {
  ContextData data;
  data.features = {3, 2, {1, 2, 3, 4, 5, 6}, {0, 0, 0, 1, 1, 0}, {0, 1}};
  data.y = {7, 8, 9};
  const ContextData selected = SelectRows(data, {0, 2});
  EXPECT_EQ(selected.features.rows, 2);
  EXPECT_EQ(selected.features.features, 2);
  EXPECT_EQ(selected.features.x, (std::vector<float>{1, 2, 5, 6}));
  EXPECT_EQ(selected.features.missing, (std::vector<uint8_t>{0, 0, 1, 0}));
  EXPECT_EQ(selected.features.categorical, data.features.categorical);
  EXPECT_EQ(selected.y, (std::vector<float>{7, 9}));
  data.features.missing.clear();
  EXPECT_TRUE(SelectRows(data, {1}).features.missing.empty());
}

}  // namespace
}  // namespace chorale
