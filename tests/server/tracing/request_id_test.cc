#include "server/tracing/request_id.h"

#include <optional>
#include <string>

#include "absl/random/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(RequestIdTest, TheClientsIsTakenOver) {
  absl::BitGen random;
  const std::string longest(kMaxRequestIdBytes, 'x');
  for (const std::string& id : {std::string("a"), std::string("7f-Q/=+\"~!"), longest}) {
    EXPECT_EQ(TakeRequestId(id, random), id);
  }
}

TEST(RequestIdTest, OthersAreReplaced) {
  absl::BitGen random;
  std::string last;
  for (const std::string& id :
       {std::string(), std::string(kMaxRequestIdBytes + 1, 'x'), std::string("two words"),
        std::string("line\nbreak"), std::string("tab\t"), std::string("\x7f"),
        std::string("\xc3\xa9"), std::string("nul\0", 4)}) {
    const std::string made = TakeRequestId(id, random);
    EXPECT_THAT(made, ::testing::MatchesRegex("[0-9a-f]{32}"));
    EXPECT_NE(made, last);
    last = made;
  }
  EXPECT_EQ(TakeRequestId(std::nullopt, random).size(), 32u);
}

}  // namespace
}  // namespace chorale
