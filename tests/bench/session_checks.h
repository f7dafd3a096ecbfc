// What a session's results are held to before anything of it is timed.
#ifndef CHORALE_TESTS_BENCH_SESSION_CHECKS_H_
#define CHORALE_TESTS_BENCH_SESSION_CHECKS_H_

#include <cstdint>
#include <vector>

#include "engine/model/model.h"
#include "tests/bench/bench_session.h"

namespace chorale {

// What a decode draws, [T, paths].
std::vector<float> DrawnValues(const BenchSession& session, uint64_t seed);

// Ends the process unless a second decode draws the same values, and their log-densities in one
// pass differ from those of the decode by at most `bound` nats in the mean.
void HoldToEachOther(const BenchSession& session, uint64_t seed, double bound);

struct Differences {
  double mean = 0;
  double worst = 0;
};

// From the CPU backend with the same model and data: of the log-densities of what the first tile
// draws, in nats, and of the means of the query rows' predictions, in the model's units of y.
// Results that are not finite end the process.
Differences LogDensitiesFromCpu(const BenchSession& session, const Model& model, uint64_t seed);
Differences PredictionsFromCpu(const BenchSession& session, const Model& model);

}  // namespace chorale

#endif  // CHORALE_TESTS_BENCH_SESSION_CHECKS_H_
