#include "server/tracing/otlp.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

Span MakeSpan() {
  Span span;
  for (size_t i = 0; i < span.trace_id.size(); ++i) span.trace_id[i] = 1 + i;
  for (size_t i = 0; i < span.span_id.size(); ++i) span.span_id[i] = 17 + i;
  for (size_t i = 0; i < span.parent_id.size(); ++i) span.parent_id[i] = 25 + i;
  span.parent_is_remote = true;
  span.kind = Span::Kind::kServer;
  span.name = std::string("n");
  span.start = absl::FromUnixSeconds(1);
  span.end = absl::FromUnixSeconds(2) + absl::Nanoseconds(3);
  span.attributes = {{"s", "x"}, {"i", int64_t{-2}}, {"d", 0.5}};
  span.events = {{"first_step", absl::FromUnixSeconds(1) + absl::Nanoseconds(1)}};
  span.failed = true;
  return span;
}

// The bytes are those that OpenTelemetry's own Python package (opentelemetry-proto 1.x) makes of
// the same message: they hold our .proto files to the public ones.
TEST(OtlpTest, HasTheBytesOfThePublicProtocol) {
  const std::string expected = absl::HexStringToBytes(
      "0afa010a510a190a0c736572766963652e6e616d6512090a0763686f72616c650a180a0f736572766963652e7665"
      "7273696f6e12050a03312e320a1a0a13736572766963652e696e7374616e63652e696412030a016912a4010a150a"
      "0e63686f72616c652d7365727665721203312e32128a010a100102030405060708090a0b0c0d0e0f101208111213"
      "14151617182208191a1b1c1d1e1f202a016e30023900ca9a3b000000004103943577000000004a080a0173120"
      "30a01784a100a0169120b18feffffffffffffffff014a0e0a0164120921000000000000e03f5a150901ca9a3b00"
      "000000120a66697273745f737465707a021802850101030000");
  EXPECT_EQ(absl::BytesToHexString(ToOtlp({"1.2", "i"}, {MakeSpan()}).SerializeAsString()),
            absl::BytesToHexString(expected));
}

TEST(OtlpTest, RootsHaveNoParent) {
  Span span = MakeSpan();
  span.parent_id = SpanId{};
  span.parent_is_remote = false;
  span.failed = false;
  const auto request = ToOtlp({"1", "i"}, {span});
  const auto& out = request.resource_spans(0).scope_spans(0).spans(0);
  EXPECT_EQ(out.parent_span_id(), "");
  EXPECT_EQ(out.flags(), 0x101u);
  EXPECT_FALSE(out.has_status());
}

TEST(OtlpTest, AnyBytesMakeAMessageThatParses) {
  Span span = MakeSpan();
  span.name = std::string("\xff");
  span.attributes = {{"a", std::string("\xc3(\0", 3)}, {"b", uint64_t{1} << 63}, {"c", "\xc3\xa9"}};
  const std::string bytes = ToOtlp({"1", "i"}, {span}).SerializeAsString();
  opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(bytes));
  const auto& out = parsed.resource_spans(0).scope_spans(0).spans(0);
  EXPECT_EQ(out.name(), "\\377");
  EXPECT_EQ(out.attributes(0).value().string_value(), "\\303(\\000");
  EXPECT_EQ(out.attributes(1).value().string_value(), "9223372036854775808");
  EXPECT_EQ(out.attributes(2).value().string_value(), "\xc3\xa9");
}

TEST(OtlpTest, InstanceIdsAreRandomUuids) {
  const std::string id = MakeInstanceId();
  EXPECT_THAT(id, ::testing::MatchesRegex(
                      "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
  EXPECT_NE(MakeInstanceId(), id);
}

}  // namespace
}  // namespace chorale
