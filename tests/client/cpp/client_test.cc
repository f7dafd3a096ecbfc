#include "client/cpp/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/status_from_grpc.h"
#include "tests/client/cpp/client_fixture.h"
#include "tests/client/cpp/fake_service.h"
#include "tests/client/cpp/server_errors.h"

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST_F(ClientTest, RegistersDetails) {
  const auto registered =
      client_->RegisterContext("t", MakeTable(3),
                               {.target_column = "y",
                                .description = "houses",
                                .labels = {{"team", "a"}},
                                .ttl = absl::Seconds(90) + absl::Milliseconds(500)});
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->context.description(), "houses");
  EXPECT_EQ(registered->context.labels().at("team"), "a");
  EXPECT_EQ(registered->context.expire_time().seconds(), 90);
  Register("u");
  EXPECT_FALSE(client_->GetContext("u")->has_expire_time());
}

TEST_F(ClientTest, RegistersMemorySets) {
  const RegisterOptions options{
      .target_column = "y", .memory_rows = 64, .memory_policy = v1::MEMORY_POLICY_SAMPLE};
  const auto registered = client_->RegisterContext("t", MakeTable(3), options);
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->context.memory_row_count(), 64);
  EXPECT_EQ(registered->context.memory_policy(), v1::MEMORY_POLICY_SAMPLE);
  Register("u");
  EXPECT_EQ(client_->GetContext("u")->memory_row_count(), 0);
}

