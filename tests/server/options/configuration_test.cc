#include "server/options/configuration.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/config/config_file.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ConfigurationTest : public ::testing::Test {
 protected:
  ~ConfigurationTest() override { std::filesystem::remove(file_); }

  // With the required flags on the command line, and `text` as the file if it is not empty.
  absl::StatusOr<Configuration> Load(const std::string& text,
                                     const std::vector<std::string>& environment = {},
                                     const std::vector<std::string>& arguments = {}) {
    ConfigurationSources sources{{"--models=m", "--data_dir=d"}, environment};
    if (!text.empty()) {
      std::ofstream(file_) << text;
      sources.arguments.push_back(absl::StrCat("--config=", file_));
    }
    sources.arguments.insert(sources.arguments.end(), arguments.begin(), arguments.end());
    return LoadConfiguration(sources);
  }

  const absl::FlagSaver saver_;
  const std::string file_ = std::filesystem::path(::testing::TempDir()) /
                            absl::StrCat("chorale-configuration-", getpid(), ".yaml");
};

TEST_F(ConfigurationTest, TheCommandLineBeatsTheEnvironmentBeatsTheFileBeatsTheDefault) {
  const auto paths = [this](const std::string& text, const std::vector<std::string>& environment,
                            const std::vector<std::string>& arguments) {
    const auto loaded = Load(text, environment, arguments);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? loaded->options.server.limits.max_paths : 0;
  };
  const std::string file = "max_paths: 3\n";
  const std::string variable = "CHORALE_MAX_PATHS=2";
  EXPECT_EQ(paths(file, {variable}, {"--max_paths=1"}), 1);
  EXPECT_EQ(paths(file, {}, {"--max_paths=1"}), 1);
  EXPECT_EQ(paths(file, {variable}, {}), 2);
  EXPECT_EQ(paths("", {variable}, {}), 2);
  EXPECT_EQ(paths(file, {}, {}), 3);
  // Nothing stays from an earlier load.
  EXPECT_EQ(paths("", {}, {}), Limits().max_paths);
}

TEST_F(ConfigurationTest, AFileTakesScalarsAndLists) {
  std::ofstream(file_) << "models: [a, b/c]\ndata_dir: d\nreflection: false\nlame_duck: 0s\n"
                          "max_connection_age: 30m\n";
  const auto loaded = LoadConfiguration({{absl::StrCat("--config=", file_)}, {}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->options.engine.models, ElementsAre("a", "b/c"));
  EXPECT_FALSE(loaded->options.server.reflection);
  EXPECT_EQ(loaded->options.server.lame_duck, absl::ZeroDuration());
  EXPECT_EQ(loaded->options.server.max_connection_age, absl::Minutes(30));
  EXPECT_EQ(loaded->file, file_);
}

TEST_F(ConfigurationTest, TheEnvironmentCanNameTheFile) {
  std::ofstream(file_) << "max_paths: 3\n";
  const std::string variable = absl::StrCat("CHORALE_CONFIG=", file_);
  const auto loaded = Load("", {variable});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->options.server.limits.max_paths, 3);
  EXPECT_THAT(loaded->unknown_variables, ElementsAre());
}

