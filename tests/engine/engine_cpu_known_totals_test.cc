// Known totals over the real CPU backend: the first values of a path are those of a call without
// totals, and its weight is the density or the probability of its last value.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/cpu/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/cpu_engine_fixture.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 1e-4;  // of a log-density
constexpr double kRounding = 1e-9;   // of a sum
constexpr int64_t kRows = 5;
constexpr int64_t kPaths = 70;  // several tiles

class EngineCpuKnownTotalsTest : public CpuEngineFixture {
 protected:
  SampleRequest RequestOf(int64_t rows = kRows) const {
    auto request = MakeRequest<SampleRequest>(rows);
    request.paths = kPaths;
    request.seed = 5;
    request.snapping = Snapping::kOff;
    return request;
  }
  // [paths, rows]; known values are inserted.
  std::vector<double> ValuesOf(SampleRecorder& recorder, const SampleRequest& request) const {
    const int64_t rows = request.query_rows.rows();
    std::vector<double> values = recorder.ByTarget(request.paths, rows);
    for (int64_t path = 0; path < request.paths; ++path) {
      for (int64_t i = 0; i < request.known.count(); ++i) {
        values[path * rows + request.known.rows[i]] = request.known.value(path, i);
      }
    }
    return values;
  }
  static double SumOf(const std::vector<double>& values, int64_t first, int64_t count) {
    double sum = 0;
    for (int64_t i = first; i < first + count; ++i) sum += values[i];
    return sum;
  }
  static void ExpectSameBits(double a, double b) {
    EXPECT_EQ(std::bit_cast<uint64_t>(a), std::bit_cast<uint64_t>(b));
  }
  // The total that the paths of a request have on average, about.
  static constexpr double kTotal = 40;
};

INSTANTIATE_TEST_SUITE_P(RowEncoders, EngineCpuKnownTotalsTest,
                         ::testing::Values("feature_mean", "cell_attention"));

TEST_P(EngineCpuKnownTotalsTest, TheLastValueIsWhatIsLeftOfAnExactTotal) {
  SampleRequest request = RequestOf();
  request.want_log_densities = true;
  const auto without = Sample(request);
  EXPECT_THAT(without->summary().total_log_weights, IsEmpty());
  const std::vector<double> free = without->ByTarget(kPaths, kRows);
  request.known_totals = {{kTotal}, {kTotal}};
  const auto recorder = Sample(request);
  const std::vector<double> values = recorder->ByTarget(kPaths, kRows);
  const SampleSummary summary = recorder->summary();
  ASSERT_EQ(summary.total_log_weights.size(), static_cast<size_t>(kPaths));

  LogDensityRequest density;
  static_cast<RequestBase&>(density) = request;
  density.vectors = kPaths;
  density.y = values;
  density.want_terms = true;
  const LogDensityResult scored = LogDensity(density);
  const std::vector<double> drawn = recorder->LogDensityOfPaths(kPaths);
  double sum = 0;
  double squares = 0;
  for (int64_t p = 0; p < kPaths; ++p) {
    for (int64_t t = 0; t + 1 < kRows; ++t) {
      ExpectSameBits(values[p * kRows + t], free[p * kRows + t]);
    }
    EXPECT_NEAR(SumOf(values, p * kRows, kRows), kTotal, kRounding);
    const double term = scored.terms[p * kRows + kRows - 1];
    EXPECT_NEAR(summary.total_log_weights[p], term, kTolerance * (1 + std::abs(term)));
    EXPECT_NEAR(drawn[p], scored.log_density[p], kTolerance * (1 + std::abs(drawn[p])));
    const double weight = std::exp(summary.total_log_weights[p]);
    sum += weight;
    squares += weight * weight;
  }
  ASSERT_EQ(summary.total_effective_sample_sizes.size(), 1u);
  EXPECT_NEAR(summary.total_effective_sample_sizes[0], sum * sum / squares, 1e-6);
}

