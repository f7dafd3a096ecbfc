#include "engine/data/period_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "engine/data/lasting_wave.h"
#include "engine/data/orthonormal_basis.h"
#include "engine/data/running_index.h"
#include "engine/data/wave_fit.h"

namespace chorale {
namespace {

constexpr double kShortest = 3;   // shortest period, in steps
constexpr double kPeriods = 2.5;  // minimum periods in the span
constexpr double kFineness = 6;   // grid points per width of a peak

// A period is halved if the probability of its first wave by chance exceeds this.
constexpr double kFirstWave = 0.1;

// Scales to mean 0 and standard deviation 1 (1/n). Returns nullopt if the deviation is at most
// `least`.
std::optional<std::vector<double>> Standardised(absl::Span<const double> numbers, double least) {
  const double count = static_cast<double>(numbers.size());
  double mean = 0;
  for (const double x : numbers) mean += x;
  mean /= count;
  std::vector<double> result(numbers.begin(), numbers.end());
  for (double& x : result) x -= mean;
  const double deviation = std::sqrt(DotProduct(result, result) / count);
  if (!(deviation > least)) return std::nullopt;
  for (double& x : result) x /= deviation;
  return result;
}

// Z-scores y and shifts t to start at 0. Returns false for an uninformative series.
bool Prepare(SeriesRows* series) {
  const double rows = static_cast<double>(series->y.size());
  if (rows < 2) return false;
  const double first = series->t.front();
  if (!(series->t.back() - first <= kMostStepsPerRow * rows)) return false;
  for (double& t : series->t) t -= first;
  // Squares of a user's numbers may exceed float64.
  double size = 0;
  for (const double y : series->y) size = std::max(size, std::abs(y));
  if (size == 0) return false;
  for (double& y : series->y) y /= size;
  constexpr double kConstant = 1e-12;
  std::optional<std::vector<double>> scaled = Standardised(series->y, kConstant);
  if (!scaled.has_value()) return false;
  series->y = *std::move(scaled);
  return true;
}

struct SeriesFit {
  WaveFit fit;
  double rest = 0;  // residual with preceding values / residual with trend and other columns alone
};

double SquaresLeft(const OrthonormalBasis& basis, absl::Span<const double> y) {
  std::vector<double> left(y.begin(), y.end());
  basis.TakeFrom(&left);
  return DotProduct(left, left);
}

// Adds the rows of the trend after the first `before`. Returns false if all rows have the same t.
bool AddTrend(const SeriesRows& series, int64_t before, OrthonormalBasis* basis) {
  const std::optional<std::vector<double>> u = Standardised(series.t, 0);
  if (!u.has_value()) return false;
  basis->Add(std::vector<double>(u->size() - before, 1.0));
  basis->Add(absl::MakeConstSpan(*u).subspan(before));
  if (HasCurvedTrend(series)) {
    std::vector<double> squared = *u;
    for (double& each : squared) each *= each;
    basis->Add(absl::MakeConstSpan(squared).subspan(before));
  }
  return true;
}

// Fits a series with a trend, the other columns, and the `before` preceding values.
std::optional<SeriesFit> FitAfter(int64_t before, const SeriesRows& series) {
  const auto rows = static_cast<int64_t>(series.y.size());
  const int64_t trend = HasCurvedTrend(series) ? 3 : 2;
  const auto regressors = trend + before + static_cast<int64_t>(series.others.size());
  if (regressors > std::min(kMostRegressors, rows)) return std::nullopt;
  OrthonormalBasis basis;
  if (!AddTrend(series, before, &basis)) return std::nullopt;
  const auto later = [&](absl::Span<const double> column) { return column.subspan(before); };
  for (const std::vector<double>& column : series.others) basis.Add(later(column));
  const double without = SquaresLeft(basis, later(series.y));
  for (int64_t back = 1; back <= before; ++back) {
    basis.Add(absl::MakeConstSpan(series.y).subspan(before - back, rows - before));
  }
  const double rest = without > 0 ? SquaresLeft(basis, later(series.y)) / without : 0;
  const int64_t freedom = rows - before - basis.size() - kWaves;
  std::optional<WaveFit> fit =
      WaveFit::Make(std::move(basis), {series.t.begin() + before, series.t.end()},
                    {series.y.begin() + before, series.y.end()}, freedom);
  if (!fit.has_value()) return std::nullopt;
  return SeriesFit{*std::move(fit), rest};
}

// Several series with waves of a common period.
class WaveFits {
 public:
  // Ignores a fit without residual.
  void Add(WaveFit fit) {
    if (fit.freedom() == 0) return;
    freedom_ += fit.freedom();
    fits_.push_back(std::move(fit));
  }

  bool empty() const { return fits_.empty(); }
  int64_t count() const { return static_cast<int64_t>(fits_.size()); }
  int64_t freedom() const { return freedom_; }

