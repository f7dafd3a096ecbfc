#include "server/codec/response_encoder.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/time/time.h"
#include "server/codec/meaning_codec.h"
#include "server/codec/memory_codec.h"
#include "server/codec/resource_name.h"
#include "server/codec/warning_encoder.h"

namespace chorale {
namespace {

void EncodeDuration(absl::Duration duration, google::protobuf::Duration* message) {
  absl::Duration rest;
  message->set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  message->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}

void EncodeTime(absl::Time time, google::protobuf::Timestamp* message) {
  const int64_t seconds = absl::ToUnixSeconds(time);  // rounds down, also before 1970
  message->set_seconds(seconds);
  message->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

void EncodeTimings(const Timings& timings, v1::Timings* message) {
  EncodeDuration(timings.queued, message->mutable_queued());
  EncodeDuration(timings.encoding, message->mutable_encoding());
  EncodeDuration(timings.first_step, message->mutable_first_step());
  EncodeDuration(timings.total, message->mutable_total());
}

void EncodeEstimate(const Estimate& estimate, v1::Estimate* message) {
  message->set_device_bytes(estimate.device_bytes);
  if (estimate.duration.has_value()) {
    EncodeDuration(*estimate.duration, message->mutable_duration());
  }
}

// Rounds to the nearest float32. Engine requests with values beyond its range are rejected.
float Rounded(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kMost, kMost));
}

// Encodes entries [begin, end) in the field of the precision.
void EncodeNumbers(const std::vector<double>& numbers, int64_t begin, int64_t end,
                   Precision precision, google::protobuf::RepeatedField<double>* doubles,
                   google::protobuf::RepeatedField<float>* floats) {
  if (precision == Precision::kFloat64) {
    doubles->Add(numbers.begin() + begin, numbers.begin() + end);
    return;
  }
  floats->Reserve(static_cast<int>(end - begin));
  for (int64_t i = begin; i < end; ++i) floats->Add(Rounded(numbers[i]));
}

void Copy(const std::vector<double>& from, google::protobuf::RepeatedField<double>* to) {
  to->Add(from.begin(), from.end());
}

// What all results have.
template <typename Message>
void EncodeBase(const ResultBase& result, Message* message) {
  EncodeTimings(result.timings, message->mutable_timings());
  message->mutable_source()->set_context_digest(result.source.context_digest);
  message->mutable_source()->set_model_digest(result.source.model_digest);
  EncodeWarnings(result.notes, message->mutable_warnings());
  Copy(result.known_log_densities, message->mutable_known_log_densities());
}

// What Sample and Summarize return of their paths.
template <typename Message>
void EncodePathBase(const SampleSummary& summary, Message* message) {
  message->set_seed(summary.seed);
  EncodeBase(summary, message);
  if (summary.estimate.has_value()) {
    EncodeEstimate(*summary.estimate, message->mutable_estimate());
  }
}

void EncodeMixtures(const Mixtures& mixtures, v1::Mixtures* message) {
  message->set_component_count(mixtures.components);
  Copy(mixtures.means, message->mutable_means());
  Copy(mixtures.stds, message->mutable_stds());
  Copy(mixtures.weights, message->mutable_weights());
}

v1::Context::State EncodeState(ContextState state) {
  switch (state) {
    case ContextState::kNotResident:
      return v1::Context::STATE_NOT_RESIDENT;
    case ContextState::kEncoding:
      return v1::Context::STATE_ENCODING;
    case ContextState::kResident:
      return v1::Context::STATE_RESIDENT;
  }
  return v1::Context::STATE_UNSPECIFIED;
}

v1::ColumnSummary::CalendarFeature EncodeCalendarFeature(CalendarFeature feature) {
  switch (feature) {
    case CalendarFeature::kWeekday:
      return v1::ColumnSummary::CALENDAR_FEATURE_WEEKDAY;
    case CalendarFeature::kHour:
      return v1::ColumnSummary::CALENDAR_FEATURE_HOUR;
    case CalendarFeature::kDayOfMonth:
      return v1::ColumnSummary::CALENDAR_FEATURE_DAY_OF_MONTH;
    case CalendarFeature::kMonth:
      return v1::ColumnSummary::CALENDAR_FEATURE_MONTH;
  }
  return v1::ColumnSummary::CALENDAR_FEATURE_UNSPECIFIED;
}

}  // namespace

