#include "server/tracing/trace_context.h"

#include <algorithm>
#include <cmath>

#include "absl/random/distributions.h"
#include "absl/strings/escaping.h"

namespace chorale {
namespace {

// version "-" trace id "-" parent id "-" flags, in hexadecimal
constexpr size_t kVersionAt = 0;
constexpr size_t kTraceIdAt = 3;
constexpr size_t kParentIdAt = 36;
constexpr size_t kFlagsAt = 53;
constexpr size_t kHeaderBytes = 55;  // of version 00; later ones may add "-" and more

constexpr uint8_t kSampledBit = 1;

// The value of a lower-case hexadecimal digit, or -1. The recommendation forbids upper case.
int DigitValue(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

template <size_t N>
bool ParseHex(absl::string_view text, std::array<uint8_t, N>* bytes) {
  for (size_t i = 0; i < N; ++i) {
    const int high = DigitValue(text[2 * i]);
    const int low = DigitValue(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    (*bytes)[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

template <size_t N>
bool IsZero(const std::array<uint8_t, N>& id) {
  return std::all_of(id.begin(), id.end(), [](uint8_t byte) { return byte == 0; });
}

template <size_t N>
std::array<uint8_t, N> RandomId(absl::BitGenRef random) {
  std::array<uint8_t, N> id;
  do {
    for (uint8_t& byte : id) byte = absl::Uniform<uint8_t>(random);
  } while (IsZero(id));
  return id;
}

template <size_t N>
std::string Hex(const std::array<uint8_t, N>& id) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(id.data()), id.size()));
}

}  // namespace

std::optional<TraceParent> ParseTraceparent(absl::string_view header) {
  if (header.size() < kHeaderBytes) return std::nullopt;
  for (const size_t dash : {kTraceIdAt - 1, kParentIdAt - 1, kFlagsAt - 1}) {
    if (header[dash] != '-') return std::nullopt;
  }
  TraceParent parent;
  std::array<uint8_t, 1> version;
  std::array<uint8_t, 1> flags;
  if (!ParseHex(header.substr(kVersionAt), &version) ||
      !ParseHex(header.substr(kTraceIdAt), &parent.trace_id) ||
      !ParseHex(header.substr(kParentIdAt), &parent.span_id) ||
      !ParseHex(header.substr(kFlagsAt), &flags)) {
    return std::nullopt;
  }
  if (version[0] == 0xff || IsZero(parent.trace_id) || IsZero(parent.span_id)) return std::nullopt;
  if (header.size() > kHeaderBytes && (version[0] == 0 || header[kHeaderBytes] != '-')) {
    return std::nullopt;
  }
  parent.sampled = (flags[0] & kSampledBit) != 0;
  return parent;
}

bool SampleRoot(const TraceId& trace_id, double rate) {
  uint64_t random = 0;
  for (size_t i = trace_id.size() - 7; i < trace_id.size(); ++i) random = random << 8 | trace_id[i];
  return std::ldexp(static_cast<double>(random), -56) < rate;
}

TraceContext MakeTraceContext(const std::optional<TraceParent>& parent, double root_sample_rate,
                              absl::BitGenRef random) {
  TraceContext context;
  context.span_id = MakeSpanId(random);
  if (parent.has_value()) {
    context.trace_id = parent->trace_id;
    context.parent_id = parent->span_id;
    context.sampled = parent->sampled;
  } else {
    context.trace_id = RandomId<16>(random);
    context.sampled = SampleRoot(context.trace_id, root_sample_rate);
  }
  return context;
}

SpanId MakeSpanId(absl::BitGenRef random) { return RandomId<8>(random); }

std::string ToHex(const TraceId& id) { return Hex(id); }
std::string ToHex(const SpanId& id) { return Hex(id); }

}  // namespace chorale
