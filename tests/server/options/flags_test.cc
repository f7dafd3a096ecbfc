#include "server/options/flags.h"

#include <string>
#include <vector>

#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "engine/api/engine_options.h"
#include "engine/backend/cuda/device/memory_budget.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/reply_memory.h"

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
  EXPECT_EQ(options->server.lame_duck, server.lame_duck);
  EXPECT_EQ(options->server.drain_timeout, server.drain_timeout);
  EXPECT_EQ(options->server.max_connections, server.max_connections);
  EXPECT_EQ(options->server.max_connections_per_peer, server.max_connections_per_peer);
  EXPECT_EQ(options->server.memory_limit_bytes, server.memory_limit_bytes);
  EXPECT_EQ(options->server.max_connection_age, server.max_connection_age);
  EXPECT_EQ(options->server.retry_delay, server.retry_delay);
  EXPECT_EQ(options->server.reflection, server.reflection);
  const EngineSetup engine;
  EXPECT_EQ(options->engine.backend, engine.backend);
  EXPECT_EQ(options->engine.threads, engine.threads);
  EXPECT_EQ(options->engine.context_pool_bytes, engine.context_pool_bytes);
  EXPECT_EQ(options->engine.buffer_pool_bytes, engine.buffer_pool_bytes);
  EXPECT_EQ(options->engine.weights_pool_bytes, engine.weights_pool_bytes);
  EXPECT_EQ(options->engine.cublaslt, engine.cublaslt);
  EXPECT_EQ(options->engine.gpu_memory_fraction, engine.gpu_memory_fraction);
  EXPECT_EQ(engine.gpu_memory_fraction, cuda::MemoryBudget().memory_fraction);
  EXPECT_EQ(options->engine.host_context_pool_bytes, engine.host_context_pool_bytes);
  EXPECT_EQ(options->engine.max_appended_percent, engine.max_appended_percent);
  EXPECT_EQ(static_cast<double>(engine.max_appended_percent) / 100.0,
            EngineOptions().max_appended_share);
  EXPECT_EQ(options->engine.max_queued, engine.max_queued);
  EXPECT_EQ(options->engine.max_queue_wait, engine.max_queue_wait);
  EXPECT_EQ(options->engine.max_unread, engine.max_unread);
  const Limits limits;
  for (const Limits& read : {options->server.limits, options->engine.limits}) {
    EXPECT_EQ(read.max_context_rows, limits.max_context_rows);
    EXPECT_EQ(read.max_features, limits.max_features);
    EXPECT_EQ(read.max_categories, limits.max_categories);
    EXPECT_EQ(read.max_dataset_bytes, limits.max_dataset_bytes);
    EXPECT_EQ(read.max_paths, limits.max_paths);
    EXPECT_EQ(read.max_query_rows, limits.max_query_rows);
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
             "--host_context_pool_mib=6", "--weights_pool_mib=4096"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->engine.context_pool_bytes, 1 << 20);
  EXPECT_EQ(options->engine.buffer_pool_bytes, 2 << 20);
  EXPECT_EQ(options->engine.gpu_memory_fraction, 0.5);
  EXPECT_EQ(options->engine.host_context_pool_bytes, 6 << 20);
  EXPECT_EQ(options->engine.weights_pool_bytes, int64_t{4096} << 20);
}

TEST_F(FlagsTest, AResponseOfTheMaximumSizeFitsTheMemoryForResponses) {
  EXPECT_EQ(Parse({})->server.reply_memory_bytes, ServerOptions().reply_memory_bytes);
  const absl::StatusOr<ProgramOptions> options = Parse({"--max_message_mib=1024"});
  ASSERT_TRUE(options.ok()) << options.status();
  ReplyMemory memory(options->server.reply_memory_bytes);
  EXPECT_TRUE(memory.TryTake("client", options->server.max_message_bytes));
}

