// Predictions that arrive request by request, and calls that end early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "client/cpp/client.h"
#include "tests/client/cpp/client_fixture.h"

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kManyRows = 2500;  // three requests

class PredictionStreamTest : public ClientTest {
 protected:
  PredictionStreamTest() {
    Register("t");
    options_ = {.quantiles = {0.1, 0.9}, .mixture = PredictOptions::Mixture::kInclude};
    all_ = client_->Predict("t", MakeRows(kManyRows), options_).value();
    options_.on_predictions = [this](const Predictions& next) {
      sizes_.push_back(static_cast<int64_t>(next.means.size()));
      EXPECT_EQ(next.source.context_digest(), all_.source.context_digest());
      EXPECT_THAT(next.warnings, IsEmpty());
      Append(next);
      return absl::OkStatus();
    };
  }

  void Append(const Predictions& next) {
    const auto append = [](const auto& from, auto* to) {
      to->insert(to->end(), from.begin(), from.end());
    };
    append(next.means, &streamed_.means);
    append(next.stds, &streamed_.stds);
    append(next.quantiles, &streamed_.quantiles);
    EXPECT_EQ(next.mixtures.component_count(), 2);
    streamed_.mixtures.mutable_means()->MergeFrom(next.mixtures.means());
  }

  // Expects that the first `rows` predictions were streamed.
  void ExpectFirst(int64_t rows) const {
    const auto first = [](const auto& all, int64_t count) {
      return std::vector<double>(all.begin(), all.begin() + count);
    };
    EXPECT_EQ(streamed_.means, first(all_.means, rows));
    EXPECT_EQ(streamed_.stds, first(all_.stds, rows));
    EXPECT_EQ(streamed_.quantiles, first(all_.quantiles, 2 * rows));
    EXPECT_EQ(first(streamed_.mixtures.means(), streamed_.mixtures.means_size()),
              first(all_.mixtures.means(), 2 * rows));
  }

  absl::StatusOr<Predictions> Predict(const CallOptions& call = {}) {
    return client_->Predict("t", MakeRows(kManyRows), options_, call);
  }

  PredictOptions options_;
  Predictions all_;       // of a call without on_predictions
  Predictions streamed_;  // by on_predictions
  std::vector<int64_t> sizes_;
};

TEST_F(PredictionStreamTest, PredictionsComeInTheOrderOfTheRows) {
  std::vector<int64_t> progress;
  options_.on_progress = [&](int64_t rows) {
    EXPECT_EQ(rows, static_cast<int64_t>(streamed_.means.size()));
    progress.push_back(rows);
  };
  const auto rest = Predict();
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_THAT(sizes_, ElementsAre(1024, 1024, 452));
  EXPECT_THAT(progress, ElementsAre(1024, 2048, 2500));
  ExpectFirst(kManyRows);
  EXPECT_THAT(rest->means, IsEmpty());
  EXPECT_THAT(rest->stds, IsEmpty());
  EXPECT_THAT(rest->quantiles, IsEmpty());
  EXPECT_EQ(rest->mixtures.means_size(), 0);
  EXPECT_EQ(rest->source.context_digest(), all_.source.context_digest());
}

TEST_F(PredictionStreamTest, TheResultHasTheWarningsAndTheDensityOfKnownValues) {
  std::vector<double> x(kManyRows, 1.0);
  x[0] = x[2499] = 2e6;
  DataFrame rows;
  ASSERT_TRUE(rows.AddNumeric("x", x).ok());
  options_.known.add_rows(5);
  options_.known.add_values(1.5);
  const auto rest = client_->Predict("t", rows, options_);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(streamed_.means.size(), size_t{kManyRows - 1});
  ASSERT_EQ(rest->warnings.size(), 1u);
  EXPECT_EQ(rest->warnings[0].cell_count(), 2);
  EXPECT_THAT(rest->known_log_densities, ElementsAre(-1.5));
}

TEST_F(PredictionStreamTest, AnErrorAfterTheSecondRequestLeavesItsPredictions) {
  const grpc::Status ok;
  service().FailNext({ok, ok, grpc::Status(grpc::StatusCode::INTERNAL, "broken")});
  EXPECT_EQ(Predict().status().code(), absl::StatusCode::kInternal);
  ExpectFirst(2048);
}

// Each request has attempts of its own.
TEST_F(PredictionStreamTest, AFailedRequestIsRetried) {
  const grpc::Status ok;
  const grpc::Status transient(grpc::StatusCode::UNAVAILABLE, "draining");
  service().FailNext({transient, transient, ok, transient, transient, ok, transient, transient});
  EXPECT_TRUE(Predict().ok());
  EXPECT_THAT(sizes_, ElementsAre(1024, 1024, 452));
  ExpectFirst(kManyRows);
}

TEST_F(PredictionStreamTest, TheErrorOfTheCallbackEndsTheCall) {
  options_.on_predictions = [this](const Predictions& next) {
    Append(next);
    return absl::UnavailableError("full");  // of the caller: it is not retried
  };
  const int calls = service().call_count();
  EXPECT_EQ(Predict().status(), absl::UnavailableError("full"));
  EXPECT_EQ(service().call_count(), calls + 1);
  ExpectFirst(1024);
}

TEST_F(PredictionStreamTest, CancellationAndDeadlineLeaveTheFirstPredictions) {
  Cancellation cancellation;
  const auto keep = options_.on_predictions;
  options_.on_predictions = [&](const Predictions& next) {
    cancellation.Cancel();
    return keep(next);
  };
  EXPECT_EQ(Predict({.cancellation = &cancellation}).status().code(), absl::StatusCode::kCancelled);
  ExpectFirst(1024);

  streamed_ = {};
  options_.on_predictions = [&](const Predictions& next) {
    service().set_delay(absl::Seconds(30));  // of the next request
    return keep(next);
  };
  EXPECT_EQ(Predict({.timeout = absl::Seconds(1)}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  ExpectFirst(1024);
}

TEST_F(PredictionStreamTest, WithoutRowsNothingIsSent) {
  const int calls = service().call_count();
  EXPECT_EQ(client_->Predict("t", DataFrame(), options_).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(service().call_count(), calls);
  EXPECT_THAT(sizes_, IsEmpty());
}

}  // namespace
}  // namespace chorale::client