TEST_F(ConfigurationTest, MistakesNameTheirSourceAndTheValidValues) {
  const std::pair<const char*, const char*> files[] = {
      {"max_path: 3\n", ": max_path is not a flag that a file can set"},
      {"v: 3\n", ": v is not a flag"},  // a library's flag
      {"config: other.yaml\n", ": config is not a flag"},
      {"check: true\n", ": check is not a flag"},
      {"max_paths: 1\nmax_paths: 2\n", ": max_paths is set twice"},
      {"max_paths: many\n", ": max_paths: \"many\" is not a valid value. Maximum number of paths"},
      {"max_paths: 0\n", ": max_paths must be from 1 to 16777216, not 0"},
      {"max_paths: [1, 2]\n", ": max_paths must be a single value, not a list"},
      {"log_level: loud\n", ": log_level must be one of debug, info, warning, error, not 'loud'"},
      {"lame_duck: -1s\n", ": lame_duck must be from 0s to 24h, not -1s"},
      {"lame_duck: 5\n", ": lame_duck: \"5\" is not a valid value."},
  };
  for (const auto& [text, what] : files) {
    const absl::Status status = Load(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(file_, what)));
  }
  EXPECT_THAT(std::string(Load("", {"CHORALE_MAX_PATHS=0"}).status().message()),
              StartsWith("CHORALE_MAX_PATHS must be from 1 to"));
  EXPECT_THAT(std::string(Load("", {"CHORALE_MAX_PATHS="}).status().message()),
              StartsWith("CHORALE_MAX_PATHS: \"\" is not a valid value."));
  // The source that counts is the one to blame.
  EXPECT_THAT(
      std::string(
          Load("max_paths: 3\n", {"CHORALE_MAX_PATHS=4"}, {"--max_paths=0"}).status().message()),
      StartsWith("--max_paths must be from 1 to"));
  EXPECT_THAT(std::string(LoadConfiguration({{"--config=/nowhere.yaml"}, {}}).status().message()),
              HasSubstr("/nowhere.yaml: cannot be read"));
  std::ofstream(file_) << "models: ['a,b']\n";
  EXPECT_THAT(
      std::string(LoadConfiguration({{"--data_dir=d", absl::StrCat("--config=", file_)}, {}})
                      .status()
                      .message()),
      HasSubstr("models: \"a,b\" is an item of a list"));
}

TEST_F(ConfigurationTest, UnknownVariablesAreReportedAndOthersIgnored) {
  const auto loaded =
      Load("", {"CHORALE_MAX_PATH=3", "CHORALE_CHECK=true", "CHORALE_PORT=tcp://10.0.0.1:50051",
                "CHORALE_SERVICE_HOST=10.0.0.1", "CHORALE_SERVER=127.0.0.1:1", "PATH=/bin"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->unknown_variables, ElementsAre("CHORALE_MAX_PATH", "CHORALE_CHECK"));
}

TEST_F(ConfigurationTest, WhatIsPrintedLoadsTheSame) {
  const auto loaded = Load("max_paths: 3\n", {"CHORALE_METRICS_ADDRESS="},
                           {"--models=a,b", "--noreflection", "--drain_timeout=1m",
                            "--gpu_memory_fraction=0.5", "--backend=cpu"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->values.count("config"), 0);
  EXPECT_EQ(loaded->values.count("print_config"), 0);
  EXPECT_EQ(loaded->values.at("max_paths"), "3");
  EXPECT_GT(loaded->values.size(), 25);
  std::ofstream(file_) << FormatConfig({loaded->values.begin(), loaded->values.end()},
                                       loaded->options.given);
  const auto again = LoadConfiguration({{absl::StrCat("--config=", file_)}, {}});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->values, loaded->values);
  // What the machine decides is not fixed by printing it.
  EXPECT_EQ(again->options.given.count("memory_limit_mib"), 0);
  EXPECT_EQ(again->options.given.count("max_paths"), 1);
}

TEST_F(ConfigurationTest, TheAddressToCheckNeedsNoValidConfiguration) {
  EXPECT_EQ(LoadListenTarget({{"--check"}, {"CHORALE_LISTEN_ADDRESS=0.0.0.0:1"}}).value().address,
            "0.0.0.0:1");
  std::ofstream(file_) << "max_paths: 0\nlisten_address: 127.0.0.1:7\n";
  EXPECT_EQ(LoadListenTarget({{"--check", absl::StrCat("--config=", file_)}, {}}).value().address,
            "127.0.0.1:7");
  EXPECT_FALSE(LoadListenTarget({{"--check", "--config=/nowhere.yaml"}, {}}).ok());
}

}  // namespace
}  // namespace chorale
