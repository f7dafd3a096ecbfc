#include "base/fault.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ParseFaultsTest, APlaceFailsWithItsProbability) {
  const Faults faults = ParseFaults("buffer_pool=1,accept=0,device=1:1ns,reply_memory=0.5").value();
  EXPECT_TRUE(faults(FaultPlace::kBufferPool));
  EXPECT_FALSE(faults(FaultPlace::kAccept));
  EXPECT_FALSE(faults(FaultPlace::kDevice)) << "it is only delayed";
  EXPECT_FALSE(faults(FaultPlace::kContextPool)) << "it is not in the text";
  int failures = 0;
  for (int i = 0; i < 1000; ++i) failures += faults(FaultPlace::kReplyMemory) ? 1 : 0;
  EXPECT_NEAR(failures, 500, 100);
}

TEST(ParseFaultsTest, KnowsAllPlaces) {
  const Faults faults =
      ParseFaults(
          "buffer_pool=1,context_pool=1,host_context_pool=1,encode_pool=1,context_load=1,"
          "context_file_read=1,context_file_write=1,device=1,accept=1,reply_memory=1")
          .value();
  for (int place = 0; place <= static_cast<int>(FaultPlace::kReplyMemory); ++place) {
    EXPECT_TRUE(faults(static_cast<FaultPlace>(place))) << place;
  }
}

TEST(ParseFaultsTest, ErrorsNameThePart) {
  for (const char* text :
       {"", "accept", "accept=", "accept=1:", "accept=1.5", "accept=-1", "accept=nan",
        "accept=1:1ms:1ms", "accept=1:soon", "accept=1:-1ms", "accept:1=1ms", "elsewhere=1"}) {
    const auto faults = ParseFaults(text);
    ASSERT_FALSE(faults.ok()) << text;
    EXPECT_THAT(std::string(faults.status().message()),
                AllOf(StartsWith(absl::StrCat("'", text, "' is not PLACE=PROBABILITY or")),
                      HasSubstr("with a place of buffer_pool, ")));
  }
}

TEST(ParseFaultsTest, TheLastFaultOfAPlaceCounts) {
  EXPECT_TRUE(ParseFaults("device=1:1ns,device=1").value()(FaultPlace::kDevice));
  EXPECT_FALSE(ParseFaults("device=1,device=1:1ns").value()(FaultPlace::kDevice));
}

TEST(FaultAtTest, APlaceFailsWhileItsFaultIsSet) {
  EXPECT_FALSE(FaultAt(FaultPlace::kAccept));
  SetFaults([](FaultPlace place) { return place == FaultPlace::kAccept; });
  EXPECT_TRUE(FaultAt(FaultPlace::kAccept));
  EXPECT_FALSE(FaultAt(FaultPlace::kDevice));
  SetFaults(nullptr);
  EXPECT_FALSE(FaultAt(FaultPlace::kAccept));
}

}  // namespace
}  // namespace chorale
