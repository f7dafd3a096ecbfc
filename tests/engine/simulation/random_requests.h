// Requests of random kinds and sizes, to an engine in virtual time.
#ifndef CHORALE_TESTS_ENGINE_SIMULATION_RANDOM_REQUESTS_H_
#define CHORALE_TESTS_ENGINE_SIMULATION_RANDOM_REQUESTS_H_

#include <cstdint>
#include <memory>

#include "engine/api/call_context.h"
#include "tests/engine/simulation/simulated_call.h"
#include "tests/engine/simulation/simulated_engine.h"
#include "tests/engine/simulation/virtual_clock.h"
#include "tests/support/random.h"

namespace chorale::testing {

struct RequestLimits {
  // The values that a stream may have outstanding, less one. With whole paths, there may be those
  // of the tiles in addition.
  int64_t max_unacknowledged_values = 0;
  // The percentage of Warm calls that pin their context.
  int64_t pinned_percent = 0;
  // The percentage of Warm calls that encode their context anew.
  int64_t anew_percent = 0;
};

class RandomRequests {
 public:
  // Owns nothing.
  RandomRequests(Random* random, VirtualClock* clock, SimulatedEngine* engine,
                 const RequestLimits& limits)
      : random_(random), clock_(clock), engine_(engine), limits_(limits) {}

  // Sends a request to the context of `call`, which is kept until the end of the call. A stream has
  // a reader that may be slow, or may stop. Results are checked when they arrive: their sizes and
  // what the fake backend computes, but for the values of a Sample, which are added to the call.
  void Send(const std::shared_ptr<SimulatedCall>& call, CallContext of_call);

 private:
  template <typename Request>
  Request RequestOf(const SimulatedCall& call);
  template <typename Result>
  using Check = void (*)(const SimulatedCall& call, const Result& result);

  // A callback that ends the call, and checks a result.
  template <typename Result>
  Callback<Result> Answer(const std::shared_ptr<SimulatedCall>& call, Check<Result> check);
  void SendWarm(const std::shared_ptr<SimulatedCall>& call, CallContext of_call);
  void SendPredict(const std::shared_ptr<SimulatedCall>& call, CallContext of_call);
  void SendLogDensity(const std::shared_ptr<SimulatedCall>& call, CallContext of_call);
  void SendSample(const std::shared_ptr<SimulatedCall>& call, CallContext of_call);

  Random* const random_;
  VirtualClock* const clock_;
  SimulatedEngine* const engine_;
  const RequestLimits limits_;
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_SIMULATION_RANDOM_REQUESTS_H_