TEST_F(ClientTest, AValidatedTableIsNotRegistered) {
  const auto validated =
      client_->RegisterContext("t", MakeTable(3), {.target_column = "y", .validate_only = true});
  ASSERT_TRUE(validated.ok()) << validated.status();
  EXPECT_EQ(validated->context.name(), "contexts/t");
  EXPECT_EQ(validated->estimate.device_bytes(), 8192);
  EXPECT_EQ(client_->GetContext("t").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ClientTest, ReplacesAContextWithTheEtag) {
  Register("t");
  const std::string etag = client_->GetContext("t")->etag();
  const auto other = [&](RegisterOptions options) {
    options.target_column = "y";
    return client_->RegisterContext("t", MakeTable(4), options);
  };
  EXPECT_EQ(other({}).status().code(), absl::StatusCode::kAlreadyExists);
  const auto refused = other({.replace = true, .etag = "old"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ErrorReason(refused.status()), "ETAG_MISMATCH");
  const auto replaced = other({.replace = true, .etag = etag});
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_TRUE(replaced->replaced);
  EXPECT_FALSE(replaced->already_registered);
  EXPECT_EQ(client_->GetContext("t")->row_count(), 4);
  // The same again has no effect, so that a retry is safe.
  const auto again = other({.replace = true, .etag = etag});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->already_registered);
  EXPECT_FALSE(again->replaced);
}

TEST_F(ClientTest, DeletesAContextWithTheEtag) {
  Register("t");
  const std::string etag = client_->GetContext("t")->etag();
  EXPECT_EQ(ErrorReason(client_->DeleteContext("t", {.etag = "old"})), "ETAG_MISMATCH");
  EXPECT_TRUE(client_->GetContext("t").ok());
  EXPECT_TRUE(client_->DeleteContext("t", {.etag = etag}).ok());
  EXPECT_EQ(client_->DeleteContext("t").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(client_->DeleteContext("t", {.allow_missing = true}).ok());
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
  service().FailNext({WithBadField("bad", "spec.context_id", "is malformed")});
  const auto done = client_->RegisterContext("T T", MakeTable(50'000), {.target_column = "y"});
  EXPECT_EQ(done.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(done.status().message()), HasSubstr("spec.context_id: is malformed"));
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
  EXPECT_EQ(client_->WarmContext("b")->state(), v1::Context::STATE_RESIDENT);
  EXPECT_TRUE(client_->DeleteContext("b").ok());
  EXPECT_EQ(client_->GetContext("b").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->ListModels()->size(), 1u);
  const auto info = client_->GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->version(), "9.8.7");
  EXPECT_EQ(info->limits().max_paths(), 16'384);
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
  EXPECT_TRUE(client_->Predict("t", MakeRows(2), {}).ok());
  expect_metadata("Predict", "t");
  EXPECT_TRUE(client_->Sample("t", MakeRows(2), {.path_count = 3}).ok());
  expect_metadata("Sample", "t");
  EXPECT_TRUE(client_->LogDensity("t", MakeRows(2), {1.0, 2.0}, {}).ok());
  expect_metadata("LogDensity", "t");
  EXPECT_TRUE(client_->ListContexts().ok());
  expect_metadata("ListContexts", "");
  EXPECT_TRUE(client_->ListModels().ok());
  expect_metadata("ListModels", "");
  EXPECT_TRUE(client_->GetServerInfo().ok());
  expect_metadata("GetServerInfo", "");
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

TEST_F(ClientTest, ListsHaveAFilterAnOrderAndAView) {
  for (const char* id : {"a", "b"}) Register(id);
  service().set_page_limit(1);
  const auto basic = client_->ListContexts();
  ASSERT_TRUE(basic.ok()) << basic.status();
  EXPECT_EQ(service().last_list().view(), v1::CONTEXT_VIEW_BASIC);
  EXPECT_EQ(service().last_list().filter(), "");
  EXPECT_EQ(basic->at(1).features_size(), 0);
  const auto full =
      client_->ListContexts({.filter = "row_count > 1", .order_by = "name desc", .features = true});
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_GT(full->at(1).features_size(), 0);
  // Of the second page, which has them as well.
  EXPECT_EQ(service().last_list().filter(), "row_count > 1");
  EXPECT_EQ(service().last_list().order_by(), "name desc");
  EXPECT_EQ(service().last_list().view(), v1::CONTEXT_VIEW_FULL);
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

TEST_F(ClientTest, RetriesADeletionThatAllowsAMissingContext) {
  Register("t");
  const int before = service().call_count();
  service().FailNext({grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining")});
  EXPECT_TRUE(client_->DeleteContext("t", {.allow_missing = true}).ok());
  EXPECT_EQ(service().call_count(), before + 2);
  EXPECT_EQ(client_->GetContext("t").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ClientTest, PredictsManyRowsInPieces) {
  Register("t");
  constexpr int64_t kRows = 2500;
  PredictOptions options{.quantiles = {0.1, 0.9}, .mixture = PredictOptions::Mixture::kInclude};
  const auto predictions = client_->Predict("t", MakeRows(kRows), options);
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

TEST_F(ClientTest, PredictionsFromLocalRowsComeInSmallPieces) {
  Register("t");
  const auto predictions = client_->Predict("t", MakeRows(5), {.local_rows = 70});
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  ASSERT_EQ(predictions->means.size(), 5u);
  EXPECT_EQ(predictions->means[4], Score(4));
  const std::vector<v1::PredictRequest> requests = service().predict_requests();
  ASSERT_EQ(requests.size(), 3u);
  for (const v1::PredictRequest& request : requests) EXPECT_EQ(request.local_row_count(), 70);
}

TEST_F(ClientTest, PredictionsInPiecesAreOfOneTable) {
  Register("t");
  PredictOptions options;
  options.on_progress = [&](int64_t done) {
    if (done > 1024) return;
    ASSERT_TRUE(client_->DeleteContext("t").ok());
    ASSERT_TRUE(client_->RegisterContext("t", MakeTable(6), {.target_column = "y"}).ok());
  };
  const auto mixed = client_->Predict("t", MakeRows(3000), options);
  EXPECT_EQ(mixed.status().code(), absl::StatusCode::kFailedPrecondition) << mixed.status();

  options.on_progress = nullptr;
  const auto whole = client_->Predict("t", MakeRows(3000), options);
  ASSERT_TRUE(whole.ok()) << whole.status();
  options.expected_source = whole->source;
  EXPECT_TRUE(client_->Predict("t", MakeRows(3), options).ok());
  options.expected_source.set_context_digest("another");
  EXPECT_EQ(client_->Predict("t", MakeRows(3), options).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ClientTest, WarningsOfPiecesAreCountedTogether) {
  Register("t");
  std::vector<double> x(3000, 1.0);
  x[0] = x[1] = x[2999] = 2e6;
  DataFrame rows;
  ASSERT_TRUE(rows.AddNumeric("x", x).ok());
  ASSERT_TRUE(rows.AddNumeric("z", std::vector<double>(3000, 1.0)).ok());
  const auto predicted = client_->Predict("t", rows, {});
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  ASSERT_EQ(predicted->warnings.size(), 1u);
  EXPECT_EQ(predicted->warnings[0].cell_count(), 3);
  EXPECT_EQ(predicted->warnings[0].message(),
            "column \"x\": 2 too large; 3 cells in all rows together");
}

TEST_F(ClientTest, LogDensities) {
  Register("t");
  const std::vector<double> values = {0, 11, 22, 1, 12, 23};  // scores: 0, 11, 22
  LogDensityOptions options;
  options.terms = LogDensityOptions::Terms::kInclude;
  const auto given = client_->LogDensity("t", MakeRows(3), values, options);
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_THAT(given->joint, ElementsAre(0, -3));
  EXPECT_THAT(given->terms, ElementsAre(0, 0, 0, -1, -1, -1));
  EXPECT_TRUE(given->cdfs.empty());
  options.cdfs = LogDensityOptions::Cdfs::kInclude;
  const auto with_cdfs = client_->LogDensity("t", MakeRows(3), values, options);
  ASSERT_TRUE(with_cdfs.ok()) << with_cdfs.status();
  EXPECT_THAT(with_cdfs->cdfs, ElementsAre(0.5, 0.5, 0.5, 1.0 / 3, 1.0 / 3, 1.0 / 3));

  const auto random = client_->LogDensity("t", MakeRows(3), values, {.random_orders = 4});
  ASSERT_TRUE(random.ok()) << random.status();
  EXPECT_THAT(random->standard_errors, ElementsAre(0.5, 0.5));
  EXPECT_EQ(random->seed, kPickedSeed);
  EXPECT_EQ(service().last_log_density().random_order_count(), 4);
}

TEST_F(ClientTest, ChecksArgumentsBeforeSending) {
  const int before = service().call_count();
  EXPECT_EQ(client_->Predict("t", DataFrame(), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->Sample("t", MakeRows(2), {.path_count = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->LogDensity("t", MakeRows(2), {1.0, 2.0, 3.0}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->LogDensity("t", MakeRows(2), {}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto large = client_->Sample("t", MakeRows(500'000), {.path_count = 1});
  EXPECT_EQ(large.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("the limit is 4194304"));
  EXPECT_EQ(service().call_count(), before);
}

TEST_F(ClientTest, ErrorsNameTheField) {
  Register("t");
  service().FailNext({WithBadField("", "path_count", "16385, the limit is 16384")});
  const auto samples = client_->Sample("t", MakeRows(2), {.path_count = 16385});
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
        good += client_->Sample("t", MakeRows(4), {.path_count = 9}).ok();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 40);
}

}  // namespace
}  // namespace chorale::client
