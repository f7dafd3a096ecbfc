// The head, draws and the counters of a decode.
#include "kernels/cuda/head/head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/head/unfused_head.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/ops/mixture_head.h"
#include "kernels/ops/random.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/cuda/head/head_problem.h"
#include "tests/kernels/cuda/tile_rows.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr ModelShape kSmallHead = {.width = 128, .hidden = 256, .components = 20};
constexpr ModelShape kOneComponent = {.width = 128, .hidden = 256, .components = 1};

class HeadTest : public DeviceTest {
 protected:
  // Expects the mixtures of the first 80 rows of `problem`, the ones in use.
  static void ExpectMixtures(const HeadProblem& problem, int m, const std::vector<float>& actual,
                             double absolute = 2e-5) {
    std::vector<float> expected(actual.size(), kNan);
    for (int row = 0; row < 64 + 16; ++row) {
      const MixtureView mixture = problem.Mixture(row);
      for (int j = 0; j < m; ++j) {
        expected[row * 3 * m + j] = static_cast<float>(mixture.mean[j]);
        expected[row * 3 * m + m + j] = static_cast<float>(mixture.std[j]);
        expected[row * 3 * m + 2 * m + j] = static_cast<float>(mixture.log_weight[j]);
      }
    }
    EXPECT_THAT(actual, TensorNear(expected, Tolerance{absolute, 1e-5}));
  }
};

TEST_F(HeadTest, MixturesOfEveryRow) {
  for (const ModelShape& shape :
       {kSmallHead, ModelShape{.width = 32, .hidden = 50, .components = 3},
        ModelShape{.width = 264, .hidden = 515, .components = 40}, kOneComponent,
        ModelShape{.width = 8, .hidden = 1100, .components = 70},
        ModelShape{.width = 36, .hidden = 5, .components = 33}}) {
    SCOPED_TRACE(testing::Message() << "M " << shape.components);
    const HeadProblem problem(shape);
    const DeviceArray<Tile> tiles(std::vector<Tile>{{.groups = 4}, {.groups = 1}});
    const int m = shape.components;
    const DeviceArray<float> mixtures(problem.rows() * 3 * m);
    HeadParams params = problem.Params(tiles);
    params.mixtures = mixtures.data();
    ASSERT_TRUE(ValidateHead(params).ok()) << ValidateHead(params);
    ExpectSuccess(LaunchHead(params, stream_), "launching the head");
    ExpectMixtures(problem, m, mixtures.ToHost(stream_));
  }
}

// Errors are relative to the logits. Weights of 1000, and activations beyond the range of float16
// with weights that are as small.
TEST_F(HeadTest, MixturesOfWideLogits) {
  constexpr float kLogits = 1000;
  for (float norm : {1.0f, 1e6f}) {
    const HeadProblem problem(kSmallHead, kLogits, norm);
    const DeviceArray<Tile> tiles(std::vector<Tile>{{.groups = 4}, {.groups = 1}});
    const DeviceArray<float> mixtures(problem.rows() * 3 * kSmallHead.components);
    HeadParams params = problem.Params(tiles);
    params.mixtures = mixtures.data();
    ExpectSuccess(LaunchHead(params, stream_), "launching the head");
    ExpectMixtures(problem, kSmallHead.components, mixtures.ToHost(stream_), 1e-5 * kLogits);
  }
}

