// Summarize of the client, against a fake server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/client/cpp/client_fixture.h"

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::Functional MakeFunctional(v1::Functional::Type type, const std::vector<int32_t>& rows = {}) {
  v1::Functional functional;
  functional.set_type(type);
  functional.mutable_rows()->Add(rows.begin(), rows.end());
  functional.set_threshold(0.5);
  return functional;
}

// Rows 1, 3 and 6 of seven rows in two groups are known, which leaves two rows of each group.
SummarizeOptions AllOptions() {
  SummarizeOptions options{.path_count = 2, .seed = 7, .quantiles = {0.25, 0.75}};
  for (const auto& [row, value] : std::vector<std::pair<int, double>>{{1, 1}, {3, 2}, {6, 3}}) {
    options.known.add_rows(row);
    options.known.add_values(value);
  }
  options.group_sizes = {3, 4};
  options.functionals = {MakeFunctional(v1::Functional::TYPE_SUM),
                         MakeFunctional(v1::Functional::TYPE_ANY, {4, 0, 2}),
                         MakeFunctional(v1::Functional::TYPE_RANK, {5, 1, 6})};
  options.covariances = SummarizeOptions::Covariances::kInclude;
  options.returned_paths = 1;
  return options;
}

TEST_F(ClientTest, SummarizeReturnsTheStatisticsOfTheServer) {
  Register("t");
  const auto summary = client_->Summarize("t", MakeRows(kRows), AllOptions());
  ASSERT_TRUE(summary.ok()) << summary.status();
  const double mean = SampleValue(0, 0, 7) / 2 + SampleValue(0, 1, 7) / 2;
  EXPECT_THAT(summary->means(), ElementsAre(Score(0) + 1 + mean, Score(2) + 1 + mean,
                                            Score(4) + 5 + mean, Score(5) + 5 + mean));
  EXPECT_EQ(summary->quantiles_size(), 8);
  EXPECT_EQ(summary->quantiles(1), summary->means(0) + 0.75);
  ASSERT_EQ(summary->functionals_size(), 3);
  EXPECT_THAT(summary->functionals(0).means(), ElementsAre(3.5, 4.5));
  EXPECT_THAT(summary->functionals(1).means(), ElementsAre(2.5, 1.5));
  EXPECT_THAT(summary->functionals(2).means(), ElementsAre(5, 1, 6));
  EXPECT_EQ(summary->covariances_size(), 8);
  EXPECT_EQ(summary->paths_size(), 4);
  EXPECT_EQ(summary->seed(), 7u);
  EXPECT_THAT(summary->known_log_densities(), ElementsAre(-1, -5));
  EXPECT_FALSE(summary->source().context_digest().empty());
}

TEST_F(ClientTest, SummarizeSendsTheOptions) {
  Register("t");
  SummarizeOptions options = AllOptions();
  options.order = RowOrder::kRandomPerPath;
  options.beyond_buffer = BeyondBuffer::kWrap;
  options.snapping = Snapping::kOff;
  options.sampling = Sampling::kSobol;
  options.estimator = Estimator::kValues;
  options.local_rows = 5;
  options.expected_source.set_context_digest("d");
  ASSERT_TRUE(client_->Summarize("t", MakeRows(kRows), options).ok());
  const v1::SummarizeRequest sent = service().last_summarize();
  EXPECT_EQ(sent.context(), "contexts/t");
  EXPECT_EQ(sent.path_count(), 2);
  EXPECT_EQ(sent.seed(), 7u);
  EXPECT_EQ(sent.order(), v1::SampleRequest::ORDER_RANDOM_PER_PATH);
  EXPECT_EQ(sent.beyond_buffer(), v1::BEYOND_BUFFER_WRAP);
  EXPECT_EQ(sent.snapping(), v1::SNAPPING_OFF);
  EXPECT_EQ(sent.sampling(), v1::SampleRequest::SAMPLING_SOBOL);
  EXPECT_EQ(sent.estimator(), v1::SummarizeRequest::ESTIMATOR_VALUES);
  EXPECT_EQ(sent.local_row_count(), 5);
  EXPECT_EQ(sent.expected_source().context_digest(), "d");
  EXPECT_THAT(sent.known().rows(), ElementsAre(1, 3, 6));
  EXPECT_THAT(sent.group_sizes(), ElementsAre(3, 4));
  EXPECT_THAT(sent.quantiles(), ElementsAre(0.25, 0.75));
  ASSERT_EQ(sent.functionals_size(), 3);
  EXPECT_EQ(sent.functionals(1).type(), v1::Functional::TYPE_ANY);
  EXPECT_THAT(sent.functionals(1).rows(), ElementsAre(4, 0, 2));
  EXPECT_TRUE(sent.include_covariances());
  EXPECT_EQ(sent.returned_path_count(), 1);

  ASSERT_TRUE(client_->Summarize("t", MakeRows(kRows), {.path_count = 3}).ok());
  const v1::SummarizeRequest plain = service().last_summarize();
  EXPECT_FALSE(plain.has_seed());
  EXPECT_FALSE(plain.has_known());
  EXPECT_THAT(plain.group_sizes(), IsEmpty());
  EXPECT_FALSE(plain.include_covariances());
  EXPECT_EQ(plain.sampling(), v1::SampleRequest::SAMPLING_UNSPECIFIED);
  EXPECT_EQ(plain.estimator(), v1::SummarizeRequest::ESTIMATOR_UNSPECIFIED);
}

