#include "engine/data/training_limits.h"

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(TrainingLimitsTest, NamesTheLimitsThatAContextExceeds) {
  ModelConfig config;
  EXPECT_EQ(TrainingNote(1'000'000, 1'000, config).beyond_training, "")
      << "the limits are not known";
  config.trained_rows = 4096;
  config.trained_features = 100;
  EXPECT_EQ(TrainingNote(4096, 100, config).beyond_training, "");
  EXPECT_EQ(TrainingNote(4097, 100, config).beyond_training,
            "the context has 4097 rows; the model was trained on tables of at most 4096 rows, so "
            "results may be less accurate");
  EXPECT_EQ(TrainingNote(5000, 101, config).beyond_training,
            "the context has 5000 rows and 101 features; the model was trained on tables of at "
            "most 4096 rows and 100 features, so results may be less accurate");
}

}  // namespace
}  // namespace chorale
