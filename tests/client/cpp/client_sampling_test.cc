#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/client.h"
#include "tests/client/cpp/client_fixture.h"
#include "tests/support/eventually.h"

namespace chorale::client {
namespace {

using ::testing::HasSubstr;

TEST_F(ClientTest, SamplesComeInRowOrder) {
  Register("t");
  for (const RowOrder order : {RowOrder::kGiven, RowOrder::kRandomPerPath}) {
    SampleOptions options{.path_count = 30, .order = order};
    options.step_densities = StepDensities::kInclude;
    int64_t progress = 0;
    options.on_progress = [&](int64_t values) { progress = values; };
    const auto samples = client_->Sample("t", MakeRows(kRows), options);
    ASSERT_TRUE(samples.ok()) << samples.status();
    EXPECT_EQ(progress, 30 * kRows);
    EXPECT_EQ(samples->summary.seed(), kPickedSeed);
    for (int64_t path = 0; path < 30; ++path) {
      for (int64_t t = 0; t < kRows; ++t) {
        const int64_t at = path * kRows + t;
        EXPECT_EQ(samples->values[at], SampleValue(Score(t), path, kPickedSeed));
        EXPECT_EQ(samples->log_densities[at], SampleLogDensity(path, t));
      }
    }
  }
}

TEST_F(ClientTest, SampleSendsWhatWasAskedFor) {
  Register("t");
  const SampleOptions options{.path_count = 3,
                              .seed = 17,
                              .order = RowOrder::kRandomPerPath,
                              .beyond_buffer = BeyondBuffer::kWrap};
  ASSERT_TRUE(client_->Sample("t", MakeRows(2), options).ok());
  const v1::SampleRequest sent = service().last_sample();
  EXPECT_EQ(sent.context(), "contexts/t");
  EXPECT_EQ(sent.path_count(), 3);
  EXPECT_EQ(sent.seed(), 17u);
  EXPECT_EQ(sent.order(), v1::SampleRequest::ORDER_RANDOM_PER_PATH);
  EXPECT_FALSE(sent.include_log_densities());
  EXPECT_EQ(sent.beyond_buffer(), v1::BEYOND_BUFFER_WRAP);
}

TEST_F(ClientTest, AValidatedSampleReturnsAnEstimate) {
  Register("t");
  const auto summary = client_->ValidateSample("t", MakeRows(2), {.path_count = 3, .seed = 17});
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->seed(), 17u);
  EXPECT_EQ(summary->estimate().device_bytes(), 4096);
  EXPECT_EQ(summary->estimate().duration().seconds(), 3);
  EXPECT_TRUE(service().last_sample().validate_only());
  service().set_stream_fault(StreamFault::kIgnoreValidateOnly);
  EXPECT_EQ(client_->ValidateSample("t", MakeRows(2), {.path_count = 3}).status().code(),
            absl::StatusCode::kUnimplemented);
}

// 0 is a seed; without one the server chooses.
TEST_F(ClientTest, ASeedIsSentOnlyIfThereIsOne) {
  Register("t");
  for (const std::optional<uint64_t> seed :
       {std::optional<uint64_t>(0), std::optional<uint64_t>()}) {
    ASSERT_TRUE(client_->Sample("t", MakeRows(2), {.path_count = 1, .seed = seed}).ok());
    EXPECT_EQ(service().last_sample().has_seed(), seed.has_value());
  }
}

TEST_F(ClientTest, DamagedStreamsAreDataLoss) {
  Register("t");
  const std::vector<std::pair<StreamFault, std::string>> faults = {
      {StreamFault::kRepeatBlock, "twice"},
      {StreamFault::kDropBlock, "values arrived"},
      {StreamFault::kNoSummary, "without a summary"},
      {StreamFault::kTargetOutside, "query row 1000000 of 7"},
  };
  for (const auto& [fault, what] : faults) {
    service().set_stream_fault(fault);
    const auto samples = client_->Sample("t", MakeRows(kRows),
                                         {.path_count = 10, .order = RowOrder::kRandomPerPath});
    EXPECT_EQ(samples.status().code(), absl::StatusCode::kDataLoss) << samples.status();
    EXPECT_THAT(std::string(samples.status().message()), HasSubstr(what));
  }
}

TEST_F(ClientTest, StreamIsRetriedOnlyBeforeItsFirstBlock) {
  Register("t");
  service().FailNext({grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining")});
  int before = service().call_count();
  EXPECT_TRUE(client_->Sample("t", MakeRows(kRows), {.path_count = 2}).ok());
  EXPECT_EQ(service().call_count(), before + 2);

  service().set_stream_fault(StreamFault::kBreakAfterFirstBlock);
  before = service().call_count();
  const auto samples = client_->Sample("t", MakeRows(kRows), {.path_count = 2});
  EXPECT_EQ(samples.status().code(), absl::StatusCode::kUnavailable) << samples.status();
  EXPECT_EQ(service().call_count(), before + 1);
}

// A server that ends its calls, or a proxy: not the user.
TEST_F(ClientTest, ACallThatTheServerCancelsIsUnavailableAndRetried) {
  service().FailNext({grpc::Status(grpc::StatusCode::CANCELLED, "shutting down")});
  EXPECT_TRUE(client_->ListModels().ok());
  const grpc::Status cancelled(grpc::StatusCode::CANCELLED, "shutting down");
  service().FailNext(std::vector<grpc::Status>(20, cancelled));
  const absl::Status status = client_->ListModels().status();
  EXPECT_EQ(status, absl::UnavailableError("the server cancelled the call: shutting down"));
  service().FailNext({});
}

TEST_F(ClientTest, RefusingABlockCancelsTheStream) {
  Register("t");
  service().set_stream_fault(StreamFault::kHang);
  const auto end = client_->SampleStream(
      "t", MakeRows(kRows), {.path_count = 2},
      [](const v1::SampleBlock&) { return absl::AbortedError("seen enough"); });
  EXPECT_EQ(end.status(), absl::AbortedError("seen enough"));
  EXPECT_TRUE(Eventually([&] { return service().cancelled_count() == 1; }));
}

TEST_F(ClientTest, ACallbackMayReturnAnyError) {
  Register("t");
  const auto end = client_->SampleStream(
      "t", MakeRows(kRows), {.path_count = 2},
      [](const v1::SampleBlock&) { return absl::DeadlineExceededError("the disk was too slow"); });
  EXPECT_EQ(end.status(), absl::DeadlineExceededError("the disk was too slow"));
}

TEST_F(ClientTest, DeadlineEndsTheCallHereAndThere) {
  Register("t");
  service().set_stream_fault(StreamFault::kHang);
  const int calls = service().call_count();
  absl::Duration timeout = absl::Milliseconds(200);
  // Until it is enough for the call to arrive.
  for (; service().call_count() == calls && timeout < kPatience; timeout *= 2) {
    const absl::Status status =
        client_->Sample("t", MakeRows(kRows), {.path_count = 2}, {.timeout = timeout}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr(absl::StrCat("no complete response within ", absl::FormatDuration(timeout))));
  }
  EXPECT_TRUE(Eventually([&] { return service().cancelled_count() >= 1; }));

  service().set_delay(absl::Seconds(1));
  EXPECT_EQ(client_->GetContext("t", {.timeout = absl::Milliseconds(100)}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ClientTest, CancellationEndsTheCallHereAndThere) {
  Register("t");
  service().set_stream_fault(StreamFault::kHang);
  Cancellation cancellation;
  std::thread canceller([&] {
    EXPECT_TRUE(Eventually([&] { return service().last_sample().path_count() == 2; }));
    cancellation.Cancel();
  });
  const auto samples =
      client_->Sample("t", MakeRows(kRows), {.path_count = 2}, {.cancellation = &cancellation});
  canceller.join();
  EXPECT_EQ(samples.status().code(), absl::StatusCode::kCancelled) << samples.status();
  EXPECT_TRUE(Eventually([&] { return service().cancelled_count() == 1; }));
}

// The reader of a large stream stalls; other calls, including large ones, still succeed.
TEST_F(ClientTest, ASlowReaderHoldsUpNoOtherCall) {
  Register("t");
  int blocks = 0;
  const auto end =
      client_->SampleStream("t", MakeRows(600), {.path_count = 800}, [&](const v1::SampleBlock&) {
        if (++blocks != 10) return absl::OkStatus();
        absl::SleepFor(absl::Milliseconds(100));
        const auto predictions = client_->Predict("t", MakeRows(20'000), {});
        return predictions.status();
      });
  EXPECT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(blocks, 200 * 200);
}

}  // namespace
}  // namespace chorale::client