// The fake server stops after half of the paths.
TEST_F(ClientTest, SummarizeStopsAtTargetErrors) {
  Register("t");
  SummarizeOptions options = AllOptions();
  options.path_count = 8;
  options.returned_paths = 6;
  options.known.clear_values();
  for (int value = 0; value < 8 * 3; ++value) options.known.add_values(value);  // of each path
  const auto all = client_->Summarize("t", MakeRows(kRows), options);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->path_count(), 8);
  options.target_mean_error = 0.5;
  options.target_quantile_error = 0.25;
  options.functionals[0].set_target_mean_error(2);
  const auto summary = client_->Summarize("t", MakeRows(kRows), options);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->path_count(), 4);
  EXPECT_EQ(summary->paths_size(), 4 * 4);
  EXPECT_EQ(summary->known_log_densities_size(), 4 * 2);
  const v1::SummarizeRequest sent = service().last_summarize();
  EXPECT_EQ(sent.path_count(), 8);
  EXPECT_EQ(sent.target_mean_error(), 0.5);
  EXPECT_EQ(sent.target_quantile_error(), 0.25);
  EXPECT_EQ(sent.functionals(0).target_mean_error(), 2);
}

// They do not know target errors, and draw all paths.
TEST_F(ClientTest, OldServersDoNotSendTheNumberOfPaths) {
  Register("t");
  service().set_summary_fault([](auto* r) { r->clear_path_count(); });
  const auto summary = client_->Summarize("t", MakeRows(kRows), AllOptions());
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->path_count(), 2);
}

TEST_F(ClientTest, SummarizeRejectsIncompleteResponses) {
  Register("t");
  struct Case {
    std::string message;
    std::function<void(v1::SummarizeResponse*)> fault;
  };
  const std::vector<Case> cases = {
      {"3 means instead of 4", [](auto* r) { r->mutable_means()->RemoveLast(); }},
      {"3 errors of means instead of 4", [](auto* r) { r->mutable_mean_errors()->RemoveLast(); }},
      {"3 standard deviations", [](auto* r) { r->mutable_stds()->RemoveLast(); }},
      {"7 quantiles instead of 8", [](auto* r) { r->mutable_quantiles()->RemoveLast(); }},
      {"7 errors of quantiles", [](auto* r) { r->mutable_quantile_errors()->RemoveLast(); }},
      {"2 functionals instead of 3", [](auto* r) { r->mutable_functionals()->RemoveLast(); }},
      {"1 means instead of 2",
       [](auto* r) { r->mutable_functionals(0)->mutable_means()->RemoveLast(); }},
      {"3 quantiles instead of 4",
       [](auto* r) { r->mutable_functionals(1)->mutable_quantiles()->RemoveLast(); }},
      {"2 standard deviations instead of 3",
       [](auto* r) { r->mutable_functionals(2)->mutable_stds()->RemoveLast(); }},
      {"7 covariances instead of 8", [](auto* r) { r->mutable_covariances()->RemoveLast(); }},
      {"3 values of paths instead of 4", [](auto* r) { r->mutable_paths()->RemoveLast(); }},
      {"3 paths instead of 2", [](auto* r) { r->set_path_count(3); }},
  };
  for (const Case& next : cases) {
    service().set_summary_fault(next.fault);
    const absl::Status status = client_->Summarize("t", MakeRows(kRows), AllOptions()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(next.message));
  }
}

TEST_F(ClientTest, SummarizeRequiresRowsAndValidGroups) {
  Register("t");
  const int before = service().call_count();
  for (const auto& [rows, sizes] :
       std::vector<std::pair<int, std::vector<int32_t>>>{{0, {}}, {2, {1}}, {2, {2, 0}}}) {
    const SummarizeOptions options{.path_count = 2, .group_sizes = sizes};
    EXPECT_EQ(client_->Summarize("t", MakeRows(rows), options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(service().call_count(), before);
}

TEST_F(ClientTest, ServersWithoutSummarizeAreTooOld) {
  Register("t");
  service().FailNext({grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "")});
  const absl::Status status = client_->Summarize("t", MakeRows(2), {.path_count = 2}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not support Summarize"));
}

}  // namespace
}  // namespace chorale::client
