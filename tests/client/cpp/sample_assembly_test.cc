#include "client/cpp/sample_assembly.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Range {
  int64_t first_path, path_count, first_step, step_count;
};

v1::SampleBlock Block(const Range& range, std::vector<double> values,
                      std::vector<int32_t> rows = {}) {
  v1::SampleBlock block;
  block.set_first_path(range.first_path);
  block.set_path_count(range.path_count);
  block.set_first_step(range.first_step);
  block.set_step_count(range.step_count);
  block.mutable_values()->Add(values.begin(), values.end());
  block.mutable_rows()->Add(rows.begin(), rows.end());
  return block;
}

void ExpectLoss(const absl::Status& status, const char* what) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(what));
}

SampleAssembly Given() { return SampleAssembly(2, 3, RowOrder::kGiven, StepDensities::kOmit); }

TEST(SampleAssemblyTest, PutsBlocksTogetherInAnyOrder) {
  SampleAssembly assembly = Given();
  ASSERT_TRUE(assembly.Add(Block({0, 2, 2, 1}, {2, 12})).ok());
  ASSERT_TRUE(assembly.Add(Block({1, 1, 0, 2}, {10, 11})).ok());
  EXPECT_EQ(assembly.value_count(), 4);
  ASSERT_TRUE(assembly.Add(Block({0, 1, 0, 2}, {0, 1})).ok());
  v1::SampleSummary summary;
  summary.set_seed(9);
  const absl::StatusOr<Samples> samples = assembly.Finish(summary);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_THAT(samples->values, ElementsAre(0, 1, 2, 10, 11, 12));
  EXPECT_EQ(samples->summary.seed(), 9u);
}

TEST(SampleAssemblyTest, RandomOrdersComeBackInRowOrder) {
  SampleAssembly assembly(2, 3, RowOrder::kRandomPerPath, StepDensities::kInclude);
  v1::SampleBlock late = Block({0, 2, 1, 2}, {0, 1, 12, 11}, {0, 1, 2, 1});
  for (const double x : {-0.0, -1.0, -12.0, -11.0}) late.add_log_densities(x);
  ASSERT_TRUE(assembly.Add(late).ok());
  v1::SampleBlock early = Block({0, 2, 0, 1}, {2, 10}, {2, 0});
  for (const double x : {-2.0, -10.0}) early.add_log_densities(x);
  ASSERT_TRUE(assembly.Add(early).ok());
  const absl::StatusOr<Samples> samples = assembly.Finish({});
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_THAT(samples->values, ElementsAre(0, 1, 2, 10, 11, 12));
  EXPECT_THAT(samples->log_densities, ElementsAre(0, -1, -2, -10, -11, -12));
  EXPECT_THAT(samples->rows_by_step, ElementsAre(2, 0, 1, 0, 2, 1));
}

TEST(SampleAssemblyTest, RefusesWhatComesTwice) {
  SampleAssembly assembly = Given();
  ASSERT_TRUE(assembly.Add(Block({0, 1, 0, 2}, {0, 1})).ok());
  ExpectLoss(assembly.Add(Block({0, 2, 1, 1}, {1, 11})), "path 0 has step 1 twice");
  SampleAssembly random(1, 3, RowOrder::kRandomPerPath, StepDensities::kOmit);
  ExpectLoss(random.Add(Block({0, 1, 0, 2}, {0, 0}, {2, 2})), "path 0 has query row 2 twice");
}

TEST(SampleAssemblyTest, RefusesWhatIsMissing) {
  SampleAssembly assembly = Given();
  ASSERT_TRUE(assembly.Add(Block({0, 2, 0, 2}, {0, 1, 10, 11})).ok());
  ExpectLoss(assembly.Finish({}).status(), "4 of 6 values arrived");
}

