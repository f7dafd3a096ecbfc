#include "server/flags.h"

#include <string>
#include <vector>

#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "engine/backend/cuda/device/memory_budget.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FlagsTest : public ::testing::Test {
 protected:
  // The options for these arguments and the required ones.
  absl::StatusOr<ProgramOptions> Parse(std::vector<std::string> arguments) {
    const absl::FlagSaver saver;
    arguments.insert(arguments.begin(), {"--models=m", "--data_dir=d"});
    const absl::StatusOr<FlagAction> action = ParseFlags(arguments);
    if (!action.ok()) return action.status();
    EXPECT_EQ(*action, FlagAction::kRun);
    return OptionsFromFlags();
  }
};

TEST_F(FlagsTest, DefaultsAreThoseOfTheOptions) {
  const absl::StatusOr<ProgramOptions> options = Parse({});
  ASSERT_TRUE(options.ok()) << options.status();
  const ServerOptions server;
  EXPECT_EQ(options->server.listen_address, server.listen_address);
  EXPECT_EQ(options->server.metrics_address, server.metrics_address);
  EXPECT_EQ(options->server.port_file, server.port_file);
  EXPECT_EQ(options->server.max_message_bytes, server.max_message_bytes);
  EXPECT_EQ(options->server.max_concurrent_streams, server.max_concurrent_streams);
  EXPECT_EQ(options->server.registration_memory_bytes, server.registration_memory_bytes);
  EXPECT_EQ(options->server.stalled_write_timeout, server.stalled_write_timeout);
  EXPECT_EQ(options->server.drain_timeout, server.drain_timeout);
  EXPECT_EQ(options->server.retry_delay, server.retry_delay);
  EXPECT_EQ(options->server.reflection, server.reflection);
  const EngineSetup engine;
  EXPECT_EQ(options->engine.backend, engine.backend);
  EXPECT_EQ(options->engine.threads, engine.threads);
  EXPECT_EQ(options->engine.context_pool_bytes, engine.context_pool_bytes);
  EXPECT_EQ(options->engine.buffer_pool_bytes, engine.buffer_pool_bytes);
  EXPECT_EQ(options->engine.gpu_memory_fraction, engine.gpu_memory_fraction);
  EXPECT_EQ(engine.gpu_memory_fraction, cuda::MemoryBudget().memory_fraction);
  EXPECT_EQ(options->engine.host_context_pool_bytes, engine.host_context_pool_bytes);
  EXPECT_EQ(options->engine.max_queued, engine.max_queued);
  EXPECT_EQ(options->engine.max_queue_wait, engine.max_queue_wait);
  const Limits limits;
  for (const Limits& read : {options->server.limits, options->engine.limits}) {
    EXPECT_EQ(read.max_context_rows, limits.max_context_rows);
    EXPECT_EQ(read.max_features, limits.max_features);
    EXPECT_EQ(read.max_categories, limits.max_categories);
    EXPECT_EQ(read.max_dataset_bytes, limits.max_dataset_bytes);
    EXPECT_EQ(read.max_paths, limits.max_paths);
    EXPECT_EQ(read.max_targets, limits.max_targets);
    EXPECT_EQ(read.max_orders, limits.max_orders);
    EXPECT_EQ(read.max_values, limits.max_values);
    EXPECT_EQ(read.max_response_bytes, MaxResponseBytes(server.max_message_bytes));
  }
  EXPECT_EQ(options->log_format, LogFormat::kText);
  EXPECT_EQ(options->log_level, spdlog::level::info);
}

TEST_F(FlagsTest, EveryFormOfArgument) {
  const absl::StatusOr<ProgramOptions> options = Parse(
      {"--models", "a,b/c, ", "--context_pool_mib=2", "--noreflection", "--queue_wait", "250ms",
       "--log_format=json", "--log_level=warning", "--max_paths=5", "--metrics_address="});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->engine.models, ElementsAre("a", "b/c"));
  EXPECT_EQ(options->engine.context_pool_bytes, 2 << 20);
  EXPECT_FALSE(options->server.reflection);
  EXPECT_EQ(options->engine.max_queue_wait, absl::Milliseconds(250));
  EXPECT_EQ(options->log_format, LogFormat::kJson);
  EXPECT_EQ(options->log_level, spdlog::level::warn);
  EXPECT_EQ(options->server.limits.max_paths, 5);
  EXPECT_EQ(options->server.metrics_address, "");
  EXPECT_TRUE(Parse({"--reflection"})->server.reflection);
  EXPECT_FALSE(Parse({"--reflection=false"})->server.reflection);
}

