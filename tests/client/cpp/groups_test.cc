// Calls of the client with groups of query rows, against a fake server.
#include "client/cpp/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/client/cpp/client_fixture.h"

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::KnownValues Given(const std::vector<int32_t>& rows, const std::vector<double>& values) {
  v1::KnownValues known;
  known.mutable_rows()->Add(rows.begin(), rows.end());
  known.mutable_values()->Add(values.begin(), values.end());
  return known;
}

void ExpectCode(const absl::Status& status, absl::StatusCode code, const std::string& what) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(what));
}

// Seven rows in two groups. One row of the first and two rows of the second may be known.
const std::vector<int32_t> kSizes = {3, 4};
struct Part {
  std::vector<int64_t> rows;
  v1::KnownValues known;     // a set
  v1::KnownValues separate;  // a set for each of two paths or vectors
};
std::vector<Part> Parts() {
  return {{{0, 1, 2}, Given({1}, {100}), Given({1}, {100, 1000})},
          {{3, 4, 5, 6}, Given({3, 0}, {20, 30}), Given({3, 0}, {20, 30, 2000, 3000})}};
}
v1::KnownValues AllKnown() { return Given({1, 6, 3}, {100, 20, 30}); }
v1::KnownValues AllSeparate() { return Given({1, 6, 3}, {100, 20, 30, 1000, 2000, 3000}); }

TEST(GroupsTest, InvalidSizesAreRejected) {
  EXPECT_TRUE(CheckGroups({}, {}, 3).ok());
  EXPECT_TRUE(CheckGroups({3}, {}, 3).ok());
  EXPECT_TRUE(CheckGroups({1, 2}, Given({2}, {5}), 3).ok());
  const auto invalid = absl::StatusCode::kInvalidArgument;
  ExpectCode(CheckGroups({1, 1}, {}, 3), invalid, "group_sizes: the sum is 2, must be the 3 rows");
  ExpectCode(CheckGroups({4}, {}, 3), invalid, "group_sizes: the sum is 4");
  ExpectCode(CheckGroups({3, 0}, {}, 3), invalid, "group_sizes: 0, all must be positive");
  ExpectCode(CheckGroups({4, -1}, {}, 3), invalid, "group_sizes: -1, all must be positive");
  ExpectCode(CheckGroups({1, 2}, Given({2, 1}, {5, 6}), 3), invalid,
             "known.rows: the values of all rows of group 1 are known");
}

TEST_F(ClientTest, SamplesAreThoseOfACallForEachGroup) {
  Register("t");
  const DataFrame rows = MakeRows(kRows);
  for (const RowOrder order : {RowOrder::kGiven, RowOrder::kRandomPerPath}) {
    for (const bool separate : {false, true}) {
      SampleOptions options{.path_count = 2, .seed = 7, .order = order};
      options.known = separate ? AllSeparate() : AllKnown();
      options.group_sizes = kSizes;
      const auto together = client_->Sample("t", rows, options);
      ASSERT_TRUE(together.ok()) << together.status();
      EXPECT_THAT(service().last_sample().group_sizes(), ElementsAreArray(kSizes));
      EXPECT_EQ(together->step_count, 4);
      EXPECT_THAT(together->first_steps, ElementsAre(0, 2));
      for (size_t group = 0; group < kSizes.size(); ++group) {
        const Part part = Parts()[group];
        options.known = separate ? part.separate : part.known;
        options.group_sizes.clear();
        const auto alone = client_->Sample("t", rows.Take(part.rows), options);
        ASSERT_TRUE(alone.ok()) << alone.status();
        EXPECT_THAT(alone->first_steps, ElementsAre(0));
        const int64_t size = kSizes[group];
        for (int64_t i = 0; i < 2 * size; ++i) {
          EXPECT_EQ(together->values[i / size * kRows + part.rows[i % size]], alone->values[i]);
        }
        for (size_t i = 0; i < alone->rows_by_step.size(); ++i) {
          EXPECT_EQ(together->rows_by_step[i / 2 * 4 + together->first_steps[group] + i % 2],
                    part.rows[alone->rows_by_step[i]]);
        }
        for (int set = 0; set < (separate ? 2 : 1); ++set) {
          EXPECT_EQ(together->summary.known_log_densities(set * 2 + static_cast<int>(group)),
                    alone->summary.known_log_densities(set));
        }
      }
    }
  }
}

