#include "server/security/token_file.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// SHA-256 of "secret" and of "other".
constexpr char kSecret[] = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
constexpr char kOther[] = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";

std::string ErrorOf(const std::string& text) {
  return std::string(TokenTable::Parse(text, "tokens").status().message());
}

constexpr char kForm[] = "a line must be NAME SHA256 TENANT ROLE [EXPIRES], separated by spaces";

TEST(TokenFileTest, FindsTokensByTheirHashes) {
  const auto table = TokenTable::Parse(
      absl::StrCat("# tokens\n\n  trainer\t", kSecret, "  acme register 2027-01-31T00:00:00Z\r\n",
                   "reader ", kOther, " zeta read\n"),
      "tokens");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->size(), 2);
  const TokenTable::Entry* trainer = table->Find("secret");
  ASSERT_NE(trainer, nullptr);
  EXPECT_EQ(trainer->name, "trainer");
  EXPECT_EQ(trainer->tenant, "acme");
  EXPECT_EQ(trainer->role, Role::kRegister);
  EXPECT_EQ(trainer->expires, absl::FromCivil(absl::CivilDay(2027, 1, 31), absl::UTCTimeZone()));
  const TokenTable::Entry* reader = table->Find("other");
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->tenant, "zeta");
  EXPECT_EQ(reader->role, Role::kRead);
  EXPECT_EQ(reader->expires, absl::InfiniteFuture());
}

// What is in the file opens nothing.
TEST(TokenFileTest, AHashIsNoToken) {
  const auto table = TokenTable::Parse(absl::StrCat("a ", kSecret, " acme read"), "tokens");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_NE(table->Find("secret"), nullptr);
  for (const char* token : {"", "secre", "secret ", "Secret", kSecret, "a"}) {
    EXPECT_EQ(table->Find(token), nullptr) << token;
  }
}

// Only the first bytes of a hash are searched for: the others must count as well.
TEST(TokenFileTest, TheWholeHashCounts) {
  std::string changed = kSecret;
  changed.back() = changed.back() == '0' ? '1' : '0';
  const auto table = TokenTable::Parse(absl::StrCat("a ", changed, " acme read"), "tokens");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->Find("secret"), nullptr);
}

TEST(TokenFileTest, AnEmptyFileHasNoTokens) {
  const auto table = TokenTable::Parse("", "tokens");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->size(), 0);
}

TEST(TokenFileTest, ErrorsNameTheLineAndTheField) {
  const std::string good = absl::StrCat("a ", kSecret, " acme read");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a acme read", "has 3 fields"},
      {absl::StrCat(good, " 2027-01-31T00:00:00Z more"), "has 6 fields"},
      {absl::StrCat("A! ", kSecret, " acme read"), "the name"},
      {absl::StrCat("a ", kSecret, "0 acme read"), "SHA-256"},
      {"a secret acme read", "SHA-256"},
      {absl::StrCat("a ", std::string(64, 'g'), " acme read"), "SHA-256"},
      {absl::StrCat("a ", kSecret, " - read"), "the tenant"},
      {absl::StrCat("a ", kSecret, " acme write"), "read, register or admin"},
      {absl::StrCat(good, " tomorrow"), "2027-01-31T00:00:00Z"},
  };
  for (const auto& [line, what] : cases) {
    EXPECT_THAT(ErrorOf(absl::StrCat("# first\n", line, "\n")),
                ::testing::AllOf(HasSubstr("tokens: line 2: "), HasSubstr(what)))
        << line;
  }
  EXPECT_THAT(ErrorOf(absl::StrCat(good, "\na ", kOther, " zeta read")),
              HasSubstr("line 2: the name \"a\" occurs twice"));
  EXPECT_THAT(ErrorOf(absl::StrCat(good, "\nb ", kSecret, " zeta read")),
              HasSubstr("line 2: the hash occurs twice"));
}

TEST(TokenFileTest, AllMistakesAreNamedUpToTen) {
  EXPECT_EQ(ErrorOf("a\n\nb\n"), absl::StrCat("tokens: line 1: has 1 fields; ", kForm,
                                              "\ntokens: line 3: has 1 fields; ", kForm));
  std::string many;
  for (int i = 0; i < 12; ++i) absl::StrAppend(&many, "a\n");
  EXPECT_THAT(ErrorOf(many), AllOf(HasSubstr("tokens: line 10: "), Not(HasSubstr("line 11")),
                                   HasSubstr("\ntokens: and 2 more errors")));
}

}  // namespace
}  // namespace chorale
