// The weights of paths whose totals are known (v1::SampleSummary.total_log_weights).
#ifndef CHORALE_CLIENT_CPP_PATH_WEIGHTS_H_
#define CHORALE_CLIENT_CPP_PATH_WEIGHTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "chorale/v1/chorale.pb.h"
#include "client/cpp/sample_assembly.h"

namespace chorale::client {

// Whether there are known totals in a request.
bool HasTotals(const v1::KnownTotals& totals);

// Checks the weights in the summary of a call with these totals. Unimplemented if they are missing,
// because the server ignores the totals; DataLoss if their number is not that of the paths of all
// groups.
absl::Status CheckPathWeights(const v1::SampleSummary& summary, const v1::KnownTotals& totals,
                              int64_t path_count, int64_t group_count);

// Returns paths without weights, by systematic resampling in each group: on average, a path occurs
// as often as its weight says, and never once more or less. All members of Samples but the weights
// are those of the paths, which count from 0. FailedPrecondition if all weights of a group are 0.
// Requires path_count > 0, and samples with weights in the order of the request, of groups of these
// sizes (groups.h).
absl::StatusOr<Samples> Resample(const Samples& samples, absl::Span<const int32_t> group_sizes,
                                 int64_t path_count, uint64_t seed);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_PATH_WEIGHTS_H_
