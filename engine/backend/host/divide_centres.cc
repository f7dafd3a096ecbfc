#include "engine/backend/host/divide_centres.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/require.h"
#include "engine/backend/host/choose_keys.h"

namespace chorale {
namespace {

// The centres that are left after each cell has got one.
class CentreShares {
 public:
  CentreShares(std::vector<double> potential, absl::Span<const int32_t> keys, int64_t left)
      : potential_(std::move(potential)), keys_(keys), given_(keys.size()), left_(left) {
    open_.resize(keys.size());
    std::iota(open_.begin(), open_.end(), 0);
  }

  std::vector<int32_t> Divide() {
    while (FillCells()) {
    }
    DivideRest();
    return std::move(given_);
  }

 private:
  int32_t Most(int32_t cell) const { return keys_[cell] - 1; }

  double SumOfOpen() const {
    return std::accumulate(open_.begin(), open_.end(), 0.0,
                           [this](double sum, int32_t cell) { return sum + potential_[cell]; });
  }

  // Computes the shares of the open cells.
  void Share() {
    double sum = SumOfOpen();
    if (!(sum > 0)) {
      std::copy(keys_.begin(), keys_.end(), potential_.begin());
      sum = SumOfOpen();
    }
    share_.clear();
    for (const int32_t cell : open_) {
      share_.push_back(static_cast<double>(left_) * potential_[cell] / sum);
    }
  }

  // Fills the cells whose share is more than they can get. Returns whether there was one.
  bool FillCells() {
    Share();
    std::vector<int32_t> still_open;
    for (size_t i = 0; i < open_.size(); ++i) {
      const int32_t cell = open_[i];
      if (share_[i] > Most(cell)) {
        given_[cell] = Most(cell);
      } else {
        still_open.push_back(cell);
      }
    }
    if (still_open.size() == open_.size()) return false;
    for (const int32_t cell : open_) left_ -= given_[cell];
    open_ = std::move(still_open);
    return !open_.empty();
  }

  void DivideRest() {
    std::vector<std::pair<double, int32_t>> remainders;  // negative, to sort
    for (size_t i = 0; i < open_.size(); ++i) {
      const int32_t cell = open_[i];
      const double whole = std::floor(share_[i]);
      given_[cell] = static_cast<int32_t>(whole);
      left_ -= given_[cell];
      if (given_[cell] < Most(cell)) remainders.emplace_back(whole - share_[i], cell);
    }
    std::sort(remainders.begin(), remainders.end());
    Require(left_ >= 0 && left_ <= std::ssize(remainders), "remainders take what is left");
    for (int64_t i = 0; i < left_; ++i) ++given_[remainders[i].second];
  }

  std::vector<double> potential_;
  const absl::Span<const int32_t> keys_;
  std::vector<int32_t> given_;
  int64_t left_;
  std::vector<int32_t> open_;  // ascending
  std::vector<double> share_;  // of each open cell
};

}  // namespace

std::vector<int32_t> DivideCentres(std::vector<double> potential, absl::Span<const int32_t> keys,
                                   int64_t count) {
  const auto cells = static_cast<int64_t>(keys.size());
  Require(std::ssize(potential) == cells, "a cell has a potential");
  Require(std::all_of(keys.begin(), keys.end(), [](int32_t n) { return n >= 1; }),
          "a cell has a key");
  Require(count >= cells && count <= std::accumulate(keys.begin(), keys.end(), int64_t{0}),
          "the cells have room for the centres");
  std::vector<int32_t> centres = CentreShares(std::move(potential), keys, count - cells).Divide();
  for (int32_t& of_cell : centres) ++of_cell;
  return centres;
}

CentreCells DivideIntoCells(absl::Span<const int32_t> nearest, absl::Span<const float> distance,
                            absl::Span<const double> weight, int64_t cells, int64_t centres) {
  KeyGroups groups = GroupByCentre(nearest, cells);
  std::vector<double> potential(cells);
  for (size_t key = 0; key < nearest.size(); ++key) {
    const double square = std::max(distance[key], 0.0f);
    potential[nearest[key]] += weight[key] * square;
  }
  std::vector<int32_t> keys(cells);
  std::adjacent_difference(groups.group_begin.begin() + 1, groups.group_begin.end(), keys.begin());
  const std::vector<int32_t> divided = DivideCentres(std::move(potential), keys, centres);
  CentreCells result = {.member = std::move(groups.member),
                        .key_begin = std::move(groups.group_begin),
                        .centre_begin = std::vector<int32_t>(cells + 1)};
  std::partial_sum(divided.begin(), divided.end(), result.centre_begin.begin() + 1);
  return result;
}

}  // namespace chorale
