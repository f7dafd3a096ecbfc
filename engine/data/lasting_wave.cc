#include "engine/data/lasting_wave.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/data/orthonormal_basis.h"
#include "engine/data/wave_fit.h"

namespace chorale {
namespace {

constexpr int64_t kMostBlocks = 6;

// For one series: the share of the squares explained by separate waves per block that a common wave
// leaves unexplained, and its degrees of freedom.
struct Scatter {
  double ratio = 0;
  int64_t freedom = 0;
};

double SquaresBeside(const OrthonormalBasis& basis, std::vector<double> y) {
  basis.TakeFrom(&y);
  return DotProduct(y, y);
}

// The column in the rows of this block; 0 in all other rows.
std::vector<double> InBlock(const std::vector<double>& column, const std::vector<int64_t>& blocks,
                            int64_t block) {
  std::vector<double> result(column.size());
  for (size_t row = 0; row < column.size(); ++row) {
    if (blocks[row] == block) result[row] = column[row];
  }
  return result;
}

std::vector<std::vector<double>> WavesOf(const std::vector<double>& t, double period) {
  OrthonormalBasis waves;
  AddWaves(t, period, &waves);
  return waves.columns();
}

std::optional<Scatter> ScatterOf(const SeriesRows& series, double period) {
  constexpr double kBeyondRounding = 1e-6;
  const double length = series.t.back() + 1;
  const auto periods = static_cast<int64_t>(length / period + kBeyondRounding);
  const int64_t count = std::min(periods, kMostBlocks);
  if (count < 2) return std::nullopt;
  std::vector<int64_t> blocks;
  for (const double t : series.t) {
    const double block = (t + kBeyondRounding) * static_cast<double>(count) / length;
    blocks.push_back(std::min(static_cast<int64_t>(block), count - 1));
  }
  const std::vector<double> ones(series.t.size(), 1.0);
  OrthonormalBasis basis;
  for (int64_t block = 0; block < count; ++block) basis.Add(InBlock(ones, blocks, block));
  basis.Add(series.t);
  if (HasCurvedTrend(series)) {
    std::vector<double> squared = series.t;
    for (double& each : squared) each *= each;
    basis.Add(squared);
  }
  for (const std::vector<double>& column : series.others) basis.Add(column);
  const double without = SquaresBeside(basis, series.y);
  const std::vector<std::vector<double>> waves = WavesOf(series.t, period);
  for (const std::vector<double>& wave : waves) basis.Add(wave);
  const double common = SquaresBeside(basis, series.y);
  const int64_t before = basis.size();
  for (const std::vector<double>& wave : waves) {
    for (int64_t block = 0; block < count; ++block) basis.Add(InBlock(wave, blocks, block));
  }
  const double single = SquaresBeside(basis, series.y);
  const int64_t freedom = basis.size() - before;
  const double most = without - single;
  if (freedom == 0 || most <= kNoSquares * static_cast<double>(series.y.size())) {
    return std::nullopt;
  }
  return Scatter{(common - single) / most, freedom};
}

}  // namespace

double ChanceOfLastingWave(absl::Span<const SeriesRows> series, double period) {
  double sum = 0;
  int64_t freedom = 0;
  int64_t count = 0;
  for (const SeriesRows& each : series) {
    const std::optional<Scatter> scatter = ScatterOf(each, period);
    if (!scatter.has_value()) continue;
    sum += static_cast<double>(scatter->freedom) * scatter->ratio;
    freedom += scatter->freedom;
    ++count;
  }
  return count == 0 ? 1 : ChanceOfWaves(sum / static_cast<double>(freedom), freedom, count);
}

}  // namespace chorale