void EncodeContext(const ContextInfo& info, v1::Context* message) {
  const ContextRecord& record = info.record;
  message->set_name(ContextName(record.name));
  message->set_digest(record.digest);
  message->set_model(ModelName(record.model));
  message->set_target_column(record.target);
  for (const ColumnInfo& column : record.columns) {
    v1::ColumnSummary* feature = message->add_features();
    feature->set_name(column.name);
    feature->set_type(column.type == ColumnType::kNumeric ? v1::ColumnSummary::TYPE_NUMERIC
                                                          : v1::ColumnSummary::TYPE_CATEGORICAL);
    feature->set_category_count(column.categories);
    feature->set_missing_count(column.missing);
    feature->set_outlier_count(column.outside_bulk);
    feature->set_dropped(column.left_out);
    feature->set_season_steps(column.season_steps);
    feature->set_meaning(EncodeMeaning(column.meaning));
    for (const CalendarFeature calendar : column.calendar) {
      feature->add_calendar_features(EncodeCalendarFeature(calendar));
    }
  }
  message->set_feature_count(record.feature_count);
  message->set_clipped_target_count(record.clipped_targets);
  message->set_row_count(record.rows);
  message->set_appended_row_count(record.appended_rows);
  EncodeMemory(record.memory, message);
  message->set_dataset_bytes(record.dataset_bytes);
  message->set_resident_bytes(info.resident_bytes);
  EncodeTime(record.created, message->mutable_create_time());
  message->set_state(EncodeState(info.state));
  message->set_description(record.details.description);
  message->mutable_labels()->insert(record.details.labels.begin(), record.details.labels.end());
  EncodeTime(record.updated, message->mutable_update_time());
  if (record.last_used != absl::InfinitePast()) {
    EncodeTime(record.last_used, message->mutable_last_use_time());
  }
  if (record.details.expires != absl::InfiniteFuture()) {
    EncodeTime(record.details.expires, message->mutable_expire_time());
  }
  message->set_etag(EtagOf(record));
}

void EncodeContextPage(const ContextInfoPage& page, v1::ListContextsResponse* message) {
  for (const ContextInfo& info : page.contexts) EncodeContext(info, message->add_contexts());
  message->set_next_page_token(page.next_page_token);
}

void EncodeRegistration(const RegisterOutcome& outcome, v1::RegisterContextResponse* message) {
  EncodeContext(outcome.context, message->mutable_context());
  message->set_already_registered(outcome.outcome == PutOutcome::kUnchanged);
  message->set_replaced(outcome.outcome == PutOutcome::kReplaced);
  EncodeWarnings(outcome.notes, message->mutable_warnings());
  if (outcome.estimate.has_value()) {
    message->mutable_context()->clear_etag();  // of no version that exists
    EncodeEstimate(*outcome.estimate, message->mutable_estimate());
  }
}

void EncodeAppend(const AppendOutcome& outcome, int64_t sent_rows,
                  v1::AppendRowsResponse* message) {
  EncodeContext(outcome.context, message->mutable_context());
  message->set_already_appended(outcome.already_appended);
  message->set_appended_row_count(outcome.rows);
  EncodeTableWarnings({}, outcome.context.record.target, sent_rows - outcome.rows,
                      message->mutable_warnings());
  EncodeWarnings(outcome.notes, message->mutable_warnings(), RowUse::kAppended);
  if (outcome.estimate.has_value()) {
    message->mutable_context()->clear_etag();  // of no version that exists
    EncodeEstimate(*outcome.estimate, message->mutable_estimate());
  }
}

void EncodeModel(const ModelInfo& info, v1::Model* message) {
  const ModelConfig& config = info.config;
  message->set_name(ModelName(info.name));
  message->set_model_type(config.model_type);
  message->set_row_encoder(config.row_encoder);
  message->set_digest(info.digest);
  message->set_parameter_count(info.parameters);
  message->set_buffer_size(config.buffer_size);
  message->set_max_features(config.max_features);
  message->set_trained_rows(config.trained_rows);
  message->set_trained_features(config.trained_features);
  message->set_task(v1::Model::TASK_REGRESSION);
  message->set_component_count(config.num_components);
  message->set_resident_bytes_per_row(info.resident_bytes_per_row);
  message->set_is_default(info.is_default);
  message->set_notice(config.notice);
  message->set_form(info.form);
}