  // The share of the squares that waves leave unexplained.
  double Ratio(double frequency, int second = 2) {
    double left = 0;
    for (WaveFit& fit : fits_) left += fit.Left(frequency, second);
    return left / static_cast<double>(freedom_);
  }
  double Chance(double ratio) const { return ChanceOfWaves(ratio, freedom_, count()); }
  WaveFits Beside(double period) const {
    WaveFits beside;
    for (const WaveFit& fit : fits_) {
      std::optional<WaveFit> rest = fit.Beside(period);
      if (rest.has_value()) beside.Add(*std::move(rest));
    }
    return beside;
  }

 private:
  std::vector<WaveFit> fits_;
  int64_t freedom_ = 0;
};

WaveFits FitsAfter(int64_t before, absl::Span<const SeriesRows> series) {
  WaveFits fits;
  for (const SeriesRows& each : series) {
    std::optional<SeriesFit> one = FitAfter(before, each);
    if (one.has_value()) fits.Add(std::move(one->fit));
  }
  return fits;
}

double LowestFrequency(double span) { return kPeriods / span; }

// The number of distinguishable frequencies.
double Tries(double span) { return 2 * span * (1 / kShortest - LowestFrequency(span)) + 1; }

struct Candidate {
  double frequency = 0;
  double ratio = 0;
};

void KeepBetter(double frequency, WaveFits* fits, Candidate* best) {
  const double ratio = fits->Ratio(frequency);
  if (ratio < best->ratio) *best = {frequency, ratio};
}

// The frequency with the smallest ratio.
Candidate BestFrequency(double span, WaveFits* fits) {
  const double low = LowestFrequency(span);
  constexpr double kHigh = 1 / kShortest;
  double width = 1 / (kFineness * span);
  Candidate best = {low, fits->Ratio(low)};
  const auto count = static_cast<int64_t>(std::ceil((kHigh - low) / width));
  for (int64_t i = 1; i < count; ++i) KeepBetter(low + static_cast<double>(i) * width, fits, &best);
  constexpr int kRefinements = 2;
  constexpr int kFiner = 8;
  for (int i = 0; i < kRefinements; ++i) {
    const double centre = best.frequency;
    for (int place = -kFiner; place <= kFiner; ++place) {
      if (place == 0) continue;
      KeepBetter(std::clamp(centre + width * place / kFiner, low, kHigh), fits, &best);
    }
    width /= kFiner;
  }
  return best;
}

FoundPeriod BestPeriod(double span, WaveFits* fits) {
  const Candidate best = BestFrequency(span, fits);
  double period = 1 / best.frequency;
  double least = best.ratio;
  double unrounded = best.ratio;
  const auto take_if = [&](double other, const auto& as_good) {
    if (other < kShortest || other > span / kPeriods) return false;
    const double ratio = fits->Ratio(1 / other);
    if (!as_good(ratio)) return false;
    period = other;
    least = ratio;
    return true;
  };
  const auto round_if_as_good = [&](double other) {
    // The tolerance: the effect of two columns per series by chance, or slightly more over all
    // series.
    const auto count = static_cast<double>(fits->count());
    const double columns = 2 * count + 4 * std::sqrt(count);
    const double bound = unrounded * (1 + columns / static_cast<double>(fits->freedom()));
    take_if(other, [bound](double ratio) { return ratio <= bound; });
  };
  // Whether the wave that half of the period omits, which is the best of all frequencies, may
  // explain as much by chance.
  const auto half_as_good = [&](double ratio) {
    const double chance = ChanceOfPairs(best.ratio / ratio, fits->freedom(), fits->count());
    return Tries(span) * chance > kFirstWave;
  };
  round_if_as_good(std::nearbyint(period));
  if (std::fmod(period, 2) != 1) {  // half of an odd number is not simpler
    // The wave may be the second harmonic of the period.
    if (take_if(period / 2, half_as_good) || take_if(std::nearbyint(period) / 2, half_as_good)) {
      unrounded = least;
    }
    round_if_as_good(std::nearbyint(period));
  }
  if (period != std::nearbyint(period)) {
    round_if_as_good(std::nearbyint(2 * period) / 2);
    round_if_as_good(std::nearbyint(2 * period));
  }
  return {period, std::min(1.0, Tries(span) * fits->Chance(least))};
}

// Returns 2 or 3 if the season repeats only after so many periods, else 1.
int Multiple(const WaveFits& fits, double period, double span) {
  WaveFits rest = fits.Beside(period);
  if (rest.empty()) return 1;
  int multiple = 1;
  double least = kSeasonLevel;
  // The second harmonic of the double period, and the third of the triple, is the period itself.
  constexpr std::pair<int, int> kCandidates[] = {{2, 3}, {3, 2}};
  for (const auto& [many, second] : kCandidates) {
    if (many * period > span / kPeriods) continue;
    const double chance = rest.Chance(rest.Ratio(1 / (many * period), second));
    if (chance < least) {
      least = chance;
      multiple = many;
    }
  }
  return multiple;
}

std::optional<FoundPeriod> LastingWave(const std::vector<SeriesRows>& series, double span) {
  WaveFits one = FitsAfter(1, series);
  WaveFits two = FitsAfter(2, series);
  if (one.empty() || two.empty()) return std::nullopt;
  const FoundPeriod found = BestPeriod(span, &one);
  if (found.chance > kSeasonLevel) return std::nullopt;
  const double beside_two = two.Chance(two.Ratio(1 / found.period));
  if (beside_two > kSeasonLevel) return std::nullopt;
  const double lasting = Tries(span) * ChanceOfLastingWave(series, found.period);
  if (lasting > kSeasonLevel) return std::nullopt;
  return FoundPeriod{found.period, std::max({found.chance, beside_two, lasting})};
}

std::optional<FoundPeriod> PeriodOf(const std::vector<SeriesRows>& series, double span) {
  constexpr int64_t kMostBefore = 4;
  constexpr double kSmooth = 1e-2;  // share left by preceding values: the residual may not be noise
  constexpr double kTold = 3e-3;    // preceding values hide any wave
  WaveFits fits;
  std::vector<SeriesRows> smooth;
  std::vector<const SeriesRows*> others;
  for (const SeriesRows& each : series) {
    const auto eighth = static_cast<int64_t>(each.y.size()) / 8;
    std::optional<SeriesFit> one = FitAfter(std::clamp<int64_t>(eighth, 1, kMostBefore), each);
    if (!one.has_value()) continue;
    if (one->rest <= kSmooth) {
      smooth.push_back(each);
    } else {
      others.push_back(&each);
    }
    if (one->rest <= kTold) one = FitAfter(0, each);
    if (one.has_value()) fits.Add(std::move(one->fit));
  }
  if (fits.empty()) return std::nullopt;
  std::optional<FoundPeriod> found = LastingWave(series, span);
  if (!found.has_value()) found = BestPeriod(span, &fits);
  if (!smooth.empty() && Tries(span) * ChanceOfLastingWave(smooth, found->period) > kSeasonLevel) {
    std::vector<SeriesRows> left;
    left.reserve(others.size());
    for (const SeriesRows* each : others) left.push_back(*each);
    return PeriodOf(left, span);
  }
  found->period *= Multiple(fits, found->period, span);
  return found;
}

// Equal numbers get the mean of their ranks.
std::vector<double> Ranks(absl::Span<const double> numbers) {
  std::vector<size_t> order(numbers.size());
  absl::c_iota(order, 0);
  absl::c_sort(order, [&](size_t a, size_t b) { return numbers[a] < numbers[b]; });
  std::vector<double> ranks(numbers.size());
  for (size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && numbers[order[end]] == numbers[order[first]]) ++end;
    for (size_t i = first; i < end; ++i) {
      ranks[order[i]] = static_cast<double>(first + end - 1) / 2;
    }
  }
  return ranks;
}

// Subtracts from y the effect of the other columns next to a trend, and rounds to 1e-9. Returns
// false if only the trend remains.
bool TakeOthers(SeriesRows* series) {
  OrthonormalBasis basis;
  if (!AddTrend(*series, 0, &basis)) return false;
  const auto trend = static_cast<size_t>(basis.size());
  for (const std::vector<double>& column : series->others) basis.Add(column);
  std::vector<double>& y = series->y;
  if (SquaresLeft(basis, y) <= kNoSquares * static_cast<double>(y.size())) return false;
  for (const std::vector<double>& column : absl::MakeConstSpan(basis.columns()).subspan(trend)) {
    const double share = DotProduct(column, y);
    for (size_t i = 0; i < y.size(); ++i) y[i] -= share * column[i];
  }
  constexpr double kEqual = 1e-9;
  for (double& each : y) each = std::nearbyint(each / kEqual);
  return true;
}

// Replaces y by the ranks of its residual after the other columns. Returns false if there is no
// residual.
bool RankRest(SeriesRows* series) {
  if (!series->others.empty() && !TakeOthers(series)) return false;
  std::optional<std::vector<double>> ranks = Standardised(Ranks(series->y), 0);
  if (!ranks.has_value()) return false;
  series->y = *std::move(ranks);
  return true;
}

}  // namespace

