#include "server/codec/details_decoder.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"

namespace chorale {
namespace {

constexpr size_t kMaxDescriptionBytes = 4096;
constexpr size_t kMaxLabels = 64;
constexpr size_t kMaxLabelBytes = 63;  // of a key or a value
constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kMaxExpireSeconds = 7'258'118'400;  // 2200-01-01
constexpr int64_t kMaxTtlSeconds = int64_t{36'500} * 86'400;

bool IsLabelKey(absl::string_view key) {
  const auto starts = [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); };
  return !key.empty() && key.size() <= kMaxLabelBytes && starts(key.front()) &&
         std::all_of(key.begin(), key.end(), [&](char c) {
           return starts(c) || c == '_' || c == '-' || c == '.' || c == '/';
         });
}

absl::Status CheckLabels(const google::protobuf::Map<std::string, std::string>& labels) {
  if (labels.size() > kMaxLabels) {
    return LimitExceeded("spec.labels",
                         absl::StrCat("has ", labels.size(), " labels; the limit is ", kMaxLabels));
  }
  for (const auto& [key, value] : labels) {
    if (!IsLabelKey(key)) {
      return InvalidField(
          "spec.labels",
          absl::StrCat("the key ", QuoteName(key), " does not match [a-z0-9][a-z0-9_./-]{0,62}"));
    }
    if (value.size() > kMaxLabelBytes) {
      return LimitExceeded("spec.labels",
                           absl::StrCat("the value of ", QuoteName(key), " has ", value.size(),
                                        " bytes; the limit is ", kMaxLabelBytes));
    }
  }
  return absl::OkStatus();
}

absl::Status DecodeExpiration(const v1::ContextSpec& spec, RegisterRequest* request) {
  if (spec.has_expire_time()) {
    const auto& time = spec.expire_time();
    if (time.nanos() < 0 || time.nanos() >= kNanosPerSecond || time.seconds() < 0 ||
        time.seconds() >= kMaxExpireSeconds) {
      return InvalidField("spec.expire_time", "must be a time before the year 2200");
    }
    request->expires = absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
  }
  if (spec.has_ttl()) {
    const auto& ttl = spec.ttl();
    const bool valid = ttl.seconds() >= 0 && ttl.seconds() <= kMaxTtlSeconds && ttl.nanos() >= 0 &&
                       ttl.nanos() < kNanosPerSecond && (ttl.seconds() > 0 || ttl.nanos() > 0);
    if (!valid) return InvalidField("spec.ttl", "must be more than 0 and at most 36500 days");
    request->ttl = absl::Seconds(ttl.seconds()) + absl::Nanoseconds(ttl.nanos());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DecodeDetails(const v1::ContextSpec& spec, RegisterRequest* request) {
  if (spec.description().size() > kMaxDescriptionBytes) {
    return LimitExceeded("spec.description",
                         absl::StrCat("has ", spec.description().size(), " bytes; the limit is ",
                                      kMaxDescriptionBytes));
  }
  RETURN_IF_ERROR(CheckLabels(spec.labels()));
  if (!spec.etag().empty() && !spec.replace()) {
    return InvalidField("spec.etag", "requires replace");
  }
  request->replace = spec.replace();
  request->etag = spec.etag();
  request->description = spec.description();
  request->labels = {spec.labels().begin(), spec.labels().end()};
  return DecodeExpiration(spec, request);
}

}  // namespace chorale
