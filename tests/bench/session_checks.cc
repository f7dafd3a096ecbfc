#include "tests/bench/session_checks.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/backend.h"
#include "tests/engine/backend/path_arrays.h"

namespace chorale {
namespace {

Differences Compare(const std::vector<double>& actual, const std::vector<double>& expected) {
  Differences differences;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::abs(actual[i] - expected[i]);
    if (!std::isfinite(difference)) Fail(absl::StrCat("result ", i, " is not finite"));
    differences.mean += difference / static_cast<double>(actual.size());
    differences.worst = std::max(differences.worst, difference);
  }
  return differences;
}

// [T, paths] of all of them.
template <typename T>
std::vector<double> LogDensitiesOf(const Works<T>& works, int64_t query_rows) {
  std::vector<absl::Span<const double>> tiles;
  for (const std::unique_ptr<T>& work : works) tiles.push_back(work->log_densities());
  return JoinTiles(tiles, query_rows);
}

std::vector<float> ValuesOf(const Works<DecodeWork>& works, int64_t query_rows) {
  std::vector<absl::Span<const float>> tiles;
  for (const std::unique_ptr<DecodeWork>& work : works) tiles.push_back(work->values());
  return JoinTiles(tiles, query_rows);
}

// In one pass, [T, paths] as `values`.
std::vector<double> LogDensities(const BenchSession& session, const std::vector<float>& values) {
  const Works<DensityWork> works = session.NewDensities(values);
  session.Run(works);
  return LogDensitiesOf(works, session.point().query_rows);
}

// Mean of each predicted mixture.
std::vector<double> PredictedMeans(const BenchSession& session) {
  const std::unique_ptr<PredictWork> predict = session.NewPredict();
  session.Run({predict.get()});
  std::vector<double> means;
  for (int64_t row = 0; row < session.point().query_rows; ++row) {
    const MixtureSpan mixture = predict->mixture(row);
    double mean = 0;
    for (size_t m = 0; m < mixture.mean.size(); ++m) {
      mean += std::exp(mixture.log_weight[m]) * mixture.mean[m];
    }
    means.push_back(mean);
  }
  return means;
}

// The first tile of a session, on the CPU backend, whose own tiles may be smaller.
class OnCpu {
 public:
  OnCpu(const BenchSession& session, const Model& model)
      : cpu_(NewCpu()), reference_(cpu_.get(), model, FirstTile(session)) {}

  const BenchSession& session() const { return reference_; }

 private:
  static std::unique_ptr<Backend> NewCpu() {
    absl::StatusOr<std::unique_ptr<Backend>> cpu =
        cpu::NewBackend({.context_pool_bytes = 16LL << 30, .buffer_pool_bytes = 4LL << 30});
    if (!cpu.ok()) Fail(cpu.status().ToString());
    return *std::move(cpu);
  }
  static BenchPoint FirstTile(const BenchSession& session) {
    BenchPoint point = session.point();
    point.paths = session.TilePaths(0);
    return point;
  }

  const std::unique_ptr<Backend> cpu_;
  const BenchSession reference_;
};

}  // namespace

std::vector<float> DrawnValues(const BenchSession& session, uint64_t seed) {
  const Works<DecodeWork> decodes = session.NewDecodes(seed);
  session.Run(decodes);
  return ValuesOf(decodes, session.point().query_rows);
}

void HoldToEachOther(const BenchSession& session, uint64_t seed, double bound) {
  const int64_t query_rows = session.point().query_rows;
  const Works<DecodeWork> decodes = session.NewDecodes(seed);
  session.Run(decodes);
  const std::vector<float> values = ValuesOf(decodes, query_rows);
  const std::vector<double> stepped = LogDensitiesOf(decodes, query_rows);
  if (DrawnValues(session, seed) != values) Fail("a second decode drew other values");
  const Differences differences = Compare(LogDensities(session, values), stepped);
  if (differences.mean > bound) {
    Fail(absl::StrCat("log-densities by teacher forcing differ from those step by step by ",
                      differences.mean, " in the mean"));
  }
}

Differences LogDensitiesFromCpu(const BenchSession& session, const Model& model, uint64_t seed,
                                bool in_one_pass) {
  const int64_t query_rows = session.point().query_rows;
  const auto of_first_tile = [&](const auto& of_all) {
    return SelectPaths(of_all, session.point().paths, 0, session.TilePaths(0));
  };
  const Works<DecodeWork> decodes = session.NewDecodes(seed);
  session.Run(decodes);
  const std::vector<float> values = of_first_tile(ValuesOf(decodes, query_rows));
  const std::vector<double> actual = in_one_pass
                                         ? LogDensities(session, values)
                                         : of_first_tile(LogDensitiesOf(decodes, query_rows));
  return Compare(actual, LogDensities(OnCpu(session, model).session(), values));
}

Differences PredictionsFromCpu(const BenchSession& session, const Model& model) {
  return Compare(PredictedMeans(session), PredictedMeans(OnCpu(session, model).session()));
}

}  // namespace chorale
