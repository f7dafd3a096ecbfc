// The blocks of the fake server's samples.
#ifndef CHORALE_TESTS_CLIENT_CPP_FAKE_SAMPLES_H_
#define CHORALE_TESTS_CLIENT_CPP_FAKE_SAMPLES_H_

#include <cstdint>
#include <vector>

#include "chorale/v1/chorale.pb.h"
#include "tests/client/cpp/fake_known_values.h"
#include "tests/client/cpp/fake_service.h"

namespace chorale::client {

// Returns all blocks of a request, in no particular order unless they are `in_order`. They have at
// most 4 paths and, unless the request is for whole paths, 3 steps.
std::vector<v1::SampleBlock> FakeBlocks(const v1::SampleRequest& request,
                                        const std::vector<FakeKnownValues>& groups, uint64_t seed,
                                        bool in_order);

// Damages the blocks as the fault requires.
void DamageBlocks(StreamFault fault, std::vector<v1::SampleBlock>* blocks);

// The log-weight of a path over a group with a known total.
inline double FakeLogWeight(int64_t path, int64_t group) {
  return static_cast<double>(-2 * (path % 3) - group) / 2;
}

// Adds the weights of the paths of a request, if it has known totals. The values do not have them.
void AddTotalWeights(const v1::SampleRequest& request, v1::SampleSummary* summary);

// Clears the fields that are about the delivery of the values.
void ForgetDelivery(v1::SampleRequest* request);

}  // namespace chorale::client

#endif  // CHORALE_TESTS_CLIENT_CPP_FAKE_SAMPLES_H_
