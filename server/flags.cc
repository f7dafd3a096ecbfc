#include "server/flags.h"

#include <algorithm>
#include <limits>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/status_macros.h"

ABSL_FLAG(std::string, listen_address, "127.0.0.1:50051",
          "Address and port for gRPC, without encryption. Port 0: any free port, see the log. The "
          "default accepts calls from this machine only; 0.0.0.0:50051 accepts them from anywhere "
          "and belongs behind a proxy.");
ABSL_FLAG(std::string, metrics_address, "127.0.0.1:9464",
          "Address and port of the Prometheus endpoint, GET /metrics. Empty: none.");
ABSL_FLAG(std::string, port_file, "",
          "File to which the server writes its gRPC port once it is bound. Empty: none.");
ABSL_FLAG(std::string, models, "",
          "Model folders, separated by commas; the first one is the default model. Required.");
ABSL_FLAG(std::string, data_dir, "",
          "Folder for registered contexts; created if it does not exist. Required.");
ABSL_FLAG(std::string, backend, "auto",
          "cpu; cuda: the first GPU in CUDA_VISIBLE_DEVICES; or auto: cuda if there is a GPU, else "
          "cpu, with the reason in the log.");
ABSL_FLAG(int64_t, threads, 0, "Threads of the CPU backend. 0: one per processor.");
ABSL_FLAG(
    int64_t, context_pool_mib, 0,
    "MiB for the keys and values of resident contexts. On a GPU, device memory allocated at the "
    "start; 0: two thirds of what the rest leaves of --gpu_memory_fraction. On a CPU, allocated as "
    "it is used; 0: 4096.");
ABSL_FLAG(int64_t, buffer_pool_mib, 0,
          "MiB for the paths of samples and densities in flight, allocated in the same way. 0: one "
          "third of what the rest leaves on a GPU, or 1024 on a CPU.");
ABSL_FLAG(double, gpu_memory_fraction, 0.94,
          "Fraction of the GPU's free memory that the server allocates at the start, for contexts, "
          "buffers, weights and everything else. More than 0, at most 1.");
ABSL_FLAG(int64_t, host_context_pool_mib, 1024,
          "MiB of pinned host memory for contexts that are evicted from a GPU, allocated at the "
          "start; they are copied back when needed. 0: none; they are encoded again.");
ABSL_FLAG(int64_t, max_queued, 256, "Calls that may wait for admission; more are refused.");
ABSL_FLAG(absl::Duration, queue_wait, absl::Seconds(30),
          "Longest wait for admission; then the call is refused.");
ABSL_FLAG(absl::Duration, retry_delay, absl::Seconds(1),
          "Delay after which a call that was refused for lack of memory is told to retry.");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(30),
          "Time for calls in flight to finish after SIGTERM or SIGINT.");
ABSL_FLAG(
    absl::Duration, stalled_write_timeout, absl::Seconds(60),
    "Time for a client to read one message, such as the whole response of Predict, or to send the "
    "next one; then its call is cancelled.");
ABSL_FLAG(int64_t, max_message_mib, 4, "Largest message, in MiB, in either direction.");
ABSL_FLAG(int64_t, max_concurrent_streams, 100, "Concurrent calls per connection.");
ABSL_FLAG(int64_t, registration_memory_mib, 1024,
          "MiB for the datasets that all calls together are registering.");
ABSL_FLAG(int64_t, max_context_rows, 65536, "Most rows of a context.");
ABSL_FLAG(int64_t, max_features, 1024, "Most feature columns of a table.");
ABSL_FLAG(int64_t, max_categories, 4096, "Most distinct categories of a column.");
ABSL_FLAG(int64_t, max_dataset_mib, 256, "Largest dataset, in MiB.");
ABSL_FLAG(int64_t, max_paths, 16384, "Most paths (B) of a call.");
ABSL_FLAG(int64_t, max_targets, 4096, "Most target rows (T) of a call.");
ABSL_FLAG(int64_t, max_orders, 1024, "Most random orders (R) of a LogDensity call.");
ABSL_FLAG(int64_t, max_values, 4 << 20, "Most values (B * T * R) of a call.");
ABSL_FLAG(bool, reflection, true,
          "Serve gRPC reflection, so that generic clients can list the methods.");
ABSL_FLAG(std::string, log_format, "text", "text or json: one line per event on standard error.");
ABSL_FLAG(std::string, log_level, "info", "debug, info, warning or error.");