TEST(SampleAssemblyTest, RefusesBlocksOutside) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  for (const Range& range : {Range{-1, 1, 0, 1}, Range{2, 1, 0, 1}, Range{0, 3, 0, 1},
                             Range{0, 1, 3, 1}, Range{0, 1, 0, 4}, Range{0, 0, 0, 1},
                             Range{0, 1, 0, -1}, Range{1, kMax, 0, 1}, Range{0, 1, 1, kMax},
                             Range{kMax, kMax, 0, 1}, Range{kMin, 1, 0, 1}, Range{0, kMin, 0, 1}}) {
    SampleAssembly assembly = Given();
    ExpectLoss(assembly.Add(Block(range, {0})), "a block of paths");
  }
  SampleAssembly random(1, 3, RowOrder::kRandomPerPath, StepDensities::kOmit);
  ExpectLoss(random.Add(Block({0, 1, 0, 1}, {0}, {3})), "query row 3 of 3");
  ExpectLoss(random.Add(Block({0, 1, 0, 1}, {0}, {-1})), "query row -1 of 3");
}

TEST(SampleAssemblyTest, RefusesArraysOfOtherSizes) {
  SampleAssembly given = Given();
  ExpectLoss(given.Add(Block({0, 1, 0, 2}, {0})), "2 values has 1 values");
  ExpectLoss(given.Add(Block({0, 1, 0, 1}, {0}, {0})), "0 log-densities and 1 query rows");
  SampleAssembly random(1, 3, RowOrder::kRandomPerPath, StepDensities::kOmit);
  ExpectLoss(random.Add(Block({0, 1, 0, 1}, {0})), "0 query rows");
  SampleAssembly densities(1, 3, RowOrder::kGiven, StepDensities::kInclude);
  ExpectLoss(densities.Add(Block({0, 1, 0, 1}, {0})), "0 log-densities");
}

// Query row 1 of three has the value 7.
SampleAssembly WithKnownValue(int64_t paths, RowOrder order) {
  v1::KnownValues known;
  known.add_rows(1);
  known.add_values(7);
  return SampleAssembly(paths, 3, order, StepDensities::kOmit, known);
}

TEST(SampleAssemblyTest, StepsAreThoseOfTheRowsThatAreNotKnown) {
  SampleAssembly assembly = WithKnownValue(2, RowOrder::kGiven);
  ASSERT_TRUE(assembly.Add(Block({0, 2, 1, 1}, {2, 12})).ok());
  ASSERT_TRUE(assembly.Add(Block({0, 1, 0, 1}, {0})).ok());
  EXPECT_EQ(assembly.value_count(), 3);
  ASSERT_TRUE(assembly.Add(Block({1, 1, 0, 1}, {10})).ok());
  const absl::StatusOr<Samples> samples = assembly.Finish({});
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(samples->step_count, 2);
  EXPECT_THAT(samples->values, ElementsAre(0, 7, 2, 10, 7, 12));
  SampleAssembly missing = WithKnownValue(2, RowOrder::kGiven);
  ASSERT_TRUE(missing.Add(Block({0, 2, 0, 1}, {0, 10})).ok());
  ExpectLoss(missing.Finish({}).status(), "2 of 4 values arrived");
}

TEST(SampleAssemblyTest, ValuesOfKnownRowsComeFromAnOldServer) {
  SampleAssembly given = WithKnownValue(1, RowOrder::kGiven);
  EXPECT_EQ(given.Add(Block({0, 1, 0, 3}, {0, 1, 2})).code(), absl::StatusCode::kUnimplemented);
  ExpectLoss(given.Add(Block({0, 1, 0, 4}, {0, 1, 2, 3})), "a block of paths");
  SampleAssembly random = WithKnownValue(1, RowOrder::kRandomPerPath);
  EXPECT_EQ(random.Add(Block({0, 1, 0, 1}, {1}, {1})).code(), absl::StatusCode::kUnimplemented);
}

// A block of paths of groups.
v1::SampleBlock OfPaths(std::vector<int32_t> paths, int64_t first_step, int64_t step_count,
                        std::vector<double> values, std::vector<int32_t> rows) {
  const auto count = static_cast<int64_t>(paths.size());
  v1::SampleBlock block =
      Block({0, count, first_step, step_count}, std::move(values), std::move(rows));
  block.mutable_paths()->Add(paths.begin(), paths.end());
  return block;
}