TEST_P(EngineCpuKnownTotalsTest, TheLastValueIsDrawnFromAnInterval) {
  SampleRequest request = RequestOf();
  const std::vector<double> free = Sample(request)->ByTarget(kPaths, kRows);
  for (const auto& [lower, upper] :
       {std::pair{kTotal - 0.5, kTotal + 0.5}, {-kInfinity, kTotal}, {kTotal, kInfinity}}) {
    request.known_totals = {{lower}, {upper}};
    const auto recorder = Sample(request);
    const std::vector<double> values = recorder->ByTarget(kPaths, kRows);
    LogDensityRequest density;
    static_cast<RequestBase&>(density) = request;
    density.vectors = 2 * kPaths;
    density.want_cdfs = true;
    for (const double end : {lower, upper}) {
      for (int64_t p = 0; p < kPaths; ++p) {
        for (int64_t t = 0; t + 1 < kRows; ++t) density.y.push_back(values[p * kRows + t]);
        const double finite_end = std::isfinite(end) ? end : (end < 0 ? -1e6 : 1e6);
        density.y.push_back(finite_end - SumOf(values, p * kRows, kRows - 1));
      }
    }
    const std::vector<double> cdfs = LogDensity(density).cdfs;
    for (int64_t p = 0; p < kPaths; ++p) {
      for (int64_t t = 0; t + 1 < kRows; ++t) {
        ExpectSameBits(values[p * kRows + t], free[p * kRows + t]);
      }
      const double total = SumOf(values, p * kRows, kRows);
      EXPECT_GE(total, lower - kRounding);
      EXPECT_LE(total, upper + kRounding);
      const double probability =
          cdfs[(kPaths + p) * kRows + kRows - 1] - cdfs[p * kRows + kRows - 1];
      EXPECT_NEAR(std::exp(recorder->summary().total_log_weights[p]), probability, kTolerance);
    }
  }
}

TEST_P(EngineCpuKnownTotalsTest, ATotalWithoutEndsChangesNothing) {
  SampleRequest request = RequestOf();
  const std::vector<double> free = Sample(request)->ByTarget(kPaths, kRows);
  request.known_totals = {{-kInfinity}, {kInfinity}};
  const auto recorder = Sample(request);
  EXPECT_EQ(recorder->ByTarget(kPaths, kRows), free);
  EXPECT_THAT(recorder->summary().total_log_weights, Each(0));
  EXPECT_THAT(recorder->summary().total_effective_sample_sizes, ::testing::ElementsAre(kPaths));
}

// The weighted value is the last one of the order of each path.
TEST_P(EngineCpuKnownTotalsTest, RandomOrdersEndWithTheWeightedValue) {
  SampleRequest request = RequestOf();
  request.order = RowOrder::kRandomPerPath;
  request.known = {{3}, {7.5}};
  const std::vector<double> free = ValuesOf(*Sample(request), request);
  request.known_totals = {{kTotal}, {kTotal}};
  const auto recorder = Sample(request);
  const std::vector<double> values = ValuesOf(*recorder, request);
  std::vector<int32_t> last(kPaths, -1);
  for (const SampleBlock& block : recorder->blocks()) {
    if (block.first_step + block.steps < kRows - 1) continue;
    for (int64_t p = 0; p < block.paths; ++p) {
      last[block.first_path + p] = block.query_rows[(p + 1) * block.steps - 1];
    }
  }
  std::vector<int64_t> places(kRows);
  for (int64_t p = 0; p < kPaths; ++p) {
    ++places[last[p]];
    for (int32_t row = 0; row < kRows; ++row) {
      if (row != last[p]) ExpectSameBits(values[p * kRows + row], free[p * kRows + row]);
    }
    EXPECT_NEAR(SumOf(values, p * kRows, kRows), kTotal, kRounding);
  }
  EXPECT_EQ(places[3], 0) << "known";
  EXPECT_GT(places[0], 0);
  EXPECT_GT(places[4], 0);
}

TEST_P(EngineCpuKnownTotalsTest, KnownValuesCountInTheTotal) {
  SampleRequest request = RequestOf();
  request.group_sizes = {static_cast<int32_t>(kRows)};  // blocks name their rows
  request.known.rows = {4, 0};
  for (int64_t p = 0; p < kPaths; ++p) {
    request.known.values.insert(request.known.values.end(), {6 + p / 100.0, 9 - p / 50.0});
  }
  request.known_totals = {{kTotal}, {kTotal}};
  const std::vector<double> values = ValuesOf(*Sample(request), request);
  for (int64_t p = 0; p < kPaths; ++p) {
    EXPECT_NEAR(SumOf(values, p * kRows, kRows), kTotal, kRounding);
  }
}

