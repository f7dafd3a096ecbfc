#include "engine/data/training_limits.h"

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(TrainingLimitsTest, NamesTheLimitsThatAContextExceeds) {
  ModelConfig config;
  EXPECT_EQ(BeyondTraining(1'000'000, 1'000, config), "") << "the limits are not known";
  config.trained_rows = 4096;
  config.trained_features = 100;
  EXPECT_EQ(BeyondTraining(4096, 100, config), "");
  EXPECT_EQ(BeyondTraining(4097, 100, config),
            "the context has 4097 rows; the model was trained on tables of at most 4096 rows, so "
            "results may be less accurate");
  EXPECT_EQ(BeyondTraining(5000, 101, config),
            "the context has 5000 rows and 101 features; the model was trained on tables of at "
            "most 4096 rows and 100 features, so results may be less accurate");
}

}  // namespace
}  // namespace chorale