TEST_F(FlagsTest, TheLibraryForWideModelsIsAFile) {
  const absl::StatusOr<ProgramOptions> options = Parse({"--cublaslt=/opt/libcublasLt.so.13"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->engine.cublaslt, "/opt/libcublasLt.so.13");
}

// Tables that are kept for their first request are not in anybody's plan: they take what is left.
TEST_F(FlagsTest, TheLimitOfMemoryLimitsWhatIsKept) {
  EXPECT_EQ(Parse({})->engine.registered_tables_bytes, EngineSetup().registered_tables_bytes);
  const absl::StatusOr<ProgramOptions> options = Parse({"--memory_limit_mib=800"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->server.memory_limit_bytes, 800 << 20);
  EXPECT_EQ(options->engine.registered_tables_bytes, 100 << 20);
  EXPECT_EQ(Parse({"--memory_limit_mib=1000000"})->engine.registered_tables_bytes,
            EngineSetup().registered_tables_bytes);
}

TEST_F(FlagsTest, EncodedContexts) {
  const EngineSetup none = Parse({})->engine;
  EXPECT_EQ(none.context_file_bytes, 0);
  EXPECT_TRUE(none.warm_on_start.empty());
  const EngineSetup some = Parse({"--context_files_mib=3", "--warm_on_start=a, t/b,*"})->engine;
  EXPECT_EQ(some.context_file_bytes, 3 << 20);
  EXPECT_THAT(some.warm_on_start, ElementsAre("a", "t/b", "*"));
}

TEST_F(FlagsTest, TheShareOfAppendedRowsIsInPercent) {
  EXPECT_EQ(Parse({"--max_appended_percent=0"})->engine.max_appended_percent, 0);
  EXPECT_EQ(Parse({"--max_appended_percent=150"})->engine.max_appended_percent, 150);
  EXPECT_THAT(Parse({"--max_appended_percent=-1"}).status().message(),
              HasSubstr("--max_appended_percent must be from 0 to 1048576, not -1"));
}

TEST_F(FlagsTest, TracesAndSlowCallsHaveTheirFlags) {
  const ServerOptions defaults = Parse({})->server;
  EXPECT_EQ(defaults.trace_endpoint, "");
  EXPECT_EQ(defaults.trace_sample_rate, 0.01);
  EXPECT_EQ(defaults.slow_call, absl::Seconds(10));
  const absl::StatusOr<ProgramOptions> options =
      Parse({"--trace_endpoint=[::1]:4317", "--trace_sample_rate=1", "--slow_call=0"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->server.trace_endpoint, "[::1]:4317");
  EXPECT_EQ(options->server.trace_sample_rate, 1);
  EXPECT_EQ(options->server.slow_call, absl::ZeroDuration());
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

TEST_F(FlagsTest, OtherMachinesAreServedWithEncryptionOrByRequest) {
  const auto error = [&](const std::vector<std::string>& arguments) {
    return std::string(Parse(arguments).status().message());
  };
  for (const char* address : {"0.0.0.0:50051", "[::]:50051", "10.0.0.1:0", "server.example:1"}) {
    const std::string listen = absl::StrCat("--listen_address=", address);
    EXPECT_THAT(error({listen}), HasSubstr("--tls_certificate and --tls_key, or --insecure"));
    EXPECT_EQ(error({listen, "--insecure"}), "");
    EXPECT_EQ(error({listen, "--tls_certificate=a", "--tls_key=b"}), "");
  }
  for (const char* address : {"127.0.0.1:0", "[::1]:1", "localhost:1"}) {
    EXPECT_EQ(error({absl::StrCat("--listen_address=", address)}), "");
  }
}

TEST_F(FlagsTest, FilesOfSecurityBelongTogether) {
  const absl::StatusOr<ProgramOptions> options =
      Parse({"--tls_certificate=a", "--tls_key=b", "--tls_client_ca=c", "--token_file=d",
             "--tenant_file=e"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->server.security.tls, (TlsFiles{"a", "b", "c"}));
  EXPECT_THAT(options->server.security.Files(), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_TRUE(options->server.security.authenticates());
  EXPECT_FALSE(Parse({"--tenant_file=e"})->server.security.authenticates());
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--tls_certificate=a"}, "--tls_key must be set"},
      {{"--tls_key=b"}, "--tls_certificate must be set"},
      {{"--tls_client_ca=c", "--tenant_file=e"}, "--tls_client_ca requires --tls_certificate"},
      {{"--tls_certificate=a", "--tls_key=b", "--tls_client_ca=c"}, "requires --tenant_file"},
  };
  for (const auto& [arguments, text] : cases) {
    EXPECT_THAT(std::string(Parse(arguments).status().message()), HasSubstr(text));
  }
}

TEST_F(FlagsTest, MistakesAreNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--no_such_flag=1"}, "no_such_flag"},
      {{"--v=1"}, "--v"},  // a library's flag is not ours
      {{"--nothreads"}, "nothreads"},
      {{"word"}, "\"word\" is not a flag"},
      {{"-x"}, "\"-x\" is not a flag"},
      {{"--threads"}, "--threads requires a value"},
      {{"--data_dir=~/data"}, "--data_dir: \"~/data\" begins with ~, which only a shell expands"},
      {{"--models=a,~/b"}, "--models: \"a,~/b\" begins with ~"},
      {{"--threads=two"}, "--threads: \"two\" is not a valid value."},
      {{"--threads=1.5"}, " The value must be an integer."},
      {{"--threads=-1"}, "--threads must be from 0 to 1024, not -1"},
      {{"--threads=1025"}, "--threads"},
      {{"--context_pool_mib=-1"}, "--context_pool_mib must be from 0 to"},
      {{"--buffer_pool_mib=99999999999"}, "--buffer_pool_mib"},
      {{"--weights_pool_mib=-1"}, "--weights_pool_mib must be from 0 to 16777216, not -1"},
      {{"--buffer_pool_mib=99999999999999999999"}, "--buffer_pool_mib"},
      {{"--gpu_memory_fraction=0"},
       "--gpu_memory_fraction must be more than 0 and at most 1, not 0"},
      {{"--gpu_memory_fraction=1.01"}, "--gpu_memory_fraction must be"},
      {{"--gpu_memory_fraction=nan"}, "--gpu_memory_fraction must be"},
      {{"--trace_endpoint=collector"}, "--trace_endpoint must be HOST:PORT"},
      {{"--trace_endpoint=:4317"}, "--trace_endpoint must be HOST:PORT"},
      {{"--trace_endpoint=collector:0"}, "--trace_endpoint must be HOST:PORT"},
      {{"--trace_endpoint=collector:65536"}, "--trace_endpoint must be HOST:PORT"},
      {{"--trace_sample_rate=1.5"}, "--trace_sample_rate must be from 0 to 1, not 1.5"},
      {{"--trace_sample_rate=-0.1"}, "--trace_sample_rate must be"},
      {{"--trace_sample_rate=nan"}, "--trace_sample_rate must be"},
      {{"--slow_call=-1s"}, "--slow_call must be from 0s to 24h, not -1s"},
      {{"--gpu_memory_fraction=half"}, " The value must be a number."},
      {{"--backend=gpu"}, "--backend must be one of auto, cpu, cuda, not 'gpu'"},
      {{"--max_message_mib=2048"}, "--max_message_mib"},
      {{"--max_connections=0"}, "--max_connections must be from 1 to 1048576, not 0"},
      {{"--max_connections_per_peer=0"},
       "--max_connections_per_peer must be from 1 to 1048576, not 0"},
      {{"--memory_limit_mib=-1"}, "--memory_limit_mib must be from 0 to 16777216, not -1"},
      {{"--queue_wait=0s"}, "--queue_wait must be more than 0"},
      {{"--queue_wait=-1s"}, "--queue_wait"},
      {{"--queue_wait=5"}, "--queue_wait"},
      {{"--drain_timeout=5"}, " Use a duration such as 500ms, 30s or 5m."},
      {{"--drain_timeout=inf"}, "--drain_timeout"},
      {{"--log_format=xml"}, "--log_format must be one of text, json, not 'xml'"},
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

TEST_F(FlagsTest, SpacesInListsDoNotCount) {
  const absl::StatusOr<ProgramOptions> options =
      Parse({"--models=a, b ,,c/d e", "--warm_on_start= x , y"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->engine.models, ElementsAre("a", "b", "c/d e"));
  EXPECT_THAT(options->engine.warm_on_start, ElementsAre("x", "y"));
}

TEST_F(FlagsTest, OrdersToTheProgram) {
  const absl::FlagSaver saver;
  EXPECT_EQ(ParseFlags({}).value(), FlagAction::kRun);
  EXPECT_EQ(ParseFlags({"--print_config"}).value(), FlagAction::kPrintConfig);
  EXPECT_EQ(ParseFlags({"--check"}).value(), FlagAction::kCheck);
  EXPECT_EQ(ParseFlags({"--nocheck", "--noprint_config"}).value(), FlagAction::kRun);
}

TEST_F(FlagsTest, HelpAndVersion) {
  EXPECT_EQ(ParseFlags({"--help"}).value(), FlagAction::kPrintHelp);
  EXPECT_EQ(ParseFlags({"--version"}).value(), FlagAction::kPrintVersion);
  const std::string help = HelpText();
  for (const char* flag : {"listen_address",
                           "metrics_address",
                           "models",
                           "data_dir",
                           "backend",
                           "threads",
                           "context_pool_mib",
                           "buffer_pool_mib",
                           "weights_pool_mib",
                           "cublaslt",
                           "gpu_memory_fraction",
                           "max_queued",
                           "queue_wait",
                           "unread_timeout",
                           "lame_duck",
                           "drain_timeout",
                           "max_connections",
                           "max_connections_per_peer",
                           "memory_limit_mib",
                           "max_connection_age",
                           "config",
                           "print_config",
                           "check",
                           "max_message_mib",
                           "stalled_write_timeout",
                           "reflection",
                           "log_format",
                           "log_level",
                           "port_file"}) {
    EXPECT_THAT(help, HasSubstr(absl::StrCat("--", flag, " (default \"")));
  }
  EXPECT_THAT(help, HasSubstr("--queue_wait (default \"30s\")"));
  EXPECT_THAT(help, ::testing::Not(HasSubstr("flagfile")));
}

}  // namespace
}  // namespace chorale
