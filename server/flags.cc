#include "server/flags.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/loopback.h"
#include "base/status_macros.h"
#include "engine/backend/cpu/backend.h"

ABSL_FLAG(
    std::string, listen_address, "127.0.0.1:50051",
    "Address and port for gRPC, or unix:PATH. Port 0: any free port, see the log. The default "
    "accepts calls "
    "from this machine only; 0.0.0.0:50051 accepts them from anywhere, and needs "
    "--tls_certificate or --insecure.");
ABSL_FLAG(std::string, tls_certificate, "",
          "File in PEM: the server's certificate, followed by those that lead to its root. Read "
          "again when it changes. TLS 1.2 or newer. Empty: no encryption.");
ABSL_FLAG(
    std::string, tls_key, "",
    "File in PEM: the private key of --tls_certificate, without a passphrase. Read again when "
    "it changes.");
ABSL_FLAG(
    std::string, tls_client_ca, "",
    "File in PEM: authorities whose client certificates are accepted; --tenant_file says whose "
    "they are. Read again when it changes. Empty: none are asked for.");
ABSL_FLAG(
    std::string, token_file, "",
    "File of bearer tokens' hashes, tenants and roles, one a line: NAME SHA256 TENANT ROLE "
    "[EXPIRES]. `chorale token` makes a token and its line. Read again when it changes. Empty: "
    "no tokens.");
ABSL_FLAG(std::string, tenant_file, "",
          "YAML file of tenants: shares, quotas, client certificates. Read again when it changes. "
          "Empty: no quotas.");
ABSL_FLAG(bool, insecure, false,
          "Listen without encryption on an address that other machines reach: for a proxy that "
          "ends TLS, on a network that nobody else can use.");
ABSL_FLAG(
    std::string, metrics_address, "127.0.0.1:9464",
    "Address and port of the HTTP endpoint: /metrics for Prometheus, /healthz and /readyz for "
    "probes. Empty: none.");
ABSL_FLAG(std::string, port_file, "",
          "File to which the server writes its gRPC port once it is bound. Empty: none.");
ABSL_FLAG(
    std::string, models, "",
    "Model folders, or folders of model folders, separated by commas; the first model that can "
    "be served is the default one. Required.");
ABSL_FLAG(std::string, data_dir, "",
          "Folder for registered contexts; created if it does not exist. Required.");
ABSL_FLAG(std::string, backend, "auto",
          "cpu; cuda: the first GPU in CUDA_VISIBLE_DEVICES; or auto: cuda if there is a GPU, else "
          "cpu, with the reason in the log.");
ABSL_FLAG(int64_t, threads, 0,
          "Threads of the CPU backend. 0: one per processor that the process may use, by its "
          "scheduling affinity and the quota of its cgroup.");
ABSL_FLAG(
    int64_t, context_pool_mib, 0,
    "MiB for the keys and values of resident contexts. On a GPU, device memory allocated at the "
    "start; 0: two thirds of what the rest leaves of --gpu_memory_fraction. On a CPU, allocated as "
    "it is used; 0: 4096, or less where the process may use less than 8 GiB, by its cgroup, its "
    "limits and the machine's free memory. The log says what was chosen, and why.");
ABSL_FLAG(int64_t, buffer_pool_mib, 0,
          "MiB for the paths of samples and densities in flight, allocated in the same way. 0: one "
          "third of what the rest leaves on a GPU, or 1024 on a CPU, or less where the process may "
          "use less than 8 GiB.");
ABSL_FLAG(int64_t, weights_pool_mib, 0,
          "MiB of a GPU's memory for the weights of all models together. 0: a sixteenth of "
          "--gpu_memory_fraction, at most 512. A wide model of width 2048 with 8192 hidden units "
          "and 12 layers has 1345 MiB of weights.");
ABSL_FLAG(std::string, cublaslt, "",
          "File of libcublasLt, 12.0 or newer, which wide models need on a GPU: those of more than "
          "512 units of width, 4096 hidden units, or parts too large for the device's shared "
          "memory. Opened with the first such model; without it, these are left out and others "
          "served. Empty: where the system's loader or /usr/local/cuda has it.");
