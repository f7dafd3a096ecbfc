#include "client/cpp/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/status_from_grpc.h"
#include "tests/client/cpp/fake_service.h"
#include "tests/eventually.h"

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kTargets = 7;

// Feature x, category c, target y.
DataFrame MakeTable(int64_t rows) {
  DataFrame frame;
  std::vector<double> x(rows);
  std::vector<double> y(rows);
  std::vector<std::optional<std::string>> c(rows);
  for (int64_t row = 0; row < rows; ++row) {
    x[row] = static_cast<double>(row) * 10.0;
    y[row] = static_cast<double>(row);
    if (row % 3 != 0) c[row] = row % 3 == 1 ? "a" : "bb";
  }
  EXPECT_TRUE(frame.AddNumeric("x", x).ok());
  EXPECT_TRUE(frame.AddCategorical("c", c).ok());
  EXPECT_TRUE(frame.AddNumeric("y", y).ok());
  return frame;
}

DataFrame MakeTargets(int64_t rows) {
  DataFrame frame = MakeTable(rows);
  frame.Remove({"y"});
  return frame;
}

double Score(int64_t row) { return static_cast<double>(row) * 10.0 + static_cast<double>(row % 3); }

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    ClientOptions options;
    options.call_timeout = kPatience;
    options.retry.first_delay = absl::Milliseconds(5);
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server_.address(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  void Register(const std::string& id) {
    const absl::StatusOr<Registration> done =
        client_->RegisterContext(id, MakeTable(5), {.target_column = "y"});
    ASSERT_TRUE(done.ok()) << done.status();
  }

  FakeService& service() { return server_.service(); }

  FakeServer server_;
  std::unique_ptr<Client> client_;
};

TEST_F(ClientTest, RegistersInBoundedChunks) {
  const int64_t rows = 100'000;
  const DataFrame table = MakeTable(rows);
  std::vector<int64_t> progress;
  RegisterOptions options{.target_column = "y", .model = "big"};
  options.on_progress = [&](int64_t done) { progress.push_back(done); };
  const absl::StatusOr<Registration> done = client_->RegisterContext("t", table, options);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->context.row_count(), rows);
  EXPECT_EQ(done->context.model(), "models/big");
  EXPECT_FALSE(done->already_registered);
  const std::vector<size_t> sizes = service().upload_sizes();
  ASSERT_GT(sizes.size(), 3u);
  for (const size_t size : sizes) EXPECT_LE(size, size_t{512 << 10} + 64);
  EXPECT_EQ(progress.size(), sizes.size() - 1);
  EXPECT_EQ(progress.back(), rows);
  int64_t row = 0;
  for (const v1::Table& chunk : service().Chunks("t")) {
    for (const double x : chunk.columns(0).numeric().values()) EXPECT_EQ(x, 10.0 * row++);
  }
  EXPECT_EQ(row, rows);
}