// Groups of 3, 4, 3 and 2 rows, of which the second has no known total, and one has a known value.
TEST_P(EngineCpuKnownTotalsTest, EachGroupHasATotalOfItsOwn) {
  constexpr int64_t kAllRows = 12;
  SampleRequest request = RequestOf(kAllRows);
  request.group_sizes = {3, 4, 3, 2};
  request.known = {{8}, {6.5}};
  const std::vector<double> free = ValuesOf(*Sample(request), request);
  request.known_totals = {{24, -kInfinity, 20, 16}, {24, kInfinity, 26, 16}};
  const auto recorder = Sample(request);
  const std::vector<double> values = ValuesOf(*recorder, request);
  const std::vector<double> weights = recorder->summary().total_log_weights;
  ASSERT_EQ(weights.size(), static_cast<size_t>(4 * kPaths));

  SampleRequest first = RequestOf(kAllRows);
  for (Column& column : first.query_rows.columns) column.numbers.resize(3);
  first.known_totals = {{24}, {24}};
  const auto alone = Sample(first);
  const std::vector<double> of_first = alone->ByTarget(kPaths, 3);
  for (int64_t p = 0; p < kPaths; ++p) {
    const double* const path = values.data() + p * kAllRows;
    for (int64_t row = 0; row < 3; ++row) EXPECT_EQ(path[row], of_first[p * 3 + row]);
    EXPECT_EQ(weights[4 * p], alone->summary().total_log_weights[p]);
    EXPECT_NEAR(SumOf(values, p * kAllRows, 3), 24, kRounding);
    for (int64_t row = 3; row < 7; ++row) EXPECT_EQ(path[row], free[p * kAllRows + row]);
    EXPECT_EQ(weights[4 * p + 1], 0);
    const double total = SumOf(values, p * kAllRows + 7, 3);
    EXPECT_GE(total, 20 - kRounding);
    EXPECT_LE(total, 26 + kRounding);
    EXPECT_NEAR(SumOf(values, p * kAllRows + 10, 2), 16, kRounding);
  }
  const std::vector<double> sizes = recorder->summary().total_effective_sample_sizes;
  ASSERT_EQ(sizes.size(), 4u);
  EXPECT_EQ(sizes[0], alone->summary().total_effective_sample_sizes[0]);
  EXPECT_EQ(sizes[1], kPaths);
}

// Of the paths of all schemes, some are drawn by a call of their own.
TEST_P(EngineCpuKnownTotalsTest, ACallForSomePathsHasTheirValuesAndWeights) {
  constexpr int64_t kFirst = 33;
  for (const Sampling sampling : {Sampling::kIndependent, Sampling::kSobol}) {
    for (const bool groups : {false, true}) {
      SampleRequest all = RequestOf();
      all.sampling = sampling;
      all.known_totals = {{kTotal - 2}, {kTotal}};
      if (groups) {
        all.group_sizes = {3, 2};
        all.known_totals = {{23, 15}, {25, 16}};
      }
      const auto expected = Sample(all);
      SampleRequest some = all;
      some.first_path = kFirst;
      some.paths = kPaths - kFirst;
      some.whole_paths = true;
      const auto actual = Sample(some);
      const std::vector<double> values = expected->ByTarget(kPaths, kRows);
      const std::vector<double> part = actual->ByTarget(kPaths, kRows);
      const auto per_path = static_cast<int64_t>(groups ? 2 : 1);
      for (int64_t p = kFirst; p < kPaths; ++p) {
        for (int64_t t = 0; t < kRows; ++t) EXPECT_EQ(part[p * kRows + t], values[p * kRows + t]);
        for (int64_t g = 0; g < per_path; ++g) {
          EXPECT_EQ(actual->summary().total_log_weights[(p - kFirst) * per_path + g],
                    expected->summary().total_log_weights[p * per_path + g]);
        }
      }
    }
  }
}

TEST_P(EngineCpuKnownTotalsTest, PathsBeyondTheBufferAndLocalRowsHaveTotals) {
  SampleRequest request = RequestOf(20);
  request.beyond_buffer = BeyondBuffer::kWrap;
  request.local_rows = 25;
  request.known_totals = {{160}, {160}};
  const std::vector<double> values = Sample(request)->ByTarget(kPaths, 20);
  for (int64_t p = 0; p < kPaths; ++p) EXPECT_NEAR(SumOf(values, 20 * p, 20), 160, 1e-8);
}

TEST_P(EngineCpuKnownTotalsTest, AnEstimateHasNoWeights) {
  SampleRequest request = RequestOf();
  request.known_totals = {{kTotal}, {kTotal}};
  request.validate_only = true;
  const auto recorder = Sample(request);
  EXPECT_TRUE(recorder->summary().estimate.has_value());
  EXPECT_THAT(recorder->summary().total_log_weights, IsEmpty());
}