ABSL_FLAG(double, gpu_memory_fraction, 0.94,
          "Fraction of the GPU's free memory that the server allocates at the start, for contexts, "
          "buffers, weights and everything else. More than 0, at most 1.");
ABSL_FLAG(int64_t, host_context_pool_mib, 1024,
          "MiB of pinned host memory for contexts that are evicted from a GPU, allocated at the "
          "start; they are copied back when needed. 0: none; they are encoded again. Not given: "
          "less where the process may use less than 8 GiB.");
ABSL_FLAG(
    int64_t, context_files_mib, 0,
    "MiB of encoded contexts on disk, in the folder kv of --data_dir: after a restart, or when "
    "a context had to make room, its keys and values are read instead of computed again. Least "
    "recently used files make room. On a GPU it needs --host_context_pool_mib. 0: none.");
ABSL_FLAG(
    std::string, warm_on_start, "",
    "Contexts that are made resident before the server is ready, separated by commas: NAME or "
    "TENANT/NAME. They never make room for others. *: also as many others as fit, the most "
    "recently registered first; these may make room. What cannot be made resident is logged.");
ABSL_FLAG(int64_t, max_queued, 256,
          "Calls that may wait for admission; more are refused, those of clients with more than "
          "their share of the places first.");
ABSL_FLAG(absl::Duration, queue_wait, absl::Seconds(30),
          "Longest wait for admission; then the call is refused.");
ABSL_FLAG(absl::Duration, retry_delay, absl::Seconds(1),
          "Delay after which a call that was refused for lack of memory is told to retry.");
ABSL_FLAG(
    absl::Duration, lame_duck, absl::Seconds(5),
    "Time after SIGTERM for which the server says that it is not ready, but still takes calls, "
    "so that load balancers can go elsewhere. SIGINT skips it; another SIGTERM changes nothing.");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(25),
          "Time for calls in flight to finish, after SIGINT or the time of --lame_duck. Those that "
          "do not, get what was drawn and UNAVAILABLE. A second SIGINT ends this time at once.");
ABSL_FLAG(
    absl::Duration, stalled_write_timeout, absl::Seconds(60),
    "Time for a client to read one message, such as the whole response of Predict, or to send the "
    "next one; then its call is cancelled.");
ABSL_FLAG(absl::Duration, unread_timeout, absl::Seconds(60),
          "Time for which a client may read nothing of a Sample that waits for it; then the stream "
          "ends. Where it holds more than its share of --buffer_pool_mib and another client waits, "
          "it is a few seconds.");
ABSL_FLAG(int64_t, max_message_mib, 4, "Largest message, in MiB, in either direction.");
ABSL_FLAG(int64_t, max_concurrent_streams, 100, "Concurrent calls per connection.");
ABSL_FLAG(int64_t, max_connections, 4096,
          "Connections at a time; more are closed as soon as they come. Each takes two file "
          "descriptors: where the process may not open so many files, fewer are taken.");
ABSL_FLAG(int64_t, max_connections_per_peer, 1024,
          "Connections at a time from one IPv4 address or one /64 network of IPv6.");
ABSL_FLAG(absl::Duration, max_connection_age, absl::ZeroDuration(),
          "Age, more or less a tenth, after which a connection takes no more calls, so that its "
          "client connects anew and finds servers that were added. Calls in flight are not cut. "
          "0s: none.");
ABSL_FLAG(int64_t, registration_memory_mib, 1024,
          "MiB for the datasets that all calls together are registering. Not given: less where "
          "the process may use less than 8 GiB of memory.");
ABSL_FLAG(
    int64_t, memory_limit_mib, 0,
    "MiB of memory that the process should stay below. At nine tenths of it, connections "
    "wait, and those that send most are ended; after ten seconds the process gives up, "
    "drains and ends with status 1. Pools and --registration_memory_mib may take four "
    "fifths of it. Not given, or above it: the limit of the process's cgroup, if it has one; "
    "else the process had so much when it began to serve, its pools have come to hold so much "
    "since, and 512 MiB: near that connections are ended, but the process goes on. 0: none.");
