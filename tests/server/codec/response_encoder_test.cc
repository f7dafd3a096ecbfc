#include "server/codec/response_encoder.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/store/column_info_json.h"
#include "engine/store/context_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/codec/model_page.h"
#include "server/options/server_options.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Timings kTimings = {};

TEST(ResponseEncoderTest, Context) {
  ContextInfo info;
  info.record.name = "houses";
  info.record.model = "base";
  info.record.digest = "abc";
  info.record.target = "price";
  info.record.columns = {{"age", ColumnType::kNumeric, 0, 4, 0, false, 0, Meaning::kDuration},
                         {"color", ColumnType::kCategorical, 3, 0}};
  info.record.columns[0].calendar = {CalendarFeature::kWeekday, CalendarFeature::kHour,
                                     CalendarFeature::kDayOfMonth, CalendarFeature::kMonth};
  info.record.feature_count = 2;
  info.record.rows = 10;
  info.record.appended_rows = 4;
  info.record.memory = {.rows = 64, .policy = MemoryPolicy::kHeavy};
  info.record.dataset_bytes = 123;
  info.record.created = absl::FromUnixMillis(1'500);
  info.state = ContextState::kResident;
  info.resident_bytes = 456;
  v1::Context message;
  EncodeContext(info, &message);
  EXPECT_EQ(message.name(), "contexts/houses");
  EXPECT_EQ(message.model(), "models/base");
  EXPECT_EQ(message.digest(), "abc");
  EXPECT_EQ(message.target_column(), "price");
  ASSERT_EQ(message.features_size(), 2);
  EXPECT_EQ(message.features(0).name(), "age");
  EXPECT_EQ(message.features(0).type(), v1::ColumnSummary::TYPE_NUMERIC);
  EXPECT_EQ(message.features(0).missing_count(), 4);
  EXPECT_EQ(message.features(0).meaning(), v1::NumericValues::MEANING_DURATION);
  EXPECT_EQ(message.feature_count(), 2);
  EXPECT_THAT(message.features(0).calendar_features(),
              testing::ElementsAre(v1::ColumnSummary::CALENDAR_FEATURE_WEEKDAY,
                                   v1::ColumnSummary::CALENDAR_FEATURE_HOUR,
                                   v1::ColumnSummary::CALENDAR_FEATURE_DAY_OF_MONTH,
                                   v1::ColumnSummary::CALENDAR_FEATURE_MONTH));
  EXPECT_TRUE(message.features(1).calendar_features().empty());
  EXPECT_EQ(message.features(1).meaning(), v1::NumericValues::MEANING_UNSPECIFIED);
  EXPECT_EQ(message.features(1).type(), v1::ColumnSummary::TYPE_CATEGORICAL);
  EXPECT_EQ(message.features(1).category_count(), 3);
  EXPECT_EQ(message.row_count(), 10);
  EXPECT_EQ(message.appended_row_count(), 4);
  EXPECT_EQ(message.memory_row_count(), 64);
  EXPECT_EQ(message.memory_policy(), v1::MEMORY_POLICY_HEAVY);
  EXPECT_EQ(message.dataset_bytes(), 123);
  EXPECT_EQ(message.resident_bytes(), 456);
  EXPECT_EQ(message.create_time().seconds(), 1);
  EXPECT_EQ(message.create_time().nanos(), 500'000'000);
  EXPECT_EQ(message.state(), v1::Context::STATE_RESIDENT);
}

// So that a page of ListContexts, which the store counts, fits into a message.
TEST(ResponseEncoderTest, NoContextIsLargerThanWhatTheStoreKeeps) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const ColumnInfo columns[] = {
      {""},
      {std::string(255, 'n'), ColumnType::kNumeric, kMost, kMost, kMost, true, 1e-300,
       Meaning::kDuration},
      {"",
       ColumnType::kNumeric,
       0,
       0,
       0,
       false,
       0,
       Meaning::kDate,
       {CalendarFeature::kWeekday, CalendarFeature::kHour, CalendarFeature::kDayOfMonth,
        CalendarFeature::kMonth}},
      {"\xf0\x9f\x8e\xb6", ColumnType::kCategorical, kMost, kMost, kMost, true}};
  for (const ColumnInfo& column : columns) {
    for (const size_t count : {0, 1, 1000}) {
      ContextInfo info;
      info.record.name = std::string(63, 'a');
      info.record.model = std::string(63, 'm');
      info.record.digest = std::string(64, '0');
      info.record.target = std::string(255, 't');
      info.record.columns.assign(count, column);
      info.record.clipped_targets = info.record.rows = info.record.dataset_bytes = kMost;
      info.record.appended_rows = kMost;
      info.record.memory = {.rows = kMost, .policy = MemoryPolicy::kSample};
      info.record.created = absl::FromUnixSeconds(253'402'300'799);
      info.record.feature_count = kMost;
      info.record.updated = info.record.last_used = info.record.created;
      info.record.details = {std::string(4096, 'd'), {}, info.record.created};
      std::string labels = "{}";
      for (int i = 10; i < 74; ++i) {
        info.record.details.labels[absl::StrCat(i)] = "";
        absl::StrAppend(&labels, "'10':'',");
      }
      info.resident_bytes = kMost;
      info.state = ContextState::kResident;
      v1::ListContextsResponse page;
      EncodeContextPage({{info}, ""}, &page);
      const SummaryRow summary = {info.record, labels, ""};
      const StoredContext stored = {info.record, *ColumnsToJson(info.record), "", summary};
      EXPECT_LE(static_cast<int64_t>(page.ByteSizeLong()), stored.bytes()) << column.name << count;
    }
  }
}

TEST(ResponseEncoderTest, Append) {
  AppendOutcome outcome;
  outcome.context.record.name = "houses";
  outcome.context.record.digest = "d";
  outcome.context.record.target = "price";
  outcome.context.record.rows = 10;
  outcome.context.record.created = absl::UnixEpoch();
  outcome.rows = 3;
  ColumnNote note;
  note.column = "area";
  note.outside_bulk = 1;
  outcome.notes = {note};
  v1::AppendRowsResponse message;
  EncodeAppend(outcome, /*sent_rows=*/5, &message);
  EXPECT_EQ(message.context().name(), "contexts/houses");
  EXPECT_NE(message.context().etag(), "");
  EXPECT_EQ(message.appended_row_count(), 3);
  EXPECT_FALSE(message.already_appended());
  EXPECT_FALSE(message.has_estimate());
  ASSERT_EQ(message.warnings_size(), 2);
  EXPECT_EQ(message.warnings(0).reason(), v1::Warning::REASON_DROPPED_ROWS);
  EXPECT_EQ(message.warnings(0).column(), "price");
  EXPECT_EQ(message.warnings(0).cell_count(), 2);
  EXPECT_EQ(message.warnings(1).reason(), v1::Warning::REASON_OUTLIERS);

  outcome.estimate = Estimate{12345, absl::Milliseconds(1500)};
  v1::AppendRowsResponse validated;
  EncodeAppend(outcome, /*sent_rows=*/3, &validated);
  EXPECT_EQ(validated.context().etag(), "");
  EXPECT_EQ(validated.estimate().device_bytes(), 12345);
  EXPECT_EQ(validated.warnings_size(), 1);  // no row was dropped

  // A repetition has the same result.
  outcome.estimate.reset();
  outcome.already_appended = true;
  v1::AppendRowsResponse repeated;
  EncodeAppend(outcome, /*sent_rows=*/5, &repeated);
  EXPECT_TRUE(repeated.already_appended());
  repeated.clear_already_appended();
  EXPECT_EQ(repeated.SerializeAsString(), message.SerializeAsString());
}

TEST(ResponseEncoderTest, EveryContextState) {
  const std::pair<ContextState, v1::Context::State> states[] = {
      {ContextState::kNotResident, v1::Context::STATE_NOT_RESIDENT},
      {ContextState::kEncoding, v1::Context::STATE_ENCODING},
      {ContextState::kResident, v1::Context::STATE_RESIDENT}};
  for (const auto& [from, to] : states) {
    ContextInfo info;
    info.record.created = absl::UnixEpoch();
    info.state = from;
    v1::Context message;
    EncodeContext(info, &message);
    EXPECT_EQ(message.state(), to);
  }
}

TEST(ResponseEncoderTest, Predict) {
  PredictResult result;
  result.mean = {1, 2};
  result.std = {3, 4};
  result.quantiles = {5, 6, 7, 8};
  result.known_log_densities = {-2.5};
  result.timings.queued = absl::Nanoseconds(1'000'000'007);
  result.timings.total = absl::Seconds(3);
  v1::PredictResponse message;
  EncodePredict(result, &message);
  EXPECT_THAT(message.means(), ElementsAre(1, 2));
  EXPECT_THAT(message.stds(), ElementsAre(3, 4));
  EXPECT_THAT(message.quantiles(), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(message.known_log_densities(), ElementsAre(-2.5));
  EXPECT_FALSE(message.has_mixtures());
  EXPECT_EQ(message.timings().queued().seconds(), 1);
  EXPECT_EQ(message.timings().queued().nanos(), 7);
  EXPECT_EQ(message.timings().total().seconds(), 3);

  result.mixtures = {1, {1, 2}, {3, 4}, {1, 1}};
  EncodePredict(result, &message);
  EXPECT_EQ(message.mixtures().component_count(), 1);
  EXPECT_THAT(message.mixtures().means(), ElementsAre(1, 2));
  EXPECT_THAT(message.mixtures().stds(), ElementsAre(3, 4));
  EXPECT_THAT(message.mixtures().weights(), ElementsAre(1, 1));
}

TEST(ResponseEncoderTest, LogDensity) {
  LogDensityResult result;
  result.log_density = {-1, -2};
  result.standard_error = {0.1, 0.2};
  result.terms = {-0.5, -0.5, -1, -1};
  result.cdfs = {0.1, 0.2, 0.3, 0.4};
  result.known_log_densities = {-3, -4};
  result.seed = 9;
  result.timings = kTimings;
  v1::LogDensityResponse message;
  EncodeLogDensity(result, &message);
  EXPECT_THAT(message.log_densities(), ElementsAre(-1, -2));
  EXPECT_THAT(message.standard_errors(), ElementsAre(0.1, 0.2));
  EXPECT_THAT(message.terms(), ElementsAre(-0.5, -0.5, -1, -1));
  EXPECT_THAT(message.cdfs(), ElementsAre(0.1, 0.2, 0.3, 0.4));
  EXPECT_THAT(message.known_log_densities(), ElementsAre(-3, -4));
  EXPECT_FALSE(message.has_mixtures());
  EXPECT_EQ(message.seed(), 9);
}

TEST(ResponseEncoderTest, ResponsesWithinTheLimitFitIntoAMessage) {
  constexpr int64_t kMessageBytes = 1 << 20;
  constexpr int64_t kNumbers = MaxResponseBytes(kMessageBytes) / 8;
  constexpr int64_t kPart = kNumbers / 7;
  const absl::Duration longest = absl::Seconds(315'576'000'000) + absl::Nanoseconds(999'999'999);
  const std::vector<double> part(kPart, 1.5);
  LogDensityResult result;
  result.log_density.assign(kNumbers - 6 * kPart, 1.5);
  result.standard_error = part;
  result.terms = part;
  result.cdfs = part;
  result.mixtures = {1'000'000, part, part, part};
  result.seed = ~uint64_t{0};
  result.timings = {longest, longest, longest, longest};
  result.source = {std::string(64, 'a'), std::string(64, 'b')};
  result.notes.resize(1000, {.column = std::string(256, 'c'), .outside_bulk = kPart});
  v1::LogDensityResponse message;
  EncodeLogDensity(result, &message);
  EXPECT_LE(message.ByteSizeLong(), static_cast<size_t>(kMessageBytes));
  EXPECT_EQ(MaxResponseBytes(ServerOptions().max_message_bytes), Limits().max_response_bytes);
}

TEST(ResponseEncoderTest, SummaryHasTheDensitiesOfKnownValues) {
  SampleSummary summary;
  summary.seed = 3;
  v1::SampleSummary without;
  EncodeSummary(summary, &without);
  EXPECT_EQ(without.seed(), 3);
  EXPECT_THAT(without.known_log_densities(), IsEmpty());
  summary.known_log_densities = {-1, -2};
  v1::SampleSummary with;
  EncodeSummary(summary, &with);
  EXPECT_THAT(with.known_log_densities(), ElementsAre(-1, -2));
}

TEST(ResponseEncoderTest, SummaryHasTheWeightsOfKnownTotals) {
  SampleSummary summary;
  v1::SampleSummary without;
  EncodeSummary(summary, &without);
  EXPECT_THAT(without.total_log_weights(), IsEmpty());
  EXPECT_THAT(without.total_effective_sample_sizes(), IsEmpty());
  constexpr double kLogZero = -std::numeric_limits<double>::infinity();
  summary.total_log_weights = {-1, kLogZero};
  summary.total_effective_sample_sizes = {1};
  v1::SampleSummary with;
  EncodeSummary(summary, &with);
  EXPECT_THAT(with.total_log_weights(), ElementsAre(-1, kLogZero));
  EXPECT_THAT(with.total_effective_sample_sizes(), ElementsAre(1));
}

std::vector<ModelInfo> ThreeModels() {
  std::vector<ModelInfo> models(3);
  models[0].name = "c";
  models[0].is_default = true;
  models[0].config.model_type = "ar_tabpfn";
  models[0].config.row_encoder = "feature_mean";
  models[0].config.buffer_size = 32;
  models[0].config.num_components = 20;
  models[0].config.max_features = 7;
  models[0].config.trained_rows = 1000;
  models[0].config.trained_features = 5;
  models[0].config.notice = "careful";
  models[0].form = "wide";
  models[0].parameters = 99;
  models[0].resident_bytes_per_row = 512;
  models[0].digest = "d";
  models[1].name = "a";
  models[2].name = "b";
  return models;
}

TEST(ModelPageTest, Model) {
  v1::Model message;
  EncodeModel(ThreeModels()[0], &message);
  EXPECT_EQ(message.name(), "models/c");
  EXPECT_EQ(message.model_type(), "ar_tabpfn");
  EXPECT_EQ(message.row_encoder(), "feature_mean");
  EXPECT_EQ(message.digest(), "d");
  EXPECT_EQ(message.parameter_count(), 99);
  EXPECT_EQ(message.buffer_size(), 32);
  EXPECT_EQ(message.max_features(), 7);
  EXPECT_EQ(message.trained_rows(), 1000);
  EXPECT_EQ(message.trained_features(), 5);
  EXPECT_EQ(message.task(), v1::Model::TASK_REGRESSION);
  EXPECT_EQ(message.component_count(), 20);
  EXPECT_EQ(message.resident_bytes_per_row(), 512);
  EXPECT_TRUE(message.is_default());
  EXPECT_EQ(message.notice(), "careful");
  EXPECT_EQ(message.form(), "wide");
  v1::Model of_one_form;
  EncodeModel(ThreeModels()[1], &of_one_form);
  EXPECT_EQ(of_one_form.form(), "");
}

TEST(ModelPageTest, PagesCoverAllModelsByName) {
  for (int64_t page_size : {1, 2, 3, 4}) {
    std::vector<std::string> names;
    std::string token;
    int pages = 0;
    do {
      v1::ListModelsResponse response;
      ASSERT_TRUE(FillModelPage(ThreeModels(), page_size, token, &response).ok());
      EXPECT_LE(response.models_size(), page_size);
      for (const v1::Model& model : response.models()) names.push_back(model.name());
      token = response.next_page_token();
      ++pages;
    } while (!token.empty());
    EXPECT_THAT(names, ElementsAre("models/a", "models/b", "models/c"));
    EXPECT_EQ(pages, (3 + page_size - 1) / page_size);  // no empty page at the end
  }
}

TEST(ModelPageTest, UnknownToken) {
  v1::ListModelsResponse response;
  EXPECT_EQ(FillModelPage(ThreeModels(), 1, "nonsense", &response).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace chorale