TEST_P(EngineCpuKnownTotalsTest, TotalsBeyondTheRangeOfTheModelAreRejected) {
  SampleRequest request = RequestOf();
  const auto field = [&](double lower, double upper) {
    request.known_totals = {{lower}, {upper}};
    auto recorder = std::make_shared<SampleRecorder>();
    engine_->Sample({.tenant = kTenant}, request, recorder);
    return std::string(recorder->Wait().message());
  };
  EXPECT_THAT(field(-1e300, 1), ::testing::HasSubstr("known_totals.lower[0]"));
  EXPECT_THAT(field(-1, 1e300), ::testing::HasSubstr("known_totals.upper[0]"));
}

TEST_P(EngineCpuKnownTotalsTest, CountsHaveExactTotalsOfCounts) {
  Dataset counts = MakeDataset(40);
  for (size_t i = 0; i < counts.y.size(); ++i) counts.y[i] = static_cast<double>(i % 4);
  counts.y[0] = 9;
  ASSERT_TRUE(engine_->Register(kTenant, "counts", "", std::move(counts)).ok());
  SampleRequest request = RequestOf();
  request.context = "counts";
  request.snapping = Snapping::kOn;
  const std::vector<double> free = Sample(request)->ByTarget(kPaths, kRows);
  for (const double upper : {8.0, 10.5}) {
    request.known_totals = {{8}, {upper}};
    const auto recorder = Sample(request);
    const std::vector<double> values = recorder->ByTarget(kPaths, kRows);
    int64_t possible = 0;
    for (int64_t p = 0; p < kPaths; ++p) {
      for (int64_t t = 0; t + 1 < kRows; ++t) {
        ExpectSameBits(values[p * kRows + t], free[p * kRows + t]);
      }
      const double total = SumOf(values, p * kRows, kRows);
      EXPECT_GE(total, 8);
      EXPECT_LE(total, upper);
      const double last = values[p * kRows + kRows - 1];
      const double log_weight = recorder->summary().total_log_weights[p];
      EXPECT_LE(log_weight, 0) << "of a probability";
      EXPECT_EQ(log_weight == -kInfinity, last < 0);
      if (log_weight == -kInfinity) continue;
      ++possible;
      EXPECT_EQ(last, std::nearbyint(last));
    }
    EXPECT_GT(possible, kPaths / 4);
  }
}

// Independent normals with the mean 0.5 and the standard deviation 0.8, in the model's units, which
// are the user's. Given the total 3.2 of 4 values, each has the mean 0.8 and the variance
// 0.64 * 3/4 = 0.48, except for the weights.
TEST(EngineKnownTotalsTest, IndependentNormalsHaveTheirDistributionGivenTheTotal) {
  FakeStoreLog store;
  RecordingMetrics metrics;
  const auto engine = Engine::Create({}, cpu::NewBackend({2, 64 << 20, 16 << 20}).value(),
                                     std::make_unique<FakeStore>(&store),
                                     {MakeConstantModel({{.mean = 0.5F, .std = 0.8F}})}, &metrics)
                          .value();
  ASSERT_TRUE(engine->Register("tenant", "c", "", MakeDataset(40)).ok());
  SampleRequest request;
  request.context = "c";
  request.query_rows = MakeTargets(4);
  request.paths = 16'000;
  request.seed = 1;
  request.snapping = Snapping::kOff;
  request.known_totals = {{3.2}, {3.2}};
  const auto recorder = std::make_shared<SampleRecorder>();
  engine->Sample({.tenant = "tenant"}, request, recorder);
  ASSERT_EQ(recorder->Wait(), absl::OkStatus());
  const std::vector<double> values = recorder->ByTarget(request.paths, 4);
  const std::vector<double> log_weights = recorder->summary().total_log_weights;
  for (int64_t row = 0; row < 4; ++row) {
    double sum = 0;
    double mean = 0;
    double square = 0;
    for (int64_t p = 0; p < request.paths; ++p) {
      const double weight = std::exp(log_weights[p]);
      sum += weight;
      mean += weight * values[p * 4 + row];
      square += weight * values[p * 4 + row] * values[p * 4 + row];
    }
    mean /= sum;
    EXPECT_NEAR(mean, 0.8, 0.03) << row;
    EXPECT_NEAR(square / sum - mean * mean, 0.48, 0.03) << row;
  }
  // The mean weight is the density of the total, of the mean 2 and the variance 2.56.
  double sum = 0;
  for (const double log_weight : log_weights) sum += std::exp(log_weight);
  EXPECT_NEAR(sum / static_cast<double>(request.paths),
              std::exp(-0.5 * 1.2 * 1.2 / 2.56) / std::sqrt(2 * M_PI * 2.56), 3e-3);
}

}  // namespace
}  // namespace chorale::testing
