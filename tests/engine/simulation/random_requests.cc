#include "tests/engine/simulation/random_requests.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace chorale::testing {
namespace {

void CheckPredict(const SimulatedCall& call, const PredictResult& result) {
  ASSERT_EQ(std::ssize(result.mean), call.query_rows);
  for (int64_t row = 0; row < call.query_rows; ++row) {
    ASSERT_EQ(result.mean[row], static_cast<double>(row));
  }
}

// All values of vector i are i.
void CheckLogDensity(const SimulatedCall& call, const LogDensityResult& result) {
  ASSERT_EQ(std::ssize(result.log_density), call.paths);
  for (int64_t vector = 0; vector < call.paths; ++vector) {
    double expected = 0;
    for (int64_t row = 0; row < call.query_rows; ++row) {
      expected += FakeLogDensity(static_cast<float>(vector), row, row);
    }
    ASSERT_NEAR(result.log_density[vector], expected, 1e-9 * std::abs(expected));
  }
}

}  // namespace

// A table of the query rows of the call, for a request to its context, or to local rows of it.
template <typename Request>
Request RandomRequests::RequestOf(const SimulatedCall& call) {
  Request request;
  request.context = call.context;
  request.query_rows = SimulatedEngine::Rows(call.query_rows);
  if (random_->Percent(20)) request.local_rows = call.query_rows + random_->Below(40);
  return request;
}

void RandomRequests::Send(const std::shared_ptr<SimulatedCall>& call, CallContext of_call) {
  call->query_rows = random_->OneOf({0, 1, 2, 7, 32, 32, 200});
  call->paths = random_->OneOf({1, 3, 4, 33, 200});
  switch (random_->Below(6)) {
    case 0:
      return SendWarm(call, std::move(of_call));
    case 1:
      return SendPredict(call, std::move(of_call));
    case 2:
      return SendLogDensity(call, std::move(of_call));
    default:
      return SendSample(call, std::move(of_call));
  }
}

template <typename Result>
Callback<Result> RandomRequests::Answer(const std::shared_ptr<SimulatedCall>& call,
                                        Check<Result> check) {
  return [this, call, check](const absl::StatusOr<Result>& result) {
    call->End(result.status(), clock_->Now());
    if (!result.ok()) return;
    call->digest = result->source.context_digest;
    SCOPED_TRACE(call->what);
    check(*call, *result);
  };
}

void RandomRequests::SendWarm(const std::shared_ptr<SimulatedCall>& call, CallContext of_call) {
  call->what = "Warm";
  const Residency residency =
      random_->Percent(limits_.pinned_percent) ? Residency::kPinned : Residency::kUntilEvicted;
  const bool anew = random_->Percent(limits_.anew_percent);
  if (anew) call->what = "Warm, encoded anew";
  call->handle = engine_->impl().Warm(std::move(of_call), {call->context, residency, anew},
                                      [this, call](const absl::StatusOr<ContextInfo>& info) {
                                        call->End(info.status(), clock_->Now());
                                        if (info.ok()) call->digest = info->record.digest;
                                      });
}

void RandomRequests::SendPredict(const std::shared_ptr<SimulatedCall>& call, CallContext of_call) {
  call->query_rows *= call->paths;  // as many rows as the results of other calls
  call->what = absl::StrCat("Predict of ", call->query_rows);
  auto request = RequestOf<PredictRequest>(*call);
  request.want_mixtures = random_->Percent(30);
  request.quantiles.resize(random_->Below(3), 0.5);
  call->handle = engine_->impl().Predict(std::move(of_call), std::move(request),
                                         Answer<PredictResult>(call, CheckPredict));
}

void RandomRequests::SendLogDensity(const std::shared_ptr<SimulatedCall>& call,
                                    CallContext of_call) {
  call->what = absl::StrCat("LogDensity of ", call->paths, " times ", call->query_rows);
  auto request = RequestOf<LogDensityRequest>(*call);
  request.beyond_buffer = BeyondBuffer::kWrap;
  request.vectors = call->paths;
  for (int64_t vector = 0; vector < call->paths; ++vector) {
    request.y.insert(request.y.end(), call->query_rows, static_cast<double>(vector));
  }
  request.seed = 1;
  if (random_->Percent(30)) request.random_orders = 3;
  call->handle = engine_->impl().LogDensity(std::move(of_call), std::move(request),
                                            Answer<LogDensityResult>(call, CheckLogDensity));
}

void RandomRequests::SendSample(const std::shared_ptr<SimulatedCall>& call, CallContext of_call) {
  call->what = absl::StrCat("Sample of ", call->paths, " times ", call->query_rows);
  call->values.resize(call->paths);
  auto request = RequestOf<SampleRequest>(*call);
  request.snapping = Snapping::kOff;
  request.beyond_buffer = BeyondBuffer::kWrap;
  request.want_log_densities = call->want_log_densities = random_->Percent(30);
  request.paths = call->paths;
  request.seed = call->seed = random_->Below(1000);
  request.whole_paths = call->whole_paths = random_->Percent(30);
  if (random_->Percent(30)) request.first_path = call->first_path = random_->Below(1000);
  const absl::Duration reading = absl::Milliseconds(random_->OneOf({0, 1, 200}));
  const int64_t all = call->paths * call->query_rows;
  const int64_t most_unread = limits_.max_unacknowledged_values + (call->whole_paths ? all : 0);
  const int64_t read_at_most = random_->Percent(10) ? random_->Below(100) : all;
  auto read = [this, weak = std::weak_ptr(call), reading, read_at_most, most_unread,
               read = int64_t{0}](int64_t values) mutable {
    const auto reader = weak.lock();
    reader->outstanding += values;
    reader->progressed = clock_->Now();
    EXPECT_LT(reader->outstanding, most_unread);
    values = std::min(values, read_at_most - read);
    read += values;
    if (values == 0) return;
    clock_->After(reading, [this, reader, values] {
      if (reader->ends > 0) return;
      reader->outstanding -= values;
      reader->progressed = clock_->Now();
      reader->handle->Acknowledge(values);
    });
  };
  call->handle =
      engine_->impl().Sample(std::move(of_call), std::move(request),
                             std::make_shared<SimulatedObserver>(call, clock_, std::move(read)));
}

}  // namespace chorale::testing
