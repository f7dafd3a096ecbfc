#include "server/tracing/request_id.h"

#include <algorithm>
#include <cstdint>

#include "absl/random/distributions.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace chorale {

std::string TakeRequestId(const std::optional<absl::string_view>& header, absl::BitGenRef random) {
  const auto printable = [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); };
  if (header.has_value() && !header->empty() && header->size() <= kMaxRequestIdBytes &&
      std::all_of(header->begin(), header->end(), printable)) {
    return std::string(*header);
  }
  return absl::StrCat(absl::Hex(absl::Uniform<uint64_t>(random), absl::kZeroPad16),
                      absl::Hex(absl::Uniform<uint64_t>(random), absl::kZeroPad16));
}

}  // namespace chorale
