// --validate-only
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/client/cli/command_line_fixture.h"

namespace chorale::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(CommandLineTest, ValidatedSamplesAreAnEstimate) {
  RegisterHouses();
  const auto object = nlohmann::json::parse(
      Good({"sample", "houses", Path("rows.csv"), "--validate-only", "--format=json"}).out);
  EXPECT_EQ(object.at(0).at("device_bytes"), 4096);
  EXPECT_EQ(object.at(0).at("seconds"), 3.0);
}

TEST_F(CommandLineTest, AValidatedTableIsNotRegistered) {
  const ProgramResult validated =
      Good({"register", Path("houses.csv"), "--target=price", "--name=valid", "--validate-only"});
  EXPECT_THAT(validated.err, HasSubstr("the table is valid and was not registered; encoding it "
                                       "needs 8192 bytes of device memory, about 250ms"));
  EXPECT_THAT(validated.out, HasSubstr("valid"));
  EXPECT_THAT(Good({"ls"}).out, Not(HasSubstr("valid")));
}

}  // namespace
}  // namespace chorale::client