ABSL_FLAG(int64_t, max_context_rows, 65536, "Most rows of a context.");
ABSL_FLAG(int64_t, max_features, 1024, "Most feature columns of a table.");
ABSL_FLAG(int64_t, max_categories, 4096, "Most distinct categories of a column.");
ABSL_FLAG(int64_t, max_dataset_mib, 256, "Largest dataset, in MiB.");
ABSL_FLAG(int64_t, max_paths, 16384, "Most paths (B) of a call.");
ABSL_FLAG(int64_t, max_targets, 4096, "Most target rows (T) of a call.");
ABSL_FLAG(int64_t, max_orders, 1024, "Most random orders (R) of a LogDensity call.");
ABSL_FLAG(int64_t, max_values, 4 << 20, "Most values (B * T * R) of a call.");
ABSL_FLAG(bool, reflection, true,
          "Serve gRPC reflection, so that generic clients can list the methods. Not where callers "
          "are authenticated.");
ABSL_FLAG(std::string, log_format, "text", "text or json: one line per event on standard error.");
ABSL_FLAG(std::string, log_level, "info", "debug, info, warning or error.");
ABSL_FLAG(absl::Duration, slow_call, absl::Seconds(10),
          "Calls that take longer are logged as warnings, with slow=true. 0: none.");
ABSL_FLAG(
    std::string, trace_endpoint, "",
    "host:port of a collector that takes traces by OTLP over gRPC, without encryption. Empty: "
    "none.");
ABSL_FLAG(double, trace_sample_rate, 0.01,
          "Fraction of the traces that begin here which is recorded, 0 to 1. Where a call comes "
          "with a traceparent, that decides.");
ABSL_FLAG(std::string, config, "",
          "YAML file: a map of flags' names to values. The environment's CHORALE_<FLAG IN UPPER "
          "CASE> has precedence over it, the command line over both. Empty: none.");
ABSL_FLAG(
    bool, print_config, false,
    "Print the effective configuration, in the form of --config, and exit. Values that no source "
    "sets are comments.");
ABSL_FLAG(
    bool, check_config, false,
    "Open what a start would open: the models, the files of certificates, tokens and tenants, "
    "the backend; plan the memory; print all mistakes, and exit: with status 0 if the server "
    "would start, with 1 if only memory is missing that others use now, else with 2. Changes "
    "nothing; a server may run beside.");
ABSL_FLAG(bool, check, false,
          "Ask the server at --listen_address whether it is ready, and exit: with status 0 if it "
          "is, else with 1 and the reason.");

namespace chorale {
namespace {

constexpr int64_t kMiB = 1 << 20;

// Tables kept for their first request take at most this part of --memory_limit_mib.
constexpr int64_t kRegisteredTablesShare = 8;

// What a file or the environment cannot set, but for the environment's CHORALE_CONFIG.
constexpr absl::string_view kCommandLineOnly[] = {"config", "print_config", "check_config",
                                                  "check"};
// Flags whose values are separated by commas.
constexpr absl::string_view kLists[] = {"models", "warm_on_start"};

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

// `origin` says where the value comes from.
absl::Status Set(absl::CommandLineFlag* flag, absl::string_view value, const std::string& origin) {
  if (absl::StartsWith(value, "~") || absl::StrContains(value, ",~")) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": \"", value,
                     "\" begins with ~, which only a shell replaces: write the whole path"));
  }
  std::string error;
  if (flag->ParseFrom(value, &error)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(origin, ": \"", value, "\" is not a valid value. ",
                                                 flag->Help(), Syntax(*flag)));
}

std::string CommandLineOrigin(const absl::CommandLineFlag& flag) {
  return absl::StrCat("--", flag.Name());
}

// Our flags by their names.
std::map<std::string, absl::CommandLineFlag*> OurFlags() {
  std::map<std::string, absl::CommandLineFlag*> flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (IsOurs(*flag)) flags[std::string(name)] = flag;
  }
  return flags;
}

bool IsHostPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  return colon != absl::string_view::npos && colon > 0 &&
         absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 1 && port <= 65'535;
}