TEST_F(ClientTest, DensitiesAreThoseOfACallForEachGroup) {
  Register("t");
  const DataFrame rows = MakeRows(kRows);
  const std::vector<double> values = {1, 2, 3, 4, 50, 60, 70, 80};  // 2 vectors of 4 rows
  for (const bool separate : {false, true}) {
    LogDensityOptions options{.known = separate ? AllSeparate() : AllKnown()};
    options.terms = LogDensityOptions::Terms::kInclude;
    options.group_sizes = kSizes;
    const auto together = client_->LogDensity("t", rows, values, options);
    ASSERT_TRUE(together.ok()) << together.status();
    ASSERT_THAT(together->joint, SizeIs(4));
    for (int group = 0; group < 2; ++group) {
      const Part part = Parts()[group];
      options.known = separate ? part.separate : part.known;
      options.group_sizes.clear();
      const int first = 2 * group;
      const auto alone = client_->LogDensity(
          "t", rows.Take(part.rows),
          {values[first], values[first + 1], values[first + 4], values[first + 5]}, options);
      ASSERT_TRUE(alone.ok()) << alone.status();
      for (int vector = 0; vector < 2; ++vector) {
        EXPECT_EQ(together->joint[vector * 2 + group], alone->joint[vector]);
        for (int t = 0; t < 2; ++t) {
          EXPECT_EQ(together->terms[vector * 4 + first + t], alone->terms[vector * 2 + t]);
        }
      }
      for (int set = 0; set < (separate ? 2 : 1); ++set) {
        EXPECT_EQ(together->known_log_densities[set * 2 + group], alone->known_log_densities[set]);
      }
    }
  }
  LogDensityOptions averaged{.random_orders = 4, .group_sizes = kSizes};
  const auto errors = client_->LogDensity("t", rows, std::vector<double>(kRows, 1.0), averaged);
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_THAT(errors->standard_errors, ElementsAre(0.5, 0.5));
}

TEST_F(ClientTest, PredictionsAreThoseOfACallForEachGroup) {
  Register("t");
  const DataFrame rows = MakeRows(kRows);
  const auto together = client_->Predict("t", rows, {.known = AllKnown(), .group_sizes = kSizes});
  ASSERT_TRUE(together.ok()) << together.status();
  EXPECT_THAT(together->means,
              ElementsAre(Score(0) + 100, Score(2) + 100, Score(4) + 50, Score(5) + 50));
  EXPECT_THAT(together->known_log_densities, ElementsAre(-100, -50));
  const v1::PredictRequest sent = service().predict_requests().back();
  // In each group, first the known rows, in the order of the call.
  EXPECT_THAT(sent.rows().columns(0).numeric().values(), ElementsAre(10, 0, 20, 60, 30, 40, 50));
  EXPECT_THAT(sent.known().rows(), ElementsAre(0, 3, 4));
  EXPECT_THAT(sent.known().values(), ElementsAre(100, 20, 30));
  EXPECT_THAT(sent.group_sizes(), ElementsAre(3, 4));
  std::vector<double> alone;
  for (const Part& part : Parts()) {
    const auto some = client_->Predict("t", rows.Take(part.rows), {.known = part.known});
    ASSERT_TRUE(some.ok()) << some.status();
    alone.insert(alone.end(), some->means.begin(), some->means.end());
  }
  EXPECT_EQ(together->means, alone);
  // Without known values, groups have no effect.
  const auto plain = client_->Predict("t", rows, {.group_sizes = kSizes});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(service().predict_requests().back().group_sizes(), IsEmpty());
  EXPECT_THAT(plain->known_log_densities, IsEmpty());
}