void EncodePredict(const PredictResult& result, v1::PredictResponse* message) {
  Copy(result.mean, message->mutable_means());
  Copy(result.std, message->mutable_stds());
  Copy(result.quantiles, message->mutable_quantiles());
  if (result.mixtures.components > 0) EncodeMixtures(result.mixtures, message->mutable_mixtures());
  EncodeBase(result, message);
}

void EncodeLogDensity(const LogDensityResult& result, v1::LogDensityResponse* message) {
  Copy(result.log_density, message->mutable_log_densities());
  Copy(result.standard_error, message->mutable_standard_errors());
  Copy(result.terms, message->mutable_terms());
  Copy(result.cdfs, message->mutable_cdfs());
  if (result.mixtures.components > 0) EncodeMixtures(result.mixtures, message->mutable_mixtures());
  message->set_seed(result.seed);
  EncodeBase(result, message);
}

void EncodeSummary(const SampleSummary& summary, v1::SampleSummary* message) {
  EncodePathBase(summary, message);
  Copy(summary.total_log_weights, message->mutable_total_log_weights());
  Copy(summary.total_effective_sample_sizes, message->mutable_total_effective_sample_sizes());
}

void EncodeSummarize(const SummarizeResult& result, v1::SummarizeResponse* message) {
  EncodePathBase(result, message);
  Copy(result.means, message->mutable_means());
  Copy(result.mean_errors, message->mutable_mean_errors());
  Copy(result.stds, message->mutable_stds());
  Copy(result.quantiles, message->mutable_quantiles());
  Copy(result.quantile_errors, message->mutable_quantile_errors());
  message->set_conditional(result.conditional);
  for (const FunctionalSummary& functional : result.functionals) {
    v1::FunctionalSummary* encoded = message->add_functionals();
    Copy(functional.means, encoded->mutable_means());
    Copy(functional.mean_errors, encoded->mutable_mean_errors());
    Copy(functional.stds, encoded->mutable_stds());
    Copy(functional.quantiles, encoded->mutable_quantiles());
    Copy(functional.quantile_errors, encoded->mutable_quantile_errors());
    encoded->set_conditional(functional.conditional);
  }
  Copy(result.covariances, message->mutable_covariances());
  Copy(result.paths, message->mutable_paths());
  message->set_path_count(result.path_count);
}

void EncodeBlock(const SampleBlock& block, int64_t first, int64_t paths, Precision precision,
                 v1::SampleBlock* message) {
  if (block.path_indices.empty()) {
    message->set_first_path(block.first_path + first);
  } else {
    const auto indices = block.path_indices.begin() + first;
    message->mutable_paths()->Add(indices, indices + paths);
  }
  message->set_path_count(paths);
  message->set_first_step(block.first_step);
  message->set_step_count(block.steps);
  const int64_t begin = first * block.steps;
  const int64_t end = (first + paths) * block.steps;
  EncodeNumbers(block.values, begin, end, precision, message->mutable_values(),
                message->mutable_float_values());
  if (!block.log_densities.empty()) {
    EncodeNumbers(block.log_densities, begin, end, precision, message->mutable_log_densities(),
                  message->mutable_float_log_densities());
  }
  if (!block.query_rows.empty()) {
    message->mutable_rows()->Add(block.query_rows.begin() + begin, block.query_rows.begin() + end);
  }
}

int64_t EncodedBytesPerPath(const SampleBlock& block, Precision precision) {
  const int64_t number = precision == Precision::kFloat64 ? 8 : 4;
  constexpr int64_t kMaxVarint = 5;  // indices are never negative
  int64_t per_value = number;
  if (!block.log_densities.empty()) per_value += number;
  if (!block.query_rows.empty()) per_value += kMaxVarint;
  return per_value * block.steps + (block.path_indices.empty() ? 0 : kMaxVarint);
}

}  // namespace chorale