// Blocks of one row set and of several, with other rows beside a row, and rows not in use.
TEST_F(HeadTest, BitsOfARowDoNotDependOnTheLaunch) {
  for (const ModelShape& shape :
       {kSmallHead, ModelShape{.width = 32, .hidden = 300, .components = 20},
        ModelShape{.width = 136, .hidden = 70, .components = 33}}) {
    SCOPED_TRACE(testing::Message() << "M " << shape.components);
    const HeadProblem problem(shape);
    const int m = shape.components;
    const auto mixtures_of = [&](const std::vector<Tile>& groups, int multiprocessors) {
      const DeviceArray<Tile> tiles(groups);
      const DeviceArray<float> mixtures(problem.rows() * 3 * m);
      HeadParams params = problem.Params(tiles);
      params.mixtures = mixtures.data();
      params.multiprocessors = multiprocessors;
      ExpectSuccess(LaunchHead(params, stream_), "launching the head");
      return BitsOf<uint32_t>(mixtures.ToHost(stream_));
    };
    const std::vector<Tile> both = {{.groups = 4}, {.groups = 1}};
    const std::vector<uint32_t> alone = mixtures_of(both, /*multiprocessors=*/100);
    EXPECT_EQ(mixtures_of(both, /*multiprocessors=*/4), alone) << "two sets";
    EXPECT_EQ(mixtures_of(both, /*multiprocessors=*/1), alone) << "four sets";
    std::vector<uint32_t> second = mixtures_of({{.groups = 0}, {.groups = 1}}, 1);
    std::copy_n(alone.begin(), 64 * 3 * m, second.begin());
    EXPECT_EQ(second, alone);
  }
}

