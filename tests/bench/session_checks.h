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

// From the CPU backend with the same model and data. Results that are not finite end the process.
//
// Of the log-densities of the values that the first tile draws, in nats: those of the decode that
// draws them or, if `in_one_pass`, those of a density of the values.
Differences LogDensitiesFromCpu(const BenchSession& session, const Model& model, uint64_t seed,
                                bool in_one_pass);
// Of the means of the query rows' predictions, in the model's units of y.
Differences PredictionsFromCpu(const BenchSession& session, const Model& model);

}  // namespace chorale

#endif  // CHORALE_TESTS_BENCH_SESSION_CHECKS_H_