namespace chorale {
namespace {

constexpr int64_t kMiB = 1 << 20;

// Whether this file defines the flag: Abseil and other libraries define flags as well.
bool IsOurs(const absl::CommandLineFlag& flag) {
  return absl::EndsWith(flag.Filename(), "server/flags.cc");
}

absl::CommandLineFlag* FindOurs(absl::string_view name) {
  absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
  return flag != nullptr && IsOurs(*flag) ? flag : nullptr;
}

// How to write a value of the flag; empty if that is obvious.
const char* Syntax(const absl::CommandLineFlag& flag) {
  if (flag.IsOfType<absl::Duration>()) return " Write it as 500ms, 30s or 5m.";
  if (flag.IsOfType<int64_t>()) return " It must be a whole number.";
  if (flag.IsOfType<double>()) return " It must be a number.";
  return "";
}

absl::Status Set(absl::CommandLineFlag* flag, absl::string_view value) {
  std::string error;
  if (flag->ParseFrom(value, &error)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag->Name(), ": \"", value, "\" is not a valid value. ", flag->Help(), Syntax(*flag)));
}

struct Range {
  int64_t low = 1;
  int64_t high = std::numeric_limits<int32_t>::max();
};

// Reads flags into options and keeps the first error.
class Reader {
 public:
  template <typename T>
  void Integer(const absl::Flag<int64_t>& flag, Range range, T* out, int64_t unit = 1) {
    const int64_t value = absl::GetFlag(flag);
    if (value < range.low || value > range.high) {
      Fail(absl::GetFlagReflectionHandle(flag),
           absl::StrCat("must be ", range.low, " to ", range.high, ", not ", value));
      return;
    }
    *out = static_cast<T>(value * unit);
  }

  void Duration(const absl::Flag<absl::Duration>& flag, absl::Duration* out) {
    const absl::Duration value = absl::GetFlag(flag);
    if (value <= absl::ZeroDuration() || value > absl::Hours(24)) {
      Fail(absl::GetFlagReflectionHandle(flag),
           absl::StrCat("must be more than 0 and at most 24h, not ", absl::FormatDuration(value)));
      return;
    }
    *out = value;
  }

  void Fraction(const absl::Flag<double>& flag, double* out) {
    const double value = absl::GetFlag(flag);
    if (!(value > 0 && value <= 1)) {  // NaN as well
      Fail(absl::GetFlagReflectionHandle(flag),
           absl::StrCat("must be more than 0 and at most 1, not ", value));
      return;
    }
    *out = value;
  }

  void Fail(const absl::CommandLineFlag& flag, absl::string_view what) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(absl::StrCat("--", flag.Name(), " ", what));
    }
  }

  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

void ReadLimits(Reader* reader, Limits* limits) {
  reader->Integer(FLAGS_max_context_rows, {1, 1 << 24}, &limits->max_context_rows);
  reader->Integer(FLAGS_max_features, {1, 1 << 16}, &limits->max_features);
  reader->Integer(FLAGS_max_categories, {1, 1 << 20}, &limits->max_categories);
  reader->Integer(FLAGS_max_dataset_mib, {1, 1 << 14}, &limits->max_dataset_bytes, kMiB);
  reader->Integer(FLAGS_max_paths, {1, 1 << 24}, &limits->max_paths);
  reader->Integer(FLAGS_max_targets, {1, 1 << 20}, &limits->max_targets);
  reader->Integer(FLAGS_max_orders, {0, 1 << 20}, &limits->max_orders);
  reader->Integer(FLAGS_max_values, {1, 1 << 28}, &limits->max_values);
}

void ReadServer(Reader* reader, ServerOptions* server) {
  server->listen_address = absl::GetFlag(FLAGS_listen_address);
  if (server->listen_address.empty()) {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_listen_address), "must not be empty");
  }
  server->metrics_address = absl::GetFlag(FLAGS_metrics_address);
  server->port_file = absl::GetFlag(FLAGS_port_file);
  server->reflection = absl::GetFlag(FLAGS_reflection);
  reader->Integer(FLAGS_max_message_mib, {1, 1024}, &server->max_message_bytes, kMiB);
  reader->Integer(FLAGS_max_concurrent_streams, {1, 1 << 20}, &server->max_concurrent_streams);
  reader->Integer(FLAGS_registration_memory_mib, {1, 1 << 20}, &server->registration_memory_bytes,
                  kMiB);
  reader->Duration(FLAGS_stalled_write_timeout, &server->stalled_write_timeout);
  reader->Duration(FLAGS_drain_timeout, &server->drain_timeout);
  reader->Duration(FLAGS_retry_delay, &server->retry_delay);
}

void ReadBackend(Reader* reader, EngineSetup* engine) {
  const std::string backend = absl::GetFlag(FLAGS_backend);
  if (backend == "auto") {
    engine->backend = BackendChoice::kAuto;
  } else if (backend == "cpu") {
    engine->backend = BackendChoice::kCpu;
  } else if (backend == "cuda") {
    engine->backend = BackendChoice::kCuda;
  } else {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_backend), "must be auto, cpu or cuda");
  }
  reader->Integer(FLAGS_threads, {0, 4096}, &engine->threads);
  reader->Integer(FLAGS_context_pool_mib, {0, 1 << 24}, &engine->context_pool_bytes, kMiB);
  reader->Integer(FLAGS_buffer_pool_mib, {0, 1 << 24}, &engine->buffer_pool_bytes, kMiB);
  reader->Fraction(FLAGS_gpu_memory_fraction, &engine->gpu_memory_fraction);
  reader->Integer(FLAGS_host_context_pool_mib, {0, 1 << 24}, &engine->host_context_pool_bytes,
                  kMiB);
}