// Two paths over groups of 1 and 3 rows; query row 2 has the value 7.
SampleAssembly WithGroups(RowOrder order) {
  v1::KnownValues known;
  known.add_rows(2);
  known.add_values(7);
  return SampleAssembly(2, 4, order, StepDensities::kOmit, known, {1, 3});
}

TEST(SampleAssemblyTest, ABlockHasPathsOfSeveralGroups) {
  for (const RowOrder order : {RowOrder::kGiven, RowOrder::kRandomPerPath}) {
    SampleAssembly assembly = WithGroups(order);
    ASSERT_TRUE(assembly.Add(OfPaths({1, 0, 0}, 0, 1, {10, 3, 0}, {0, 3, 0})).ok());
    ASSERT_TRUE(assembly.Add(OfPaths({1}, 0, 2, {11, 13}, {1, 3})).ok());
    ASSERT_TRUE(assembly.Add(OfPaths({0}, 1, 1, {1}, {1})).ok());
    EXPECT_EQ(assembly.value_count(), 6);
    const absl::StatusOr<Samples> samples = assembly.Finish({});
    ASSERT_TRUE(samples.ok()) << samples.status();
    EXPECT_EQ(samples->step_count, 3);
    EXPECT_THAT(samples->first_steps, ElementsAre(0, 1));
    EXPECT_THAT(samples->values, ElementsAre(0, 1, 7, 3, 10, 11, 7, 13));
    if (order == RowOrder::kRandomPerPath) {
      EXPECT_THAT(samples->rows_by_step, ElementsAre(0, 3, 1, 0, 1, 3));
    }
  }
}

TEST(SampleAssemblyTest, RefusesBlocksOutsideTheGroups) {
  SampleAssembly assembly = WithGroups(RowOrder::kGiven);
  ExpectLoss(assembly.Add(OfPaths({2}, 0, 1, {0}, {0})), "path 2 of 2");
  ExpectLoss(assembly.Add(OfPaths({-1}, 0, 1, {0}, {0})), "path -1 of 2");
  ExpectLoss(assembly.Add(OfPaths({0}, 0, 1, {0}, {4})), "query row 4 of 4");
  ExpectLoss(assembly.Add(OfPaths({0}, 0, 1, {0}, {-1})), "query row -1 of 4");
  ExpectLoss(assembly.Add(OfPaths({0}, 1, 1, {0}, {0})), "step 1 of a group of 1 steps");
  ExpectLoss(assembly.Add(OfPaths({0}, 0, 1, {0}, {})), "0 query rows");
  v1::SampleBlock more_paths = OfPaths({0}, 0, 1, {0}, {0});
  more_paths.add_paths(1);
  ExpectLoss(assembly.Add(more_paths), "a block of 1 paths has 2 indices of paths");
  ExpectLoss(assembly.Add(OfPaths({0, 0, 0, 0, 0}, 0, 1, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0})),
             "a block of paths 0 +5");
  EXPECT_EQ(assembly.Add(OfPaths({0}, 0, 1, {0}, {2})).code(), absl::StatusCode::kUnimplemented);
  ASSERT_TRUE(assembly.Add(OfPaths({0}, 0, 1, {0}, {0})).ok());
  ExpectLoss(assembly.Add(OfPaths({0}, 0, 1, {0}, {0})), "path 0 has step 0 twice");
  ExpectLoss(assembly.Finish({}).status(), "1 of 6 values arrived");
}

TEST(SampleAssemblyTest, BlocksWithoutPathsComeFromAnOldServer) {
  SampleAssembly assembly = WithGroups(RowOrder::kGiven);
  EXPECT_EQ(assembly.Add(Block({0, 1, 0, 4}, {0, 1, 2, 3})).code(),
            absl::StatusCode::kUnimplemented);
  SampleAssembly without = Given();
  ExpectLoss(without.Add(OfPaths({0}, 0, 1, {0}, {})), "a block of 1 paths has 1 indices");
}

}  // namespace
}  // namespace chorale::client
