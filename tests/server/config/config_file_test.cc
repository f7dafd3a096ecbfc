#include "server/config/config_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ConfigFileTest : public ::testing::Test {
 protected:
  ~ConfigFileTest() override { std::filesystem::remove(path_); }

  absl::StatusOr<std::vector<ConfigEntry>> Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadConfigFile(path_);
  }

  const std::string path_ = std::filesystem::path(::testing::TempDir()) /
                            absl::StrCat("chorale-config-", getpid(), ".yaml");
};

TEST_F(ConfigFileTest, ScalarsAreTakenAsWrittenAndListsAsTheirItems) {
  const auto entries = Read(
      "# A comment.\n"
      "threads: 4\n"
      "max_paths: 007\n"
      "reflection: yes\n"
      "metrics_address: \"\"\n"
      "gpu_memory_fraction: 0.90  # as text, not as a number\n"
      "models: [a, 'b c']\n"
      "others:\n  - d\n  - 5\n");
  ASSERT_TRUE(entries.ok()) << entries.status();
  std::vector<std::string> seen;
  for (const ConfigEntry& entry : *entries) {
    seen.push_back(absl::StrCat(entry.name, entry.kind == ConfigEntry::Kind::kList ? " list" : ""));
    for (const std::string& value : entry.values) absl::StrAppend(&seen.back(), "|", value);
  }
  EXPECT_THAT(seen,
              ElementsAre("threads|4", "max_paths|007", "reflection|yes", "metrics_address|",
                          "gpu_memory_fraction|0.90", "models list|a|b c", "others list|d|5"));
}

TEST_F(ConfigFileTest, AnEmptyFileHasNoEntries) {
  for (const char* text : {"", "\n", "# Nothing.\n", "---\n", "{}\n"}) {
    const auto entries = Read(text);
    ASSERT_TRUE(entries.ok()) << entries.status();
    EXPECT_TRUE(entries->empty());
  }
}

TEST_F(ConfigFileTest, MistakesNameTheFileAndTheKeyOrLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"a: 1\nb: 2\na: 3\n", "a is set twice"},
      {"threads:\n", "threads has no value"},
      {"threads: ~\n", "threads has no value"},
      {"threads: {a: 1}\n", "threads must be a value or a list of values"},
      {"models: [a, [b]]\n", "models: each item of the list must be a single value"},
      {"a: 1\n? [x]\n: 2\n", "line 2: a key must be a flag name"},
      {"- a\n- b\n", "must be a map"},
      {"word\n", "must be a map"},
      {",", "must be a map"},
      {"a: 1\n---\nb: 2\n", "must be a map"},
      {"a: 1\nb: [1\n", "line 3: "},
      {"a: 1\n  b: 2\n", "line 2: "},
      {"a: *nowhere\n", "line 1: "},
  };
  for (const auto& [text, what] : cases) {
    const absl::Status status = Read(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), StartsWith(absl::StrCat(path_, ": "))) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what)) << text;
  }
}

TEST_F(ConfigFileTest, AFileThatCannotBeReadIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"/nowhere/server.yaml", "No such file or directory"},
      {"/tmp", "not a regular file"},
      {"/dev/null", "not a regular file"},
  };
  for (const auto& [path, why] : cases) {
    const absl::Status status = ReadConfigFile(path).status();
    EXPECT_EQ(status.message(), absl::StrCat(path, ": cannot be read: ", why));
  }
}

TEST_F(ConfigFileTest, WhatIsFormattedReadsTheSame) {
  const std::vector<std::pair<std::string, std::string>> values = {
      {"a", ""},
      {"b", "0.0.0.0:50051"},
      {"c", "true"},
      {"d", "x: y"},
      {"e", "- z"},
      {"f", "a,b"},
      {"g", "# no comment"},
      {"h", "~"},
      {"i", " spaces "},
      {"j", "\"quoted\""},
      {"k", "[::]:1"},
      {"l", "a\nb\t'"},
      {"m", "null"},
      {"n", "%x"},
      {"o", "@home"},
      {"p", "{"},
      {"q", "\xc3\xbc \xe2\x82\xac"},
  };
  std::set<std::string, std::less<>> given;
  for (const auto& [name, value] : values) given.insert(name);
  const auto entries = Read(FormatConfig(values, given));
  ASSERT_TRUE(entries.ok()) << entries.status() << FormatConfig(values, given);
  ASSERT_EQ(entries->size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ((*entries)[i].name, values[i].first);
    EXPECT_THAT((*entries)[i].values, ElementsAre(values[i].second)) << values[i].first;
  }
  given = {"a"};
  EXPECT_EQ(FormatConfig({{"a", "1"}, {"b", "2"}}, given), "a: 1\n# b: 2\n");
}

}  // namespace
}  // namespace chorale