void ReadEngine(Reader* reader, EngineSetup* engine) {
  engine->models = absl::StrSplit(absl::GetFlag(FLAGS_models), ',', absl::SkipWhitespace());
  if (engine->models.empty()) {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_models), "must name at least one folder");
  }
  engine->data_dir = absl::GetFlag(FLAGS_data_dir);
  if (engine->data_dir.empty()) {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_data_dir), "must name a folder");
  }
  ReadBackend(reader, engine);
  reader->Integer(FLAGS_max_queued, {1, 1 << 20}, &engine->max_queued);
  reader->Duration(FLAGS_queue_wait, &engine->max_queue_wait);
  reader->Duration(FLAGS_retry_delay, &engine->retry_delay);
}

void ReadLogging(Reader* reader, ProgramOptions* options) {
  const std::string format = absl::GetFlag(FLAGS_log_format);
  if (format != "text" && format != "json") {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_log_format), "must be text or json");
  }
  options->log_format = format == "json" ? LogFormat::kJson : LogFormat::kText;
  const std::string level = absl::GetFlag(FLAGS_log_level);
  if (level == "debug") {
    options->log_level = spdlog::level::debug;
  } else if (level == "info") {
    options->log_level = spdlog::level::info;
  } else if (level == "warning") {
    options->log_level = spdlog::level::warn;
  } else if (level == "error") {
    options->log_level = spdlog::level::err;
  } else {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_log_level),
                 "must be debug, info, warning or error");
  }
}

}  // namespace

absl::StatusOr<FlagAction> ParseFlags(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view text = arguments[i];
    if (text == "--help" || text == "-h") return FlagAction::kPrintHelp;
    if (text == "--version") return FlagAction::kPrintVersion;
    if (!absl::ConsumePrefix(&text, "--")) {
      return absl::InvalidArgumentError(absl::StrCat("\"", arguments[i], "\" is not a flag"));
    }
    const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    absl::CommandLineFlag* flag = FindOurs(parts[0]);
    const bool negated = flag == nullptr && parts.size() == 1 && absl::StartsWith(text, "no");
    if (negated) flag = FindOurs(text.substr(2));
    if (flag == nullptr || (negated && !flag->IsOfType<bool>())) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no flag --", parts[0], "; --help lists all flags"));
    }
    absl::string_view value = negated ? "false" : "true";
    if (parts.size() == 2) {
      value = parts[1];
    } else if (!flag->IsOfType<bool>()) {
      if (++i == arguments.size()) {
        return absl::InvalidArgumentError(absl::StrCat("--", flag->Name(), " needs a value"));
      }
      value = arguments[i];
    }
    RETURN_IF_ERROR(Set(flag, value));
  }
  return FlagAction::kRun;
}

absl::StatusOr<ProgramOptions> OptionsFromFlags() {
  ProgramOptions options;
  Reader reader;
  ReadLimits(&reader, &options.server.limits);
  ReadServer(&reader, &options.server);
  // The engine does not know protobuf messages, so tell it how large a response may be.
  options.server.limits.max_response_bytes = MaxResponseBytes(options.server.max_message_bytes);
  options.engine.limits = options.server.limits;
  ReadEngine(&reader, &options.engine);
  ReadLogging(&reader, &options);
  if (!reader.status().ok()) return reader.status();
  return options;
}

std::string HelpText() {
  std::vector<absl::CommandLineFlag*> flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (IsOurs(*flag)) flags.push_back(flag);
  }
  std::sort(flags.begin(), flags.end(),
            [](const auto* a, const auto* b) { return a->Name() < b->Name(); });
  std::string text =
      "chorale-server: joint samples from in-context tabular models, over gRPC.\n\n"
      "  chorale-server --models=FOLDER[,FOLDER...] --data_dir=FOLDER [flags]\n\n"
      "Exit status: 0 after SIGTERM or SIGINT; 1 if it cannot start (a port, the GPU, a model or\n"
      "the data folder cannot be used), if the backend has failed or if it cannot stop in time;\n"
      "2 for an invalid flag. Restart it after a backend failure: registered contexts are kept.\n"
      "\n"
      "Write times as 500ms, 30s or 5m.\n\n";
  for (const absl::CommandLineFlag* flag : flags) {
    absl::StrAppend(&text, "  --", flag->Name(), " (default \"", flag->DefaultValue(),
                    "\")\n      ", flag->Help(), "\n");
  }
  return text;
}

}  // namespace chorale
