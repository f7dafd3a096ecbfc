// Tests of goodness of fit, written for numbers that should be uniform on the unit cube.
//
// A sample whose joint distribution is known is turned into such numbers by Rosenblatt's transform,
// u_t = F_t(y_t | y_0 .. y_{t-1}): they are uniform and independent if and only if the sample has
// that distribution.
#ifndef CHORALE_TESTS_END_TO_END_STATISTICS_H_
#define CHORALE_TESTS_END_TO_END_STATISTICS_H_

#include <cstdint>
#include <vector>

namespace chorale::end_to_end {

// A Gaussian mixture, [M] each. Its arithmetic here shares nothing with the code under test.
struct ExactMixture {
  std::vector<double> mean;
  std::vector<double> std;
  std::vector<double> weight;

  double Cdf(double y) const;
  double LogDensity(double y) const;
};

// Chi-square statistic of `points` [n, dims] in [0, 1] against the uniform distribution, over
// bins^dims equal cells, as a standard normal score (Wilson and Hilferty's cube root): below 4 for
// all but one in 30,000 true samples.
double ChiSquareScore(const std::vector<double>& points, int64_t dims, int64_t bins);

// sqrt(n) times the largest distance between the empirical distribution of coordinate `dim` and the
// uniform one (Kolmogorov and Smirnov): below 2.2 for all but one in 8,000 true samples.
double KolmogorovScore(const std::vector<double>& points, int64_t dims, int64_t dim);

inline constexpr double kChiSquareLimit = 4.0;
inline constexpr double kKolmogorovLimit = 2.2;

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_STATISTICS_H_