struct Range {
  int64_t low = 1;
  int64_t high = std::numeric_limits<int32_t>::max();
};

// Reads flags into options, and keeps what is wrong.
class Reader {
 public:
  Reader(const FlagOrigins& origins, Mistakes* mistakes) : origins_(origins), mistakes_(mistakes) {}

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

  void DurationOrZero(const absl::Flag<absl::Duration>& flag, absl::Duration* out) {
    const absl::Duration value = absl::GetFlag(flag);
    if (value < absl::ZeroDuration() || value > absl::Hours(24)) {
      Fail(absl::GetFlagReflectionHandle(flag),
           absl::StrCat("must be 0s to 24h, not ", absl::FormatDuration(value)));
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
    const auto origin = origins_.find(flag.Name());
    mistakes_->Add(absl::StrCat(origin == origins_.end() ? CommandLineOrigin(flag) : origin->second,
                                " ", what));
  }

 private:
  const FlagOrigins& origins_;
  Mistakes* const mistakes_;
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
  reader->Integer(FLAGS_max_connections, {1, 1 << 20}, &server->max_connections);
  reader->Integer(FLAGS_max_connections_per_peer, {1, 1 << 20}, &server->max_connections_per_peer);
  reader->Integer(FLAGS_memory_limit_mib, {0, 1 << 24}, &server->memory_limit_bytes, kMiB);
  reader->Integer(FLAGS_registration_memory_mib, {1, 1 << 20}, &server->registration_memory_bytes,
                  kMiB);
  reader->Duration(FLAGS_stalled_write_timeout, &server->stalled_write_timeout);
  reader->DurationOrZero(FLAGS_lame_duck, &server->lame_duck);
  reader->Duration(FLAGS_drain_timeout, &server->drain_timeout);
  reader->DurationOrZero(FLAGS_max_connection_age, &server->max_connection_age);
  reader->Duration(FLAGS_retry_delay, &server->retry_delay);
}

void ReadSecurity(Reader* reader, ServerOptions* server) {
  SecurityOptions& security = server->security;
  security.tls.certificate = absl::GetFlag(FLAGS_tls_certificate);
  security.tls.key = absl::GetFlag(FLAGS_tls_key);
  security.tls.client_ca = absl::GetFlag(FLAGS_tls_client_ca);
  security.token_file = absl::GetFlag(FLAGS_token_file);
  security.tenant_file = absl::GetFlag(FLAGS_tenant_file);
  const bool tls = !security.tls.certificate.empty();
  if (tls != !security.tls.key.empty()) {
    reader->Fail(absl::GetFlagReflectionHandle(tls ? FLAGS_tls_key : FLAGS_tls_certificate),
                 "must be given: --tls_certificate and --tls_key belong together");
  }
  if (!security.tls.client_ca.empty() && !tls) {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_tls_client_ca), "needs --tls_certificate");
  }
  if (!security.tls.client_ca.empty() && security.tenant_file.empty()) {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_tls_client_ca),
                 "needs --tenant_file, which says whose the certificates are");
  }
  if (!tls && !absl::GetFlag(FLAGS_insecure) && !IsLoopbackAddress(server->listen_address)) {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_listen_address),
                 absl::StrCat("is ", server->listen_address,
                              ", which other machines may reach, and there is no encryption: give "
                              "--tls_certificate and --tls_key, or --insecure behind a proxy that "
                              "ends TLS"));
  }
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
  reader->Integer(FLAGS_threads, {0, cpu::kMaxThreads}, &engine->threads);
  reader->Integer(FLAGS_context_pool_mib, {0, 1 << 24}, &engine->context_pool_bytes, kMiB);
  reader->Integer(FLAGS_buffer_pool_mib, {0, 1 << 24}, &engine->buffer_pool_bytes, kMiB);
  reader->Integer(FLAGS_weights_pool_mib, {0, 1 << 24}, &engine->weights_pool_bytes, kMiB);
  engine->cublaslt = absl::GetFlag(FLAGS_cublaslt);
  reader->Fraction(FLAGS_gpu_memory_fraction, &engine->gpu_memory_fraction);
  reader->Integer(FLAGS_host_context_pool_mib, {0, 1 << 24}, &engine->host_context_pool_bytes,
                  kMiB);
  reader->Integer(FLAGS_context_files_mib, {0, 1 << 24}, &engine->context_file_bytes, kMiB);
}

