#include "server/codec/details_decoder.h"

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(DetailsDecoderTest, KeepsEverything) {
  v1::ContextSpec spec;
  spec.set_description(std::string(4096, 'd'));
  (*spec.mutable_labels())["team/a_b-c.d"] = std::string(63, 'v');
  (*spec.mutable_labels())["1"] = "";
  spec.mutable_ttl()->set_seconds(90);
  spec.mutable_ttl()->set_nanos(5);
  RegisterRequest request;
  ASSERT_TRUE(DecodeDetails(spec, &request).ok());
  EXPECT_EQ(request.description.size(), 4096);
  EXPECT_THAT(request.labels,
              ElementsAre(Pair("1", ""), Pair("team/a_b-c.d", std::string(63, 'v'))));
  EXPECT_EQ(request.ttl, absl::Seconds(90) + absl::Nanoseconds(5));
  EXPECT_EQ(request.expires, std::nullopt);

  spec.mutable_expire_time()->set_seconds(2'000'000'000);
  RegisterRequest at;
  ASSERT_TRUE(DecodeDetails(spec, &at).ok());
  EXPECT_EQ(at.expires, absl::FromUnixSeconds(2'000'000'000));
  EXPECT_EQ(at.ttl, std::nullopt);
}

TEST(DetailsDecoderTest, NothingIsSetByDefault) {
  RegisterRequest request;
  ASSERT_TRUE(DecodeDetails(v1::ContextSpec(), &request).ok());
  EXPECT_EQ(request.description, "");
  EXPECT_TRUE(request.labels.empty());
  EXPECT_FALSE(request.replace);
  EXPECT_EQ(request.expires, std::nullopt);
  EXPECT_EQ(request.ttl, std::nullopt);
}

TEST(DetailsDecoderTest, RefusesWhatExceedsTheLimits) {
  const auto refused = [](const std::string& field, const std::string& text,
                          const std::function<void(v1::ContextSpec*)>& change) {
    v1::ContextSpec spec;
    change(&spec);
    RegisterRequest request;
    const absl::Status status = DecodeDetails(spec, &request);
    EXPECT_EQ(ErrorField(status), field) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  refused("spec.description", "4097 bytes; the limit is 4096",
          [](auto* spec) { spec->set_description(std::string(4097, 'd')); });
  for (const std::string key : {"", "A", "-a", "a b", "\u00e4"}) {
    refused("spec.labels", "does not match",
            [&](auto* spec) { (*spec->mutable_labels())[key] = "x"; });
  }
  refused("spec.labels", "does not match",
          [](auto* spec) { (*spec->mutable_labels())[std::string(64, 'k')] = "x"; });
  refused("spec.labels", "64 bytes; the limit is 63",
          [](auto* spec) { (*spec->mutable_labels())["k"] = std::string(64, 'v'); });
  refused("spec.labels", "65 labels; the limit is 64", [](auto* spec) {
    for (int i = 0; i < 65; ++i) (*spec->mutable_labels())[absl::StrCat("k", i)] = "";
  });
  for (const int64_t seconds : {int64_t{-1}, int64_t{1} << 40}) {
    refused("spec.expire_time", "before the year 2200",
            [&](auto* spec) { spec->mutable_expire_time()->set_seconds(seconds); });
    refused("spec.ttl", "at most 36500 days",
            [&](auto* spec) { spec->mutable_ttl()->set_seconds(seconds); });
  }
  refused("spec.expire_time", "", [](auto* spec) { spec->mutable_expire_time()->set_nanos(-1); });
  refused("spec.etag", "requires replace", [](auto* spec) { spec->set_etag("e"); });
  refused("spec.ttl", "more than 0", [](auto* spec) { spec->mutable_ttl(); });
}

}  // namespace
}  // namespace chorale