TEST_F(ClientTest, RegisteringAgainAndTakenNames) {
  Register("t");
  const auto again = client_->RegisterContext("t", MakeTable(5), {.target_column = "y"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->already_registered);
  const auto other = client_->RegisterContext("t", MakeTable(6), {.target_column = "y"});
  EXPECT_EQ(other.status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(ClientTest, RegisterChecksTheTargetBeforeItSends) {
  const auto expect_refused = [&](const DataFrame& table, const char* target, const char* what) {
    const auto done = client_->RegisterContext("t", table, {.target_column = target});
    EXPECT_EQ(done.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(done.status().message()), HasSubstr(what));
  };
  DataFrame missing;
  ASSERT_TRUE(missing.AddNumeric("y", {1.0, std::nan("")}).ok());
  expect_refused(MakeTable(3), "z", "no column 'z'");
  expect_refused(MakeTable(3), "c", "'c' is categorical");
  expect_refused(missing, "y", "'y' has 1 missing cells");
  expect_refused(DataFrame(), "y", "no rows");
  EXPECT_EQ(service().call_count(), 0);
}

TEST_F(ClientTest, RegisterReportsAServerThatEndsTheStreamEarly) {
  service().FailNext({WithBadField("bad", "header.context_id", "is malformed")});
  const auto done = client_->RegisterContext("T T", MakeTable(50'000), {.target_column = "y"});
  EXPECT_EQ(done.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(done.status().message()), HasSubstr("header.context_id: is malformed"));
}

TEST_F(ClientTest, ContextsAndModels) {
  service().set_page_limit(2);
  for (const char* id : {"a", "b", "c", "d", "e"}) Register(id);
  const auto contexts = client_->ListContexts();
  ASSERT_TRUE(contexts.ok()) << contexts.status();
  std::vector<std::string> names;
  for (const v1::Context& context : *contexts) names.push_back(context.name());
  EXPECT_THAT(names,
              ElementsAre("contexts/a", "contexts/b", "contexts/c", "contexts/d", "contexts/e"));
  EXPECT_EQ(client_->GetContext("b")->target_column(), "y");
  EXPECT_EQ(client_->WarmContext("b")->state(), v1::Context::RESIDENT);
  EXPECT_TRUE(client_->DeleteContext("b").ok());
  EXPECT_EQ(client_->GetContext("b").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->ListModels()->size(), 1u);
}

TEST_F(ClientTest, CallsAboutAContextHaveItsIdAsMetadata) {
  const auto expect_metadata = [&](const char* call, const std::string& id) {
    EXPECT_THAT(service().TakeContextMetadata(), ElementsAre(id)) << call;
  };
  Register("t");
  expect_metadata("RegisterContext", "t");
  EXPECT_TRUE(client_->GetContext("t").ok());
  expect_metadata("GetContext", "t");
  EXPECT_TRUE(client_->WarmContext("t").ok());
  expect_metadata("WarmContext", "t");
  EXPECT_TRUE(client_->Predict("t", MakeTargets(2), {}).ok());
  expect_metadata("Predict", "t");
  EXPECT_TRUE(client_->Sample("t", MakeTargets(2), {.path_count = 3}).ok());
  expect_metadata("Sample", "t");
  EXPECT_TRUE(client_->LogDensity("t", MakeTargets(2), {1.0, 2.0}, {}).ok());
  expect_metadata("LogDensity", "t");
  EXPECT_TRUE(client_->ListContexts().ok());
  expect_metadata("ListContexts", "");
  EXPECT_TRUE(client_->ListModels().ok());
  expect_metadata("ListModels", "");
  EXPECT_TRUE(client_->DeleteContext("t").ok());
  expect_metadata("DeleteContext", "t");
}

TEST_F(ClientTest, ARetryHasTheMetadataAgain) {
  Register("t");
  service().TakeContextMetadata();
  service().FailNext({grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining")});
  EXPECT_TRUE(client_->GetContext("t").ok());
  EXPECT_THAT(service().TakeContextMetadata(), ElementsAre("t", "t"));
}

TEST_F(ClientTest, AnIdThatCannotBeMetadataGoesWithout) {
  for (const std::string& id : {std::string("a\nb"), std::string("a\0b", 3), std::string("é"),
                                std::string(" t"), std::string(""), std::string(300, 'a')}) {
    EXPECT_EQ(client_->GetContext(id).status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(service().TakeContextMetadata(), ElementsAre(""));
  }
  EXPECT_EQ(client_->GetContext("Not An Id").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(service().TakeContextMetadata(), ElementsAre("Not An Id"));
}

TEST_F(ClientTest, ListCarriesOnWithThePageThatFailed) {
  service().set_page_limit(1);
  for (const char* id : {"a", "b", "c"}) Register(id);
  service().FailNext({grpc::Status::OK, grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining")});
  const auto contexts = client_->ListContexts();
  ASSERT_TRUE(contexts.ok()) << contexts.status();
  EXPECT_EQ(contexts->size(), 3u);
}

TEST_F(ClientTest, AListWithoutAnEndIsRefused) {
  service().set_page_token("again");
  const absl::Status status = client_->ListContexts().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the same page token twice"));
  EXPECT_EQ(service().call_times().size(), 2u);
}

TEST_F(ClientTest, RetriesAfterTheDelayThatTheServerAsksFor) {
  Register("t");
  const size_t before = service().call_times().size();
  service().FailNext(
      {WithRetryInfo(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", absl::Milliseconds(300))});
  ASSERT_TRUE(client_->GetContext("t").ok());
  const std::vector<absl::Time> times = service().call_times();
  ASSERT_EQ(times.size(), before + 2);
  EXPECT_GE(times[before + 1] - times[before], absl::Milliseconds(295));
}

TEST_F(ClientTest, NeverDeletesTwice) {
  Register("t");
  const int before = service().call_count();
  service().FailNext({grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining")});
  EXPECT_EQ(client_->DeleteContext("t").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(service().call_count(), before + 1);
}

TEST_F(ClientTest, PredictsManyRowsInPieces) {
  Register("t");
  constexpr int64_t kRows = 2500;
  PredictOptions options{.quantiles = {0.1, 0.9}, .mixture = PredictOptions::Mixture::kInclude};
  const auto predictions = client_->Predict("t", MakeTargets(kRows), options);
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  EXPECT_EQ(service().predict_requests().size(), 3u);
  ASSERT_EQ(predictions->means.size(), size_t{kRows});
  ASSERT_EQ(predictions->quantiles.size(), size_t{2 * kRows});
  ASSERT_EQ(predictions->mixtures.means_size(), 2 * kRows);
  for (int64_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(predictions->means[row], Score(row));
    EXPECT_EQ(predictions->stds[row], Score(row) / 2.0 + 1.0);
    EXPECT_EQ(predictions->quantiles[2 * row + 1], Score(row) + 0.9);
    EXPECT_EQ(predictions->mixtures.means(static_cast<int>(2 * row)), Score(row) - 1.0);
  }
}

TEST_F(ClientTest, PredictionsInPiecesAreOfOneTable) {
  Register("t");
  PredictOptions options;
  options.on_progress = [&](int64_t done) {
    if (done > 1024) return;
    ASSERT_TRUE(client_->DeleteContext("t").ok());
    ASSERT_TRUE(client_->RegisterContext("t", MakeTable(6), {.target_column = "y"}).ok());
  };
  const auto mixed = client_->Predict("t", MakeTargets(3000), options);
  EXPECT_EQ(mixed.status().code(), absl::StatusCode::kFailedPrecondition) << mixed.status();

  options.on_progress = nullptr;
  const auto whole = client_->Predict("t", MakeTargets(3000), options);
  ASSERT_TRUE(whole.ok()) << whole.status();
  options.expected_source = whole->source;
  EXPECT_TRUE(client_->Predict("t", MakeTargets(3), options).ok());
  options.expected_source.set_context_digest("another");
  EXPECT_EQ(client_->Predict("t", MakeTargets(3), options).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ClientTest, WarningsOfPiecesAreCountedTogether) {
  Register("t");
  std::vector<double> x(3000, 1.0);
  x[0] = x[1] = x[2999] = 2e6;
  DataFrame targets;
  ASSERT_TRUE(targets.AddNumeric("x", x).ok());
  ASSERT_TRUE(targets.AddNumeric("z", std::vector<double>(3000, 1.0)).ok());
  const auto predicted = client_->Predict("t", targets, {});
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  ASSERT_EQ(predicted->warnings.size(), 1u);
  EXPECT_EQ(predicted->warnings[0].cell_count(), 3);
  EXPECT_EQ(predicted->warnings[0].message(),
            "column \"x\": 2 too large; 3 cells in all rows together");
}

TEST_F(ClientTest, SamplesComeInRowOrder) {
  Register("t");
  for (const TargetOrder order : {TargetOrder::kGiven, TargetOrder::kRandomPerPath}) {
    SampleOptions options{.path_count = 30, .order = order};
    options.step_densities = StepDensities::kInclude;
    int64_t progress = 0;
    options.on_progress = [&](int64_t values) { progress = values; };
    const auto samples = client_->Sample("t", MakeTargets(kTargets), options);
    ASSERT_TRUE(samples.ok()) << samples.status();
    EXPECT_EQ(progress, 30 * kTargets);
    EXPECT_EQ(samples->summary.seed(), kPickedSeed);
    for (int64_t path = 0; path < 30; ++path) {
      for (int64_t t = 0; t < kTargets; ++t) {
        const int64_t at = path * kTargets + t;
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
                              .order = TargetOrder::kRandomPerPath,
                              .beyond_buffer = BeyondBuffer::kWrap};
  ASSERT_TRUE(client_->Sample("t", MakeTargets(2), options).ok());
  const v1::SampleRequest sent = service().last_sample();
  EXPECT_EQ(sent.context(), "contexts/t");
  EXPECT_EQ(sent.path_count(), 3);
  EXPECT_EQ(sent.seed(), 17u);
  EXPECT_EQ(sent.order(), v1::SampleRequest::RANDOM_PER_PATH);
  EXPECT_FALSE(sent.include_log_densities());
  EXPECT_EQ(sent.beyond_buffer(), v1::WRAP);
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
    const auto samples = client_->Sample("t", MakeTargets(kTargets),
                                         {.path_count = 10, .order = TargetOrder::kRandomPerPath});
    EXPECT_EQ(samples.status().code(), absl::StatusCode::kDataLoss) << samples.status();
    EXPECT_THAT(std::string(samples.status().message()), HasSubstr(what));
  }
}

TEST_F(ClientTest, StreamIsRetriedOnlyBeforeItsFirstBlock) {
  Register("t");
  service().FailNext({grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining")});
  int before = service().call_count();
  EXPECT_TRUE(client_->Sample("t", MakeTargets(kTargets), {.path_count = 2}).ok());
  EXPECT_EQ(service().call_count(), before + 2);

  service().set_stream_fault(StreamFault::kBreakAfterFirstBlock);
  before = service().call_count();
  const auto samples = client_->Sample("t", MakeTargets(kTargets), {.path_count = 2});
  EXPECT_EQ(samples.status().code(), absl::StatusCode::kUnavailable) << samples.status();
  EXPECT_EQ(service().call_count(), before + 1);
}

TEST_F(ClientTest, AStreamThatBreaksOffGivesWhatWasDrawn) {
  Register("t");
  for (const StreamFault fault :
       {StreamFault::kBreakAfterFirstBlock, StreamFault::kCancelAfterFirstBlock}) {
    service().set_stream_fault(fault);
    SampleOptions options{.path_count = 2, .seed = 7};
    std::optional<Samples> drawn;
    options.on_broken = [&drawn](Samples values) { drawn = std::move(values); };
    const auto samples = client_->Sample("t", MakeTargets(kTargets), options);
    EXPECT_EQ(samples.status().code(), absl::StatusCode::kUnavailable) << samples.status();
    ASSERT_TRUE(drawn.has_value());
    ASSERT_EQ(drawn->values.size(), 2 * kTargets);
    const auto missing = std::count_if(drawn->values.begin(), drawn->values.end(),
                                       [](double value) { return std::isnan(value); });
    EXPECT_GT(missing, 0);
    EXPECT_LT(missing, 2 * kTargets);
  }
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
      "t", MakeTargets(kTargets), {.path_count = 2},
      [](const v1::SampleBlock&) { return absl::AbortedError("seen enough"); });
  EXPECT_EQ(end.status(), absl::AbortedError("seen enough"));
  EXPECT_TRUE(Eventually([&] { return service().cancelled_count() == 1; }));
}

TEST_F(ClientTest, ACallbackMayReturnAnyError) {
  Register("t");
  const auto end = client_->SampleStream(
      "t", MakeTargets(kTargets), {.path_count = 2},
      [](const v1::SampleBlock&) { return absl::DeadlineExceededError("the disk was too slow"); });
  EXPECT_EQ(end.status(), absl::DeadlineExceededError("the disk was too slow"));
}

TEST_F(ClientTest, DeadlineEndsTheCallHereAndThere) {
  Register("t");
  service().set_stream_fault(StreamFault::kHang);
  const auto samples =
      client_->Sample("t", MakeTargets(kTargets), {.path_count = 2}, {.timeout = absl::Seconds(2)});
  EXPECT_EQ(samples.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(samples.status().message()), HasSubstr("no complete response within 2s"));
  EXPECT_TRUE(Eventually([&] { return service().cancelled_count() == 1; }));

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
  const auto samples = client_->Sample("t", MakeTargets(kTargets), {.path_count = 2},
                                       {.cancellation = &cancellation});
  canceller.join();
  EXPECT_EQ(samples.status().code(), absl::StatusCode::kCancelled) << samples.status();
  EXPECT_TRUE(Eventually([&] { return service().cancelled_count() == 1; }));
}

// The reader of a large stream stalls; other calls, including large ones, still succeed.
TEST_F(ClientTest, ASlowReaderHoldsUpNoOtherCall) {
  Register("t");
  int blocks = 0;
  const auto end = client_->SampleStream(
      "t", MakeTargets(600), {.path_count = 800}, [&](const v1::SampleBlock&) {
        if (++blocks != 10) return absl::OkStatus();
        absl::SleepFor(absl::Milliseconds(100));
        const auto predictions = client_->Predict("t", MakeTargets(20'000), {});
        return predictions.status();
      });
  EXPECT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(blocks, 200 * 200);
}

TEST_F(ClientTest, LogDensities) {
  Register("t");
  const std::vector<double> values = {0, 11, 22, 1, 12, 23};  // scores: 0, 11, 22
  LogDensityOptions options;
  options.terms = LogDensityOptions::Terms::kInclude;
  const auto given = client_->LogDensity("t", MakeTargets(3), values, options);
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_THAT(given->joint, ElementsAre(0, -3));
  EXPECT_THAT(given->terms, ElementsAre(0, 0, 0, -1, -1, -1));

  const auto random = client_->LogDensity("t", MakeTargets(3), values, {.random_orders = 4});
  ASSERT_TRUE(random.ok()) << random.status();
  EXPECT_THAT(random->standard_errors, ElementsAre(0.5, 0.5));
  EXPECT_EQ(random->seed, kPickedSeed);
  EXPECT_EQ(service().last_log_density().random_order_count(), 4);
}

TEST_F(ClientTest, ChecksArgumentsBeforeSending) {
  const int before = service().call_count();
  EXPECT_EQ(client_->Predict("t", DataFrame(), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->Sample("t", MakeTargets(2), {.path_count = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->LogDensity("t", MakeTargets(2), {1.0, 2.0, 3.0}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->LogDensity("t", MakeTargets(2), {}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto large = client_->Sample("t", MakeTargets(500'000), {.path_count = 1});
  EXPECT_EQ(large.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("the limit is 4194304"));
  EXPECT_EQ(service().call_count(), before);
}

TEST_F(ClientTest, ErrorsNameTheField) {
  Register("t");
  service().FailNext({WithBadField("", "path_count", "16385, the limit is 16384")});
  const auto samples = client_->Sample("t", MakeTargets(2), {.path_count = 16385});
  EXPECT_EQ(samples.status().message(), "path_count: 16385, the limit is 16384");
  EXPECT_THAT(RefusedFields(samples.status()), ElementsAre("path_count"));
}

TEST_F(ClientTest, ManyThreadsShareOneClient) {
  Register("t");
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        good += client_->GetContext("t").ok();
        good += client_->Sample("t", MakeTargets(4), {.path_count = 9}).ok();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 40);
}

}  // namespace
}  // namespace chorale::client
