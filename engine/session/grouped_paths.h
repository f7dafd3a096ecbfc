// The paths of the groups of a request, in the sequence in which they are divided into tiles.
#ifndef CHORALE_ENGINE_SESSION_GROUPED_PATHS_H_
#define CHORALE_ENGINE_SESSION_GROUPED_PATHS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/session/query_groups.h"
#include "engine/session/tile_plan.h"
#include "kernels/ops/step_draw.h"

namespace chorale {

// A path of a request.
struct GroupPath {
  int64_t group = 0;
  int64_t path = 0;  // of the group, from 0
};

// Returns the number by which a path draws its random numbers (DecodeSpec::path_numbers), where
// `path.path` counts from SampleRequest::first_path. It does not depend on the number of groups or
// paths, and for the first group it is the path, with a flag for Sobol points.
inline uint64_t PathNumber(const GroupPath& path, Sampling sampling = Sampling::kIndependent) {
  const uint64_t flag = sampling == Sampling::kSobol ? kernels::kSobolFlag : 0;
  return flag | (static_cast<uint64_t>(path.group) << 32) | static_cast<uint64_t>(path.path);
}

// The paths of a tile have equal numbers of positions and of known values. So the sequence begins
// with the paths of all groups that are equal to the first group in these numbers: the first path
// of each of these groups, then the second path of each, and so on. The paths of the other groups
// follow alike. If the paths are drawn in several rounds, the sequence has the paths of one round
// after those of another, each in this way. Immutable.
class GroupedPaths {
 public:
  GroupedPaths(const GroupedPaths&) = delete;
  GroupedPaths& operator=(const GroupedPaths&) = delete;
  // Each group has `rounds.back()` paths, of which the first draws the random numbers of
  // `first_path`. A round ends with `rounds[i]` paths of each group. REQUIRES: `rounds` is not
  // empty and ascends; first_path + rounds.back() <= 2^32; `groups` outlives this object.
  GroupedPaths(const QueryGroups* groups, std::vector<int64_t> rounds, int64_t first_path = 0);
  // A single round.
  GroupedPaths(const QueryGroups* groups, int64_t paths, int64_t first_path = 0)
      : GroupedPaths(groups, std::vector<int64_t>{paths}, first_path) {}

  // The lengths of the paths in the sequence: lengths_per_round() entries for each round.
  std::vector<EqualPaths> lengths() const;
  int64_t lengths_per_round() const { return static_cast<int64_t>(equal_groups_.size()); }
  // Returns path `index` of the sequence.
  GroupPath At(int64_t index) const;

  // Return an array for the paths [first, first + count) of the sequence, which belong to one tile.
  // TileSpec::order, [count, P]: after the known rows, the others in ascending order. Empty if that
  // is the order of the query rows.
  std::vector<int32_t> GivenOrder(int64_t first, int64_t count) const;
  // TileSpec::order, [count, P]: after the known rows, the others in an order of each path
  // (kernels::DrawOrder). If `orders` is more than 1, path b * orders + r of a group has order r of
  // the vector b, and each order with an odd r is the one before it, reversed.
  std::vector<int32_t> RandomOrders(uint64_t seed, int64_t first, int64_t count,
                                    int64_t orders = 1) const;
  // DecodeSpec::path_numbers, [count].
  std::vector<uint64_t> Numbers(int64_t first, int64_t count, Sampling sampling) const;

 private:
  // Groups that are equal in their numbers of positions and known values, ascending.
  using EqualGroups = std::vector<int64_t>;
  // The paths of equal groups in a round.
  struct Segment {
    int64_t first = 0;  // path, in the sequence
    const EqualGroups* groups = nullptr;
    int64_t first_path = 0;  // of each group
    int64_t paths = 0;       // of each group
  };

  uint64_t NumberOf(const GroupPath& path, Sampling sampling = Sampling::kIndependent) const {
    return PathNumber({path.group, first_path_ + path.path}, sampling);
  }

  const QueryGroups* const groups_;
  const int64_t first_path_;
  std::vector<EqualGroups> equal_groups_;
  std::vector<Segment> segments_;
};

// Returns the rows whose values are not known, those of groups with equal numbers of known values
// after each other.
std::vector<int32_t> PredictedRows(const QueryGroups& groups);
// Returns the lengths of the paths of these predictions, each of which has the known rows of its
// group and the predicted row.
std::vector<EqualPaths> PredictionLengths(const QueryGroups& groups,
                                          const std::vector<int32_t>& predicted_rows);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_GROUPED_PATHS_H_
