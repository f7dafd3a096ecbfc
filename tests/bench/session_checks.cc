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

std::vector<std::vector<float>> ValuesOf(const BenchSession& session,
                                         const Works<DecodeWork>& decodes) {
  std::vector<std::vector<float>> values;
  for (size_t tile = 0; tile < decodes.size(); ++tile) {
    values.push_back(session.Drawn(*decodes[tile], static_cast<int64_t>(tile)));
  }
  return values;
}

std::vector<double> LogDensities(const BenchSession& session,
                                 const std::vector<std::vector<float>>& values) {
  const Works<DensityWork> works = session.NewDensities(values);
  session.Run(works);
  std::vector<double> all;
  for (const std::unique_ptr<DensityWork>& work : works) {
    all.insert(all.end(), work->log_densities().begin(), work->log_densities().end());
  }
  return all;
}

// Mean of each predicted mixture.
std::vector<double> PredictedMeans(const BenchSession& session) {
  const std::unique_ptr<PredictWork> predict = session.NewPredict();
  session.Run({predict.get()});
  std::vector<double> means;
  for (int64_t row = 0; row < session.point().targets; ++row) {
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

  std::vector<std::vector<float>> InTiles(const std::vector<float>& values) const {
    std::vector<std::vector<float>> tiles;
    auto next = values.begin();
    for (int64_t tile = 0; tile < reference_.tiles(); ++tile) {
      const auto end = next + reference_.TilePaths(tile) * reference_.point().targets;
      tiles.emplace_back(next, end);
      next = end;
    }
    return tiles;
  }

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

std::vector<std::vector<float>> DrawnValues(const BenchSession& session, uint64_t seed) {
  const Works<DecodeWork> decodes = session.NewDecodes(seed);
  session.Run(decodes);
  return ValuesOf(session, decodes);
}

void HoldToEachOther(const BenchSession& session, uint64_t seed) {
  const Works<DecodeWork> decodes = session.NewDecodes(seed);
  session.Run(decodes);
  const std::vector<std::vector<float>> values = ValuesOf(session, decodes);
  if (DrawnValues(session, seed) != values) Fail("a second decode drew other values");
  const std::vector<double> densities = LogDensities(session, values);
  auto next = densities.begin();
  const int64_t targets = session.point().targets;
  for (size_t tile = 0; tile < decodes.size(); ++tile) {
    const int64_t paths = session.TilePaths(static_cast<int64_t>(tile));
    for (int64_t p = 0; p < paths; ++p) {
      for (int64_t t = 0; t < targets; ++t) {
        const double step = decodes[tile]->log_densities()[t * paths + p];
        const double forced = *next++;
        if (step == forced) continue;  // and no NaN
        Fail(absl::StrCat("log-density of path ", p, " of tile ", tile, " at place ", t, ": ", step,
                          " step by step, ", forced, " by teacher forcing"));
      }
    }
  }
}

Differences LogDensitiesFromCpu(const BenchSession& session, const Model& model, uint64_t seed) {
  const std::vector<float> values = DrawnValues(session, seed).front();
  const OnCpu reference(session, model);
  return Compare(LogDensities(session, {values}),
                 LogDensities(reference.session(), reference.InTiles(values)));
}

Differences PredictionsFromCpu(const BenchSession& session, const Model& model) {
  return Compare(PredictedMeans(session), PredictedMeans(OnCpu(session, model).session()));
}

}  // namespace chorale