std::optional<FoundPeriod> FindPeriod(std::vector<SeriesRows> all) {
  // Shares of the level. The first search gives up the false positives that the second one adds.
  constexpr double kShareOfNumbers = 3.0 / 4;
  constexpr double kShareOfRanks = 1.0 / 10;
  std::vector<SeriesRows> series;
  for (SeriesRows& each : all) {
    if (Prepare(&each)) series.push_back(std::move(each));
  }
  double span = 0;
  for (const SeriesRows& each : series) span = std::max(span, each.t.back());
  if (!(span >= kShortest * kPeriods)) return std::nullopt;
  std::optional<FoundPeriod> found = PeriodOf(series, span);
  if (found.has_value()) found->chance = std::min(1.0, found->chance / kShareOfNumbers);
  if (found.has_value() && found->chance <= kSeasonLevel) return found;
  std::vector<SeriesRows> ranked;
  for (SeriesRows& each : series) {
    if (RankRest(&each)) ranked.push_back(std::move(each));
  }
  std::optional<FoundPeriod> by_ranks = PeriodOf(ranked, span);
  if (!by_ranks.has_value()) return found;
  by_ranks->chance = std::min(1.0, by_ranks->chance / kShareOfRanks);
  return found.has_value() && found->chance <= by_ranks->chance ? found : by_ranks;
}

}  // namespace chorale