TEST_F(ClientTest, RequestsOfPredictHaveWholeGroups) {
  Register("t");
  const std::vector<int32_t> sizes = {10, 500, 1500, 20, 5};  // the third is too large
  std::vector<int64_t> progress;
  PredictOptions options{.known = Given({9, 1900, 600}, {1, 20, 300}), .group_sizes = sizes};
  options.on_progress = [&](int64_t rows) { progress.push_back(rows); };
  const auto predictions = client_->Predict("t", MakeRows(2035), options);
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  EXPECT_THAT(progress, ElementsAre(509, 509 + 1022, 509 + 1498, 2032));
  const std::vector<v1::PredictRequest> requests = service().predict_requests();
  ASSERT_THAT(requests, SizeIs(4));
  EXPECT_THAT(requests[0].group_sizes(), ElementsAre(10, 500));
  EXPECT_THAT(requests[0].known().values(), ElementsAre(1));
  for (int part : {1, 2}) {
    EXPECT_THAT(requests[part].group_sizes(), ElementsAre(part == 1 ? 1024 : 1500 - 1022));
    EXPECT_THAT(requests[part].known().values(), ElementsAre(20, 300));
    EXPECT_EQ(requests[part].rows().columns(0).numeric().values(0), 19000);
  }
  EXPECT_THAT(requests[3].group_sizes(), IsEmpty());
  EXPECT_FALSE(requests[3].has_known());
  EXPECT_THAT(predictions->known_log_densities, ElementsAre(-1, 0, -320, 0, 0));
  ASSERT_THAT(predictions->means, SizeIs(2032));
  EXPECT_EQ(predictions->means[8], Score(8) + 1);
  EXPECT_EQ(predictions->means[9], Score(10));
  EXPECT_EQ(predictions->means[509], Score(510) + 320);
  EXPECT_EQ(predictions->means[2006], Score(2009) + 320);
  EXPECT_EQ(predictions->means[2007], Score(2010));
  // The known rows of each group leave some of the local rows.
  options.local_rows = 3;
  EXPECT_TRUE(client_->Predict("t", MakeRows(2035), options).ok());
  options.local_rows = 2;
  ExpectCode(client_->Predict("t", MakeRows(2035), options).status(),
             absl::StatusCode::kInvalidArgument, "local_rows: 2, must be more than");
}

TEST_F(ClientTest, InvalidGroupsAreNotSent) {
  Register("t");
  const int before = service().call_count();
  const std::vector<int32_t> sizes = {2, 2};
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const std::string what = "group_sizes: the sum is 4, must be the 3 rows";
  const DataFrame rows = MakeRows(3);
  ExpectCode(client_->Predict("t", rows, {.group_sizes = sizes}).status(), invalid, what);
  const SampleOptions options{.path_count = 2, .group_sizes = sizes};
  ExpectCode(client_->Sample("t", rows, options).status(), invalid, what);
  ExpectCode(client_->ValidateSample("t", rows, options).status(), invalid, what);
  ExpectCode(client_->LogDensity("t", rows, {1, 2, 3}, {.group_sizes = sizes}).status(), invalid,
             what);
  EXPECT_EQ(service().call_count(), before);
}

TEST_F(ClientTest, ServersThatIgnoreGroupsAreTooOld) {
  Register("t");
  service().set_ignores_groups(true);
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  const std::string what = "does not support groups";
  const DataFrame rows = MakeRows(kRows);
  ExpectCode(client_->Predict("t", rows, {.known = AllKnown(), .group_sizes = kSizes}).status(),
             unimplemented, what);
  ExpectCode(
      client_->LogDensity("t", rows, std::vector<double>(kRows, 1.0), {.group_sizes = kSizes})
          .status(),
      unimplemented, what);
  for (const v1::KnownValues& known : {v1::KnownValues(), AllKnown()}) {
    SampleOptions options{.path_count = 2, .known = known, .group_sizes = kSizes};
    options.on_paths = [](const Samples&) {
      ADD_FAILURE() << "these are no samples";
      return absl::OkStatus();
    };
    ExpectCode(client_->Sample("t", rows, options).status(), unimplemented, what);
  }
  // The blocks of a stream are not validated, but the summary is.
  const SampleOptions options{.path_count = 2, .known = AllKnown(), .group_sizes = kSizes};
  const auto on_block = [](const v1::SampleBlock&) { return absl::OkStatus(); };
  ExpectCode(client_->SampleStream("t", rows, options, on_block).status(), unimplemented, what);
}

}  // namespace
}  // namespace chorale::client