// The entries of a list, without spaces around them.
std::vector<std::string> SplitList(absl::string_view list) {
  std::vector<std::string> entries;
  for (const absl::string_view entry : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    entries.emplace_back(absl::StripAsciiWhitespace(entry));
  }
  return entries;
}

void ReadEngine(Reader* reader, EngineSetup* engine) {
  engine->models = SplitList(absl::GetFlag(FLAGS_models));
  if (engine->models.empty()) {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_models), "must name at least one folder");
  }
  engine->data_dir = absl::GetFlag(FLAGS_data_dir);
  if (engine->data_dir.empty()) {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_data_dir), "must name a folder");
  }
  engine->warm_on_start = SplitList(absl::GetFlag(FLAGS_warm_on_start));
  ReadBackend(reader, engine);
  reader->Integer(FLAGS_max_queued, {1, 1 << 20}, &engine->max_queued);
  reader->Duration(FLAGS_queue_wait, &engine->max_queue_wait);
  reader->Duration(FLAGS_unread_timeout, &engine->max_unread);
  reader->Duration(FLAGS_retry_delay, &engine->retry_delay);
}

void ReadTelemetry(Reader* reader, ServerOptions* server) {
  server->trace_endpoint = absl::GetFlag(FLAGS_trace_endpoint);
  if (!server->trace_endpoint.empty() && !IsHostPort(server->trace_endpoint)) {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_trace_endpoint),
                 "must be host:port with a port of 1 to 65535, or empty");
  }
  server->trace_sample_rate = absl::GetFlag(FLAGS_trace_sample_rate);
  if (!(server->trace_sample_rate >= 0 && server->trace_sample_rate <= 1)) {  // NaN as well
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_trace_sample_rate),
                 absl::StrCat("must be 0 to 1, not ", server->trace_sample_rate));
  }
  server->slow_call = absl::GetFlag(FLAGS_slow_call);
  if (server->slow_call < absl::ZeroDuration() || server->slow_call > absl::Hours(24)) {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_slow_call),
                 absl::StrCat("must be 0 to 24h, not ", absl::FormatDuration(server->slow_call)));
  }
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

absl::StatusOr<FlagAction> ParseFlags(const std::vector<std::string>& arguments,
                                      FlagOrigins* origins) {
  Mistakes mistakes;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view text = arguments[i];
    if (text == "--help" || text == "-h") return FlagAction::kPrintHelp;
    if (text == "--version") return FlagAction::kPrintVersion;
    if (!absl::ConsumePrefix(&text, "--")) {
      mistakes.Add(absl::StrCat("\"", arguments[i], "\" is not a flag"));
      continue;
    }
    const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    absl::CommandLineFlag* flag = FindOurs(parts[0]);
    const bool negated = flag == nullptr && parts.size() == 1 && absl::StartsWith(text, "no");
    if (negated) flag = FindOurs(text.substr(2));
    if (flag == nullptr || (negated && !flag->IsOfType<bool>())) {
      mistakes.Add(absl::StrCat("there is no flag --", parts[0], "; --help lists all flags"));
      // What follows may be its value.
      if (parts.size() == 1 && i + 1 < arguments.size() && arguments[i + 1][0] != '-') ++i;
      continue;
    }
    absl::string_view value = negated ? "false" : "true";
    if (parts.size() == 2) {
      value = parts[1];
    } else if (!flag->IsOfType<bool>()) {
      if (++i == arguments.size()) {
        mistakes.Add(absl::StrCat("--", flag->Name(), " needs a value"));
        break;
      }
      value = arguments[i];
    }
    mistakes.Add(Set(flag, value, CommandLineOrigin(*flag)));
    if (origins != nullptr) (*origins)[std::string(flag->Name())] = CommandLineOrigin(*flag);
  }
  RETURN_IF_ERROR(mistakes.ToStatus());
  return AskedAction();
}

