// Calls for some paths of a seed, over the real CPU backend: their values are, to the bit, those
// that a call for all paths returns.
#include <bit>
#include <cstdint>
#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/cpu_engine_fixture.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

constexpr int64_t kRows = 8;     // as the model's buffer
constexpr int64_t kPaths = 100;  // several tiles
constexpr int64_t kFirst = 50;   // not a multiple of the paths of a tile

class EngineCpuFirstPathTest : public CpuEngineFixture {
 protected:
  SampleRequest AllPaths() const {
    auto request = MakeRequest<SampleRequest>(kRows);
    request.paths = kPaths;
    request.seed = 5;
    request.want_log_densities = true;
    return request;
  }

  // Expects that a call for the paths from kFirst has the values, the query rows, the log-densities
  // and the densities of known values that `all` has for these paths.
  void ExpectTheSame(const SampleRequest& all, SampleRequest some) {
    some.first_path = kFirst;
    some.paths = kPaths - kFirst;
    const auto expected = Sample(all);
    const auto actual = Sample(some);
    EXPECT_EQ(BitsOf(*actual), BitsOf(*expected));
    EXPECT_EQ(Densities(*actual), Densities(*expected));
    if (all.known.sets() <= 1) {
      EXPECT_EQ(actual->summary().known_log_densities, expected->summary().known_log_densities);
    }
  }

  // The bits of the values of the paths from kFirst; those of NaN for known values.
  static std::vector<uint64_t> BitsOf(SampleRecorder& recorder) {
    const std::vector<double> values = recorder.ByTarget(kPaths, kRows);
    std::vector<uint64_t> bits;
    for (size_t i = kFirst * kRows; i < values.size(); ++i) {
      bits.push_back(std::bit_cast<uint64_t>(values[i]));
    }
    return bits;
  }

  // The log-densities of the paths from kFirst, by path, step and query row.
  static std::map<std::vector<int64_t>, double> Densities(SampleRecorder& recorder) {
    std::map<std::vector<int64_t>, double> densities;
    for (const SampleBlock& block : recorder.blocks()) {
      for (int64_t i = 0; i < block.paths * block.steps; ++i) {
        const int64_t p = i / block.steps;
        const int64_t path =
            block.path_indices.empty() ? block.first_path + p : block.path_indices[p];
        const int64_t step = block.first_step + i % block.steps;
        const int64_t row = block.query_rows.empty() ? -1 : block.query_rows[i];
        if (path >= kFirst) densities[{path, step, row}] = block.log_densities.at(i);
      }
    }
    return densities;
  }
};

INSTANTIATE_TEST_SUITE_P(RowEncoders, EngineCpuFirstPathTest,
                         ::testing::Values("feature_mean", "cell_attention"));

TEST_P(EngineCpuFirstPathTest, ItsPathsAreThoseOfACallForAllPaths) {
  ExpectTheSame(AllPaths(), AllPaths());
}

TEST_P(EngineCpuFirstPathTest, WholePathsHaveTheSameValues) {
  SampleRequest some = AllPaths();
  some.whole_paths = true;
  ExpectTheSame(AllPaths(), some);
}

TEST_P(EngineCpuFirstPathTest, RandomOrdersAreThoseOfThesePaths) {
  SampleRequest request = AllPaths();
  request.order = RowOrder::kRandomPerPath;
  ExpectTheSame(request, request);
}

TEST_P(EngineCpuFirstPathTest, EachGroupHasThesePaths) {
  SampleRequest request = AllPaths();
  request.group_sizes = {2, 3, 2, 1};
  request.known = {{3}, {0.7}};
  ExpectTheSame(request, request);
  request.order = RowOrder::kRandomPerPath;
  ExpectTheSame(request, request);
}

TEST_P(EngineCpuFirstPathTest, KnownValuesOfEachPathAreThoseOfTheCall) {
  SampleRequest all = AllPaths();
  all.known.rows = {4, 0};
  SampleRequest some = all;
  for (int64_t path = 0; path < kPaths; ++path) {
    for (const double value : {static_cast<double>(path) / 10, 1.0 - static_cast<double>(path)}) {
      all.known.values.push_back(value);
      if (path >= kFirst) some.known.values.push_back(value);
    }
  }
  ExpectTheSame(all, some);
  const auto densities = Sample(all)->summary().known_log_densities;
  some.first_path = kFirst;
  some.paths = kPaths - kFirst;
  EXPECT_EQ(Sample(some)->summary().known_log_densities,
            std::vector<double>(densities.begin() + kFirst, densities.end()));
}

}  // namespace
}  // namespace chorale::testing
