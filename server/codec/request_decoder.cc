#include "server/codec/request_decoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "server/codec/resource_name.h"
#include "server/codec/table_decoder.h"

namespace chorale {
namespace {

constexpr int64_t kDefaultPageSize = 100;
constexpr int64_t kMaxPageSize = 1000;

absl::Status UnknownEnum(absl::string_view field, int value) {
  return InvalidField(field, absl::StrCat("has no value ", value));
}

absl::StatusOr<Snapping> DecodeSnapping(v1::Snapping value) {
  switch (value) {
    case v1::SNAPPING_UNSPECIFIED:
    case v1::SNAPPING_ON:
      return Snapping::kOn;
    case v1::SNAPPING_OFF:
      return Snapping::kOff;
    default:
      return UnknownEnum("snapping", value);
  }
}

absl::StatusOr<BeyondBuffer> DecodeBeyondBuffer(v1::BeyondBuffer value) {
  switch (value) {
    case v1::BEYOND_BUFFER_UNSPECIFIED:
      return BeyondBuffer::kRefuse;
    case v1::BEYOND_BUFFER_WRAP:
      return BeyondBuffer::kWrap;
    default:
      return UnknownEnum("beyond_buffer", value);
  }
}

// The fields that all requests with query rows have.
template <typename Message>
absl::Status DecodeBase(const Message& message, const Limits& limits, RequestBase* request) {
  ASSIGN_OR_RETURN(std::string context, ParseContextName(message.context(), "context"));
  ASSIGN_OR_RETURN(Table query_rows, DecodeTable(message.rows(), "rows", QueryRowBounds(limits)));
  request->context = std::move(context);
  request->query_rows = std::move(query_rows);
  if (message.ignore_extra_columns()) request->extra_columns = ExtraColumns::kIgnore;
  request->expected = {message.expected_source().context_digest(),
                       message.expected_source().model_digest()};
  request->local_rows = message.local_row_count();
  request->known.rows.assign(message.known().rows().begin(), message.known().rows().end());
  request->known.values.assign(message.known().values().begin(), message.known().values().end());
  request->group_sizes.assign(message.group_sizes().begin(), message.group_sizes().end());
  ASSIGN_OR_RETURN(request->beyond_buffer, DecodeBeyondBuffer(message.beyond_buffer()));
  return absl::OkStatus();
}

absl::StatusOr<RowOrder> DecodeOrder(v1::SampleRequest::Order value) {
  switch (value) {
    case v1::SampleRequest::ORDER_UNSPECIFIED:
    case v1::SampleRequest::ORDER_GIVEN:
      return RowOrder::kGiven;
    case v1::SampleRequest::ORDER_RANDOM_PER_PATH:
      return RowOrder::kRandomPerPath;
    default:
      return UnknownEnum("order", value);
  }
}

absl::StatusOr<Sampling> DecodeSampling(v1::SampleRequest::Sampling value) {
  switch (value) {
    case v1::SampleRequest::SAMPLING_UNSPECIFIED:
    case v1::SampleRequest::SAMPLING_INDEPENDENT:
      return Sampling::kIndependent;
    case v1::SampleRequest::SAMPLING_SOBOL:
      return Sampling::kSobol;
    default:
      return UnknownEnum("sampling", value);
  }
}

absl::StatusOr<Estimator> DecodeEstimator(v1::SummarizeRequest::Estimator value) {
  switch (value) {
    case v1::SummarizeRequest::ESTIMATOR_UNSPECIFIED:
    case v1::SummarizeRequest::ESTIMATOR_CONDITIONAL:
      return Estimator::kConditional;
    case v1::SummarizeRequest::ESTIMATOR_VALUES:
      return Estimator::kValues;
    default:
      return UnknownEnum("estimator", value);
  }
}

// The fields that Sample and Summarize have.
template <typename Message>
absl::Status DecodePaths(const Message& message, const Limits& limits, SampleRequest* request) {
  RETURN_IF_ERROR(DecodeBase(message, limits, request));
  ASSIGN_OR_RETURN(request->order, DecodeOrder(message.order()));
  ASSIGN_OR_RETURN(request->sampling, DecodeSampling(message.sampling()));
  ASSIGN_OR_RETURN(request->snapping, DecodeSnapping(message.snapping()));
  request->paths = message.path_count();
  request->first_path = message.first_path();
  if (message.has_seed()) request->seed = message.seed();
  if (message.first_path() != 0 && !message.has_seed()) {
    return InvalidField("seed", absl::StrCat("is required, because first_path is ",
                                             message.first_path(), " and counts the seed's paths"));
  }
  request->validate_only = message.validate_only();
  return absl::OkStatus();
}

absl::StatusOr<FunctionalType> DecodeFunctionalType(size_t index, v1::Functional::Type value) {
  switch (value) {
    case v1::Functional::TYPE_SUM:
      return FunctionalType::kSum;
    case v1::Functional::TYPE_MEAN:
      return FunctionalType::kMean;
    case v1::Functional::TYPE_MAX:
      return FunctionalType::kMax;
    case v1::Functional::TYPE_MIN:
      return FunctionalType::kMin;
    case v1::Functional::TYPE_ANY:
      return FunctionalType::kAny;
    case v1::Functional::TYPE_ALL:
      return FunctionalType::kAll;
    case v1::Functional::TYPE_COUNT:
      return FunctionalType::kCount;
    case v1::Functional::TYPE_EXCESS:
      return FunctionalType::kExcess;
    case v1::Functional::TYPE_IMPROVEMENT:
      return FunctionalType::kImprovement;
    case v1::Functional::TYPE_LONGEST_RUN:
      return FunctionalType::kLongestRun;
    case v1::Functional::TYPE_ARGMAX:
      return FunctionalType::kArgmax;
    case v1::Functional::TYPE_ARGMIN:
      return FunctionalType::kArgmin;
    case v1::Functional::TYPE_RANK:
      return FunctionalType::kRank;
    case v1::Functional::TYPE_SUM_BEYOND:
      return FunctionalType::kSumBeyond;
    default:
      break;
  }
  const std::string field = absl::StrCat("functionals[", index, "].type");
  if (value == v1::Functional::TYPE_UNSPECIFIED) return InvalidField(field, "is required");
  return UnknownEnum(field, value);
}

}  // namespace

absl::StatusOr<PredictRequest> DecodePredict(const v1::PredictRequest& message,
                                             const Limits& limits) {
  PredictRequest request;
  RETURN_IF_ERROR(DecodeBase(message, limits, &request));
  ASSIGN_OR_RETURN(Snapping snapping, DecodeSnapping(message.snapping()));
  request.snapping = snapping;
  request.quantiles.assign(message.quantiles().begin(), message.quantiles().end());
  request.want_mixtures = message.include_mixtures();
  return request;
}

absl::StatusOr<SampleRequest> DecodeSample(const v1::SampleRequest& message, const Limits& limits) {
  SampleRequest request;
  RETURN_IF_ERROR(DecodePaths(message, limits, &request));
  request.want_log_densities = message.include_log_densities();
  request.whole_paths = message.whole_paths();
  request.float32_values = message.float32_values();
  if (message.has_known_totals()) {
    const v1::KnownTotals& totals = message.known_totals();
    request.known_totals.emplace();
    request.known_totals->lower.assign(totals.lower().begin(), totals.lower().end());
    request.known_totals->upper.assign(totals.upper().begin(), totals.upper().end());
  }
  return request;
}

absl::StatusOr<SummarizeRequest> DecodeSummarize(const v1::SummarizeRequest& message,
                                                 const Limits& limits) {
  SummarizeRequest request;
  RETURN_IF_ERROR(DecodePaths(message, limits, &request));
  request.quantiles.assign(message.quantiles().begin(), message.quantiles().end());
  for (const v1::Functional& functional : message.functionals()) {
    const size_t index = request.functionals.size();
    Functional& decoded = request.functionals.emplace_back();
    ASSIGN_OR_RETURN(decoded.type, DecodeFunctionalType(index, functional.type()));
    decoded.rows.assign(functional.rows().begin(), functional.rows().end());
    decoded.weights.assign(functional.weights().begin(), functional.weights().end());
    decoded.threshold = functional.threshold();
    decoded.below = functional.below();
    decoded.target_errors = {functional.target_mean_error(), functional.target_quantile_error()};
  }
  ASSIGN_OR_RETURN(request.estimator, DecodeEstimator(message.estimator()));
  request.want_covariances = message.include_covariances();
  request.returned_paths = message.returned_path_count();
  request.target_errors = {message.target_mean_error(), message.target_quantile_error()};
  return request;
}

absl::StatusOr<LogDensityRequest> DecodeLogDensity(const v1::LogDensityRequest& message,
                                                   const Limits& limits) {
  LogDensityRequest request;
  RETURN_IF_ERROR(DecodeBase(message, limits, &request));
  // The engine refuses values that do not fill whole vectors, and invalid known rows.
  request.y.assign(message.values().begin(), message.values().end());
  request.vectors = message.values_size() /
                    std::max<int64_t>(request.query_rows.rows() - request.known.count(), 1);
  request.random_orders = message.random_order_count();
  if (message.has_seed()) request.seed = message.seed();
  request.want_terms = message.include_terms();
  request.want_mixtures = message.include_mixtures();
  request.want_cdfs = message.include_cdfs();
  return request;
}

absl::StatusOr<AppendRequest> DecodeAppend(const v1::AppendRowsRequest& message) {
  AppendRequest request;
  ASSIGN_OR_RETURN(request.context, ParseContextName(message.name(), "name"));
  if (message.has_first_row()) {
    if (message.first_row() < 0) {
      return InvalidField("first_row",
                          absl::StrCat("is ", message.first_row(), "; it must not be negative"));
    }
    request.first_row = message.first_row();
  }
  if (!v1::ContextSpec::MissingTargets_IsValid(message.missing_targets())) {
    return UnknownEnum("missing_targets", message.missing_targets());
  }
  request.etag = message.etag();
  request.expected_digest = message.expected_source().context_digest();
  request.drop_missing_targets = message.missing_targets() == v1::ContextSpec::MISSING_TARGETS_DROP;
  request.validate_only = message.validate_only();
  return request;
}

absl::StatusOr<int64_t> DecodePageSize(int32_t page_size) {
  if (page_size < 0) return InvalidField("page_size", "must not be negative");
  if (page_size == 0) return kDefaultPageSize;
  return std::min<int64_t>(page_size, kMaxPageSize);
}

}  // namespace chorale