FlagAction AskedAction() {
  if (absl::GetFlag(FLAGS_check)) return FlagAction::kCheck;
  if (absl::GetFlag(FLAGS_check_config)) return FlagAction::kCheckConfig;
  return absl::GetFlag(FLAGS_print_config) ? FlagAction::kPrintConfig : FlagAction::kRun;
}

bool IsConfigurable(absl::string_view name) {
  return FindOurs(name) != nullptr &&
         absl::c_find(kCommandLineOnly, name) == std::end(kCommandLineOnly);
}

bool TakesList(absl::string_view name) { return absl::c_find(kLists, name) != std::end(kLists); }

absl::Status SetFlag(absl::string_view name, absl::string_view value, const std::string& origin,
                     FlagOrigins* origins) {
  (*origins)[std::string(name)] = origin;
  return Set(FindOurs(name), value, origin);
}

std::string ConfigFile() { return absl::GetFlag(FLAGS_config); }

ListenTarget ListenTargetOfFlags() {
  return {absl::GetFlag(FLAGS_listen_address), !absl::GetFlag(FLAGS_tls_certificate).empty()};
}

void ResetFlags() {
  std::string error;  // a default always parses
  for (const auto& [name, flag] : OurFlags()) flag->ParseFrom(flag->DefaultValue(), &error);
}

std::map<std::string, std::string> FlagValues() {
  std::map<std::string, std::string> values;
  for (const auto& [name, flag] : OurFlags()) {
    if (IsConfigurable(name)) values[name] = flag->CurrentValue();
  }
  return values;
}

absl::StatusOr<ProgramOptions> OptionsFromFlags(const FlagOrigins& origins) {
  Mistakes mistakes;
  ProgramOptions options = OptionsFromFlags(origins, &mistakes);
  RETURN_IF_ERROR(mistakes.ToStatus());
  return options;
}

ProgramOptions OptionsFromFlags(const FlagOrigins& origins, Mistakes* mistakes) {
  ProgramOptions options;
  for (const auto& [flag, origin] : origins) options.given.insert(flag);
  Reader reader(origins, mistakes);
  ReadLimits(&reader, &options.server.limits);
  ReadServer(&reader, &options.server);
  ReadSecurity(&reader, &options.server);
  ReadTelemetry(&reader, &options.server);
  // The engine does not know protobuf messages, so tell it how large a response may be.
  options.server.limits.max_response_bytes = MaxResponseBytes(options.server.max_message_bytes);
  options.engine.limits = options.server.limits;
  ReadEngine(&reader, &options.engine);
  ReadLogging(&reader, &options);
  if (options.server.memory_limit_bytes > 0) {
    options.engine.registered_tables_bytes =
        std::min(options.engine.registered_tables_bytes,
                 options.server.memory_limit_bytes / kRegisteredTablesShare);
  }
  return options;
}

std::string HelpText() {
  std::string text =
      "chorale-server: joint samples from in-context tabular models, over gRPC.\n\n"
      "  chorale-server --models=FOLDER[,FOLDER...] --data_dir=FOLDER [flags]\n\n"
      "Exit status: 0 after SIGTERM or SIGINT; 1 if it cannot start (a port, the GPU or the data\n"
      "folder cannot be used), if the backend has failed, if it can accept no connection or stays\n"
      "above --memory_limit_mib, or if it cannot stop in time; 2 for a mistake in a flag, in the\n"
      "configuration or in a file that they name. Restart it after a failure, but not after 2:\n"
      "registered contexts are kept.\n"
      "\n"
      "SIGHUP, or a change of the file that --config names, sets the flags anew that can be set\n"
      "while the server runs: the log level, slow_call, the limits of requests and the models. "
      "The\n"
      "log names the others. So does a change of the files of certificates, tokens and tenants,\n"
      "which are read again as well.\n"
      "\n"
      "Write times as 500ms, 30s or 5m.\n\n";
  for (const auto& [name, flag] : OurFlags()) {
    absl::StrAppend(&text, "  --", name, " (default \"", flag->DefaultValue(), "\")\n      ",
                    flag->Help(), "\n");
  }
  return text;
}

}  // namespace chorale