TEST_F(FlagsTest, EveryPartOfTheMemoryHasItsFlag) {
  const absl::StatusOr<ProgramOptions> options =
      Parse({"--context_pool_mib=1", "--buffer_pool_mib=2", "--gpu_memory_fraction=0.5",
             "--host_context_pool_mib=6"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->engine.context_pool_bytes, 1 << 20);
  EXPECT_EQ(options->engine.buffer_pool_bytes, 2 << 20);
  EXPECT_EQ(options->engine.gpu_memory_fraction, 0.5);
  EXPECT_EQ(options->engine.host_context_pool_bytes, 6 << 20);
}

TEST_F(FlagsTest, EveryBackendCanBeChosen) {
  EXPECT_EQ(Parse({"--backend=auto"})->engine.backend, BackendChoice::kAuto);
  EXPECT_EQ(Parse({"--backend=cpu"})->engine.backend, BackendChoice::kCpu);
  EXPECT_EQ(Parse({"--backend=cuda"})->engine.backend, BackendChoice::kCuda);
}

// Otherwise the engine would compute results that do not fit into a message.
TEST_F(FlagsTest, TheEngineGetsTheLimitOfAMessage) {
  const absl::StatusOr<ProgramOptions> options = Parse({"--max_message_mib=2"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->engine.limits.max_response_bytes, MaxResponseBytes(2 << 20));
}

TEST_F(FlagsTest, MistakesAreNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--no_such_flag=1"}, "no_such_flag"},
      {{"--v=1"}, "--v"},  // a library's flag is not ours
      {{"--nothreads"}, "nothreads"},
      {{"word"}, "\"word\" is not a flag"},
      {{"-x"}, "\"-x\" is not a flag"},
      {{"--threads"}, "--threads needs a value"},
      {{"--threads=two"}, "--threads: \"two\" is not a valid value."},
      {{"--threads=1.5"}, " It must be a whole number."},
      {{"--threads=-1"}, "--threads must be 0 to 4096, not -1"},
      {{"--threads=4097"}, "--threads"},
      {{"--context_pool_mib=-1"}, "--context_pool_mib must be 0 to"},
      {{"--buffer_pool_mib=99999999999"}, "--buffer_pool_mib"},
      {{"--buffer_pool_mib=99999999999999999999"}, "--buffer_pool_mib"},
      {{"--gpu_memory_fraction=0"},
       "--gpu_memory_fraction must be more than 0 and at most 1, not 0"},
      {{"--gpu_memory_fraction=1.01"}, "--gpu_memory_fraction must be"},
      {{"--gpu_memory_fraction=nan"}, "--gpu_memory_fraction must be"},
      {{"--gpu_memory_fraction=half"}, " It must be a number."},
      {{"--backend=gpu"}, "--backend must be auto, cpu or cuda"},
      {{"--max_message_mib=2048"}, "--max_message_mib"},
      {{"--queue_wait=0s"}, "--queue_wait must be more than 0"},
      {{"--queue_wait=-1s"}, "--queue_wait"},
      {{"--queue_wait=5"}, "--queue_wait"},
      {{"--drain_timeout=5"}, " Write it as 500ms, 30s or 5m."},
      {{"--drain_timeout=inf"}, "--drain_timeout"},
      {{"--log_format=xml"}, "--log_format must be text or json"},
      {{"--log_level=loud"}, "--log_level"},
      {{"--reflection=maybe"}, "--reflection"},
      {{"--listen_address="}, "--listen_address"},
      {{"--models= , "}, "--models"},
      {{"--data_dir="}, "--data_dir"},
  };
  for (const auto& [arguments, text] : cases) {
    const absl::Status status = Parse(arguments).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << arguments[0];
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

TEST_F(FlagsTest, HelpAndVersion) {
  EXPECT_EQ(ParseFlags({"--help"}).value(), FlagAction::kPrintHelp);
  EXPECT_EQ(ParseFlags({"--version"}).value(), FlagAction::kPrintVersion);
  const std::string help = HelpText();
  for (const char* flag :
       {"listen_address", "metrics_address", "models", "data_dir", "backend", "threads",
        "context_pool_mib", "buffer_pool_mib", "gpu_memory_fraction", "max_queued", "queue_wait",
        "drain_timeout", "max_message_mib", "stalled_write_timeout", "reflection", "log_format",
        "log_level", "port_file"}) {
    EXPECT_THAT(help, HasSubstr(absl::StrCat("--", flag, " (default \"")));
  }
  EXPECT_THAT(help, HasSubstr("--queue_wait (default \"30s\")"));
  EXPECT_THAT(help, ::testing::Not(HasSubstr("flagfile")));
}

}  // namespace
}  // namespace chorale
