#include "server/codec/request_decoder.h"

#include <algorithm>
#include <cmath>
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

template <typename Message>
absl::Status DecodeBase(const Message& message, const Limits& limits, RequestBase* request) {
  absl::StatusOr<std::string> context = ParseContextName(message.context(), "context");
  RETURN_IF_ERROR(context.status());
  absl::StatusOr<Table> targets = DecodeTable(message.targets(), "targets", TargetBounds(limits));
  RETURN_IF_ERROR(targets.status());
  request->context = *std::move(context);
  request->targets = *std::move(targets);
  return absl::OkStatus();
}

absl::Status UnknownEnum(absl::string_view field, int value) {
  return InvalidField(field, absl::StrCat("has no value ", value));
}

absl::StatusOr<BeyondBuffer> DecodeBeyondBuffer(v1::BeyondBuffer value) {
  switch (value) {
    case v1::BEYOND_BUFFER_UNSPECIFIED:
      return BeyondBuffer::kRefuse;
    case v1::WRAP:
      return BeyondBuffer::kWrap;
    default:
      return UnknownEnum("beyond_buffer", value);
  }
}

absl::StatusOr<TargetOrder> DecodeOrder(v1::SampleRequest::Order value) {
  switch (value) {
    case v1::SampleRequest::ORDER_UNSPECIFIED:
    case v1::SampleRequest::GIVEN:
      return TargetOrder::kGiven;
    case v1::SampleRequest::RANDOM_PER_PATH:
      return TargetOrder::kRandomPerPath;
    default:
      return UnknownEnum("order", value);
  }
}

// [B, T] values, where T is known and B follows.
absl::Status DecodeValues(const v1::LogDensityRequest& message, LogDensityRequest* request) {
  const int64_t targets = request->targets.rows();
  const int64_t values = message.values_size();
  if (values == 0) return InvalidField("values", "must not be empty");
  if (values % targets != 0) {
    return InvalidField("values", absl::StrCat("has ", values, " numbers, which is no multiple of ",
                                               targets, ", the number of target rows"));
  }
  for (int i = 0; i < message.values_size(); ++i) {
    if (!std::isfinite(message.values(i))) {
      return InvalidField(absl::StrCat("values[", i, "]"), "must be finite");
    }
  }
  request->y.assign(message.values().begin(), message.values().end());
  request->vectors = values / targets;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PredictRequest> DecodePredict(const v1::PredictRequest& message,
                                             const Limits& limits) {
  PredictRequest request;
  RETURN_IF_ERROR(DecodeBase(message, limits, &request));
  if (message.quantiles_size() > limits.max_quantiles) {
    return InvalidField("quantiles", absl::StrCat("has ", message.quantiles_size(),
                                                  " entries; the limit is ", limits.max_quantiles));
  }
  for (int i = 0; i < message.quantiles_size(); ++i) {
    // Written so that NaN is refused too.
    if (!(message.quantiles(i) > 0 && message.quantiles(i) < 1)) {
      return InvalidField(absl::StrCat("quantiles[", i, "]"), "must be strictly between 0 and 1");
    }
  }
  request.quantiles.assign(message.quantiles().begin(), message.quantiles().end());
  request.want_mixtures = message.include_mixtures();
  return request;
}

absl::StatusOr<SampleRequest> DecodeSample(const v1::SampleRequest& message, const Limits& limits) {
  SampleRequest request;
  RETURN_IF_ERROR(DecodeBase(message, limits, &request));
  if (message.path_count() < 1 || message.path_count() > limits.max_paths) {
    return InvalidField("path_count", absl::StrCat("is ", message.path_count(),
                                                   "; it must be 1 to ", limits.max_paths));
  }
  absl::StatusOr<TargetOrder> order = DecodeOrder(message.order());
  RETURN_IF_ERROR(order.status());
  absl::StatusOr<BeyondBuffer> beyond = DecodeBeyondBuffer(message.beyond_buffer());
  RETURN_IF_ERROR(beyond.status());
  request.paths = message.path_count();
  request.seed = message.seed();
  request.order = *order;
  request.want_log_densities = message.include_log_densities();
  request.beyond_buffer = *beyond;
  return request;
}

absl::StatusOr<LogDensityRequest> DecodeLogDensity(const v1::LogDensityRequest& message,
                                                   const Limits& limits) {
  LogDensityRequest request;
  RETURN_IF_ERROR(DecodeBase(message, limits, &request));
  RETURN_IF_ERROR(DecodeValues(message, &request));
  const int64_t orders = message.random_order_count();
  if (orders < 0 || orders > limits.max_orders) {
    return InvalidField("random_order_count",
                        absl::StrCat("is ", orders, "; it must be 0 to ", limits.max_orders));
  }
  if (orders > 0 && message.include_terms()) {
    return InvalidField("include_terms", "is not possible with random orders");
  }
  if (orders > 0 && message.include_mixtures()) {
    return InvalidField("include_mixtures", "is not possible with random orders");
  }
  absl::StatusOr<BeyondBuffer> beyond = DecodeBeyondBuffer(message.beyond_buffer());
  RETURN_IF_ERROR(beyond.status());
  request.random_orders = orders;
  request.seed = message.seed();
  request.want_terms = message.include_terms();
  request.want_mixtures = message.include_mixtures();
  request.beyond_buffer = *beyond;
  return request;
}

absl::StatusOr<int64_t> DecodePageSize(int32_t page_size) {
  if (page_size < 0) return InvalidField("page_size", "must not be negative");
  if (page_size == 0) return kDefaultPageSize;
  return std::min<int64_t>(page_size, kMaxPageSize);
}

}  // namespace chorale