// With more hidden units than go through shared memory at a time, and fewer.
TEST_F(HeadTest, WideMixturesOfEveryRow) {
  for (const ModelShape& shape :
       {ModelShape{.width = 32, .hidden = 50, .components = 3},
        ModelShape{.width = 8, .hidden = 2'100, .components = 70},
        ModelShape{.width = 8, .hidden = 1'024, .components = kMostComponents},
        ModelShape{.width = 8, .hidden = 1'032, .components = 1}, kOneComponent}) {
    SCOPED_TRACE(testing::Message() << "M " << shape.components);
    HeadProblem problem(shape);
    const DeviceArray<Tile> tiles(std::vector<Tile>{{.groups = 4}, {.groups = 1}});
    const DeviceArray<float> mixtures(problem.rows() * 3 * shape.components);
    UnfusedHeadParams params = problem.WideParams(tiles, /*of_paths=*/false);
    params.head.mixtures = mixtures.data();
    ASSERT_TRUE(ValidateUnfusedHead(params).ok()) << ValidateUnfusedHead(params);
    ExpectSuccess(LaunchUnfusedHead(params, stream_), "launching the head");
    ExpectMixtures(problem, shape.components, mixtures.ToHost(stream_));
  }
}

// Draws and densities are the code of the other form; what is its own is whose rows they are of.
TEST_F(HeadTest, WideDensitiesOfPaths) {
  constexpr int kPaths = 19;
  HeadProblem problem({.width = 40, .hidden = 72, .components = 5});
  const std::vector<float> observed = RandomTensor(kPaths, 20);
  const DeviceArray<float> values(observed);
  const DeviceArray<double> densities(kPaths);
  const PathTile path = {.values = values.data(),
                         .emitted_densities = densities.data(),
                         .paths = kPaths,
                         .stride = kPaths,
                         .positions = 1,
                         .first_drawn = 1};
  const DeviceArray<PathTile> paths(std::vector<PathTile>{{}, path});
  const DeviceArray<Tile> tiles(std::vector<Tile>{{.groups = 0}, {.groups = 3}});
  UnfusedHeadParams params = problem.WideParams(tiles, /*of_paths=*/true);
  params.head.paths = paths.data();
  ASSERT_TRUE(ValidateUnfusedHead(params).ok()) << ValidateUnfusedHead(params);
  ExpectSuccess(LaunchUnfusedHead(params, stream_), "launching the head");
  const std::vector<double> actual = densities.ToHost(stream_);
  for (int p = 0; p < kPaths; ++p) {
    const MixtureView mixture = problem.Mixture(64 + TargetRow(p));
    EXPECT_NEAR(actual[p], MixtureLogDensity(mixture, observed[p]), 2e-4) << p;
  }
}

// Values before the first one that is drawn are scored.
TEST_F(HeadTest, DrawsAndDensitiesOfPaths) {
  constexpr int kPaths = 19;
  constexpr int kPositions = 4;
  constexpr int kPosition = 2;
  const ModelShape many = {.width = 40, .hidden = 70, .components = 75};
  constexpr uint64_t kSeed = 0x123456789abcdef0;
  std::vector<uint64_t> numbers(kPaths);  // in both words
  for (int p = 0; p < kPaths; ++p) {
    numbers[p] = (uint64_t{0x5} + p * 3) << 32 | (p * 7 % kPaths);
    if (p % 3 == 1) numbers[p] |= kSobolFlag;
  }
  const DeviceArray<uint64_t> path_numbers(numbers);
  for (const auto& [shape, first_drawn] :
       {std::pair{kSmallHead, 0}, std::pair{kSmallHead, kPosition},
        std::pair{kSmallHead, kPosition + 1}, std::pair{kSmallHead, kPositions},
        std::pair{kOneComponent, 0}, std::pair{many, 1}, std::pair{many, kPosition + 1}}) {
    SCOPED_TRACE(testing::Message() << "drawn from " << first_drawn << ", M " << shape.components);
    const bool draw = first_drawn <= kPosition;
    const HeadProblem problem(shape);
    const std::vector<float> observed = RandomTensor(kPositions * kPaths, 20);
    const DeviceArray<float> values =
        draw ? DeviceArray<float>(observed.size()) : DeviceArray<float>(observed);
    // Emits positions 1, 2 and 3.
    constexpr int kFirstEmitted = 1;
    constexpr int kEmitted = (kPositions - kFirstEmitted) * kPaths;
    const DeviceArray<float> emitted(kEmitted);
    const DeviceArray<double> densities(kEmitted);
    const DeviceArray<float> mixtures(kEmitted * 3 * shape.components);
    const PathTile path = {.values = values.data(),
                           .emitted_values = emitted.data(),
                           .emitted_densities = densities.data(),
                           .emitted_mixtures = mixtures.data(),
                           .path_numbers = path_numbers.data(),
                           .seed = kSeed,
                           .paths = kPaths,
                           .stride = kPaths,
                           .positions = kPositions,
                           .position = kPosition,
                           .first_emitted = kFirstEmitted,
                           .first_drawn = first_drawn};
    const DeviceArray<PathTile> paths(std::vector<PathTile>{path, {}});
    const DeviceArray<Tile> tiles(std::vector<Tile>{{.groups = 3}, {.groups = 0}});
    HeadParams params = problem.Params(tiles);
    params.paths = paths.data();
    params.multiprocessors = 100;
    ExpectSuccess(LaunchHead(params, stream_), "launching the head");
    const std::vector<double> densities_alone = densities.ToHost(stream_);
    params.multiprocessors = 1;
    ExpectSuccess(LaunchHead(params, stream_), "launching the head");
    const std::vector<float> actual = values.ToHost(stream_);
    const std::vector<float> actual_emitted = emitted.ToHost(stream_);
    const std::vector<double> actual_densities = densities.ToHost(stream_);
    EXPECT_EQ(BitsOf<uint64_t>(actual_densities), BitsOf<uint64_t>(densities_alone));
    const std::vector<float> actual_mixtures = mixtures.ToHost(stream_);
    for (int p = 0; p < kPaths; ++p) {
      const MixtureView mixture = problem.Mixture(TargetRow(p));
      const StepDraw step = DrawStep(kSeed, numbers[p], kPosition);
      const int at = kPosition * kPaths + p;
      if (draw) {
        EXPECT_NEAR(actual[at], MixtureDraw(mixture, step.uniform, step.normal), 3e-5) << p;
      } else {
        EXPECT_EQ(actual[at], observed[at]);
      }
      const int emitted_at = at - kFirstEmitted * kPaths;
      EXPECT_EQ(actual_emitted[emitted_at], actual[at]);
      EXPECT_NEAR(actual_densities[emitted_at], MixtureLogDensity(mixture, actual[at]), 2e-4) << p;
      EXPECT_NEAR(actual_mixtures[emitted_at * 3 * shape.components + shape.components],
                  mixture.std[0], 2e-5);
    }
    for (int i = 0; i < kEmitted; ++i) {
      if (i / kPaths + kFirstEmitted == kPosition) continue;
      EXPECT_TRUE(std::isnan(actual_densities[i])) << "another position was written";
    }
  }
}

// Tiles of a decode: two at their first position, of one path and of 19, one whose last step this
// is, and one at its last row. Then an idle one, and one that scores.
class AdvanceTest : public HeadTest {
 protected:
  void SetUp() override {
    HeadTest::SetUp();
    if (IsSkipped()) return;
    values_.emplace(std::vector<float>(9 * 32));
    densities_.emplace(9 * 32);
    path_numbers_.emplace(std::vector<uint64_t>(32));
  }
  static std::vector<Tile> Tiles() {
    return {{.groups = 1}, {.groups = 3}, {.groups = 4},
            {.groups = 2}, {.groups = 0}, {.groups = 4, .visible_query = 7}};
  }
  std::vector<PathTile> Paths() {
    PathTile path = {.values = values_->data(),
                     .emitted_densities = densities_->data(),
                     .path_numbers = path_numbers_->data(),
                     .paths = 19,
                     .stride = 32,
                     .positions = 9,
                     .steps_left = 5};
    std::vector<PathTile> paths(6, path);
    paths[0].paths = 1;
    paths[2].position = 4;
    paths[2].token_position = 3;
    paths[2].steps_left = 1;
    paths[3].position = 8;
    paths[3].token_position = 7;
    paths[4].position = 1;
    paths[5].position = 2;
    paths[5].steps_left = 0;
    return paths;
  }
  static void Expect(const std::vector<Tile>& tiles, const std::vector<PathTile>& paths) {
    const std::vector<int> groups = {1, 3, 0, 0, 0, 4};
    const std::vector<int> positions = {1, 1, 5, 9, 1, 2};
    const std::vector<int> steps_left = {4, 4, 0, 4, 5, 0};
    for (int i = 0; i < 6; ++i) {
      SCOPED_TRACE(i);
      EXPECT_EQ(tiles[i].groups, groups[i]);
      EXPECT_EQ(paths[i].position, positions[i]);
      EXPECT_EQ(paths[i].steps_left, steps_left[i]);
      EXPECT_EQ(paths[i].head_blocks, 0);
      if (i >= 4) continue;
      EXPECT_EQ(paths[i].token_position, positions[i] - 1);
      EXPECT_EQ(tiles[i].append_position, positions[i] - 1);
      EXPECT_EQ(tiles[i].visible_query, positions[i]);
      EXPECT_EQ(tiles[i].visible_buffer, positions[i]);
    }
    EXPECT_EQ(tiles[4].append_position, -1);
    EXPECT_EQ(tiles[5].visible_query, 7);
  }

  std::optional<DeviceArray<float>> values_;
  std::optional<DeviceArray<double>> densities_;
  std::optional<DeviceArray<uint64_t>> path_numbers_;
};

TEST_F(AdvanceTest, EveryNumberOfSetsInABlock) {
  const HeadProblem problem(kSmallHead, 2, 1, /*tiles=*/6);
  for (int multiprocessors : {100, 6, 1}) {
    SCOPED_TRACE(multiprocessors);
    const DeviceArray<Tile> tiles(Tiles());
    const DeviceArray<PathTile> paths(Paths());
    HeadParams params = problem.Params(tiles);
    params.paths = paths.data();
    params.multiprocessors = multiprocessors;
    ExpectSuccess(LaunchHead(params, stream_), "launching the head");
    Expect(tiles.ToHost(stream_), paths.ToHost(stream_));
  }
}

TEST_F(AdvanceTest, UnfusedHead) {
  HeadProblem problem({.width = 8, .hidden = 16, .components = 3}, 2, 1, /*tiles=*/6);
  const DeviceArray<Tile> tiles(Tiles());
  const DeviceArray<PathTile> paths(Paths());
  UnfusedHeadParams params = problem.WideParams(tiles, /*of_paths=*/true);
  params.head.paths = paths.data();
  ExpectSuccess(LaunchUnfusedHead(params, stream_), "launching the head");
  Expect(tiles.ToHost(stream_), paths.ToHost(stream_));
}

TEST(ValidateHeadTest, NamesTheField) {
  EXPECT_THAT(std::string(ValidateUnfusedHead({}).message()), testing::HasSubstr("tiles is null"));
  EXPECT_THAT(std::string(ValidateHead({}).message()), testing::HasSubstr("tiles is null"));
}

}  // namespace
}  // namespace chorale::kernels::cuda
