#include "server/options/flags.h"

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
    "Address and port for gRPC: HOST:PORT or unix:PATH. Port 0 selects a free port, which the log "
    "reports. The default accepts connections from this machine only. An address that other "
    "machines can reach, such as 0.0.0.0:50051, requires --tls_certificate or --insecure.");
ABSL_FLAG(std::string, tls_certificate, "",
          "PEM file with the server's certificate, followed by its intermediate certificates. The "
          "server reloads the file when it changes. TLS 1.2 or newer. Empty: no encryption.");
ABSL_FLAG(std::string, tls_key, "",
          "PEM file with the private key of --tls_certificate, without a passphrase. The server "
          "reloads the file when it changes.");
ABSL_FLAG(std::string, tls_client_ca, "",
          "PEM file with the certificate authorities whose client certificates the server accepts; "
          "--tenant_file maps these certificates to tenants. The server reloads the file when it "
          "changes. Empty: the server requests no client certificates.");
ABSL_FLAG(std::string, token_file, "",
          "File of bearer tokens, one per line: NAME SHA256 TENANT ROLE [EXPIRES]. `chorale token` "
          "generates a token and its line. The server reloads the file when it changes. Empty: no "
          "tokens.");
ABSL_FLAG(std::string, tenant_file, "",
          "YAML file of tenants: weights, quotas and client certificates. The server reloads the "
          "file when it changes. Empty: no quotas.");
ABSL_FLAG(bool, insecure, false,
          "Allow unencrypted connections on an address that other machines can reach. Use it only "
          "behind a proxy that terminates TLS, on a private network.");
ABSL_FLAG(std::string, metrics_address, "127.0.0.1:9464",
          "Address and port of the HTTP endpoint: /metrics for Prometheus, /healthz and /readyz "
          "for probes. Empty: no HTTP endpoint.");
ABSL_FLAG(std::string, port_file, "",
          "File to which the server writes its gRPC port once the port is bound. Empty: no file.");
ABSL_FLAG(std::string, models, "",
          "Model folders, or folders of model folders, separated by commas. The first model that "
          "can be served is the default model. Required.");
ABSL_FLAG(std::string, data_dir, "",
          "Data folder, which stores the registered contexts. The server creates it if it does not "
          "exist. Required.");
ABSL_FLAG(std::string, backend, "auto",
          "auto, cpu or cuda. cuda uses the first GPU in CUDA_VISIBLE_DEVICES. auto uses a GPU if "
          "there is one, and otherwise the CPU; the log then contains the reason.");
ABSL_FLAG(int64_t, threads, 0,
          "Threads of the CPU backend. 0: one per processor that the scheduling affinity and the "
          "cgroup's quota allow the process to use.");
ABSL_FLAG(int64_t, context_pool_mib, 0,
          "Size in MiB of the context pool, which holds the keys and values of resident contexts. "
          "On a GPU, the server allocates it at start; 0 means two thirds of the device memory "
          "that remains of --gpu_memory_fraction. On a CPU, the server allocates memory as it is "
          "used; 0 means 4096, or less if the process may use less than 8 GiB according to its "
          "cgroup, its resource limits and the machine's free memory. The log event machine "
          "reports the size and the limit that determined it.");
ABSL_FLAG(
    int64_t, buffer_pool_mib, 0,
    "Size in MiB of the buffer pool, which holds the paths of samples and densities in flight. It "
    "is allocated like the context pool. 0 means one third of the remaining device memory on a "
    "GPU, and on a CPU 1024, or less if the process may use less than 8 GiB.");
ABSL_FLAG(int64_t, weights_pool_mib, 0,
          "Size in MiB of the GPU memory for the weights of all models together. 0: a sixteenth of "
          "--gpu_memory_fraction, at most 512. A wide model with d_model 2048, d_ff 8192 and 12 "
          "layers has 1345 MiB of weights.");
ABSL_FLAG(std::string, cublaslt, "",
          "Path of libcublasLt 12.0 or newer, which wide models require on a GPU. A model is wide "
          "if its d_model exceeds 512, its d_ff exceeds 4096, or a part of it exceeds the device's "
          "shared memory. The server opens the library when it loads the first wide model. Without "
          "the library it skips wide models and serves the others. Empty: search the loader's "
          "path, then /usr/local/cuda/lib64.");
ABSL_FLAG(double, gpu_memory_fraction, 0.94,
          "Fraction of the GPU's free memory that the server allocates at start, for contexts, "
          "buffers, weights and workspace. More than 0, at most 1.");
ABSL_FLAG(
    int64_t, host_context_pool_mib, 1024,
    "Size in MiB of the pinned host memory for contexts that are evicted from a GPU, allocated at "
    "start. The server restores these contexts by a copy. 0: evicted contexts are encoded again. "
    "If the flag is not set, the size is smaller if the process may use less than 8 GiB.");
ABSL_FLAG(int64_t, context_files_mib, 0,
          "Disk space in MiB for encoded contexts, in the folder kv of --data_dir. After a restart "
          "or an eviction, the server reads the keys and values of a context instead of computing "
          "them again. The least recently used files are removed first. On a GPU this requires "
          "--host_context_pool_mib. 0: no files.");
ABSL_FLAG(std::string, warm_on_start, "",
          "Contexts to make resident before the server is ready, separated by commas: NAME or "
          "TENANT/NAME. The server pins them, so they are never evicted. * adds as many other "
          "contexts as fit, the most recently registered first, without pinning them. The server "
          "logs each context that it cannot make resident.");
ABSL_FLAG(int64_t, max_queued, 256,
          "Maximum number of calls that wait for admission (queue slots). The server rejects "
          "further calls, first those of clients with more than their share of the slots.");
ABSL_FLAG(absl::Duration, queue_wait, absl::Seconds(30),
          "Maximum wait for admission. The server then rejects the call.");
ABSL_FLAG(absl::Duration, retry_delay, absl::Seconds(1),
          "Retry delay that the server returns with a call that it rejects for lack of memory.");
ABSL_FLAG(absl::Duration, lame_duck, absl::Seconds(5),
          "Time after SIGTERM during which the server reports that it is not ready but still "
          "accepts calls, so that load balancers stop sending calls. SIGINT ends this period; a "
          "repeated SIGTERM has no effect.");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(25),
          "Maximum time for calls in flight to finish, after SIGINT or the end of --lame_duck. The "
          "server then aborts the remaining calls: they return the values drawn so far and "
          "UNAVAILABLE. A second SIGINT aborts them immediately.");
ABSL_FLAG(absl::Duration, stalled_write_timeout, absl::Seconds(60),
          "Maximum time for a client to read one message, such as the whole response of Predict, "
          "or to send the next message. The server then cancels the call.");
ABSL_FLAG(absl::Duration, unread_timeout, absl::Seconds(60),
          "Maximum time for which a Sample call waits for a client that reads nothing. The server "
          "then ends the stream. The time is a few seconds if the client holds more than its share "
          "of --buffer_pool_mib and another client waits.");
ABSL_FLAG(int64_t, max_message_mib, 4, "Maximum size of a message in MiB, in each direction.");
ABSL_FLAG(int64_t, max_concurrent_streams, 100,
          "Maximum number of concurrent calls per connection.");
ABSL_FLAG(int64_t, max_connections, 4096,
          "Maximum number of open connections. The server closes further connections immediately. "
          "A connection needs two file descriptors; if the process may not open enough files, the "
          "server lowers this limit.");
ABSL_FLAG(int64_t, max_connections_per_peer, 1024,
          "Maximum number of open connections from an IPv4 address or an IPv6 /64 network.");
ABSL_FLAG(absl::Duration, max_connection_age, absl::ZeroDuration(),
          "Age, plus or minus 10 %, at which a connection accepts no more calls, so that its "
          "client reconnects and discovers added servers. Calls in flight finish. 0s: no limit.");
ABSL_FLAG(int64_t, registration_memory_mib, 1024,
          "Memory in MiB for the datasets of all registrations in progress. If the flag is not "
          "set, the value is smaller if the process may use less than 8 GiB of memory.");
ABSL_FLAG(
    int64_t, memory_limit_mib, 0,
    "Memory limit of the process in MiB. Above 90 % of the limit, the server accepts no new "
    "connections and closes the connections that send most; if memory use stays at that level for "
    "ten seconds, the server drains and ends with status 1. Pools and --registration_memory_mib "
    "may use up to 80 % of the limit. If the flag is not set, or exceeds the cgroup's limit or the "
    "machine's memory, the cgroup's limit applies. Without a cgroup's limit, the limit is the "
    "memory in use when the server began to serve, plus the later growth of its pools and 512 MiB; "
    "near this limit the server closes connections but does not end. 0: no limit.");
ABSL_FLAG(int64_t, max_context_rows, 65536, "Maximum number of rows of a context.");
ABSL_FLAG(int64_t, max_features, 1024, "Maximum number of feature columns of a table.");
ABSL_FLAG(int64_t, max_categories, 4096, "Maximum number of distinct categories of a column.");
ABSL_FLAG(int64_t, max_dataset_mib, 256, "Maximum size of a dataset in MiB.");
ABSL_FLAG(int64_t, max_paths, 16384, "Maximum number of paths (B) of a call.");
ABSL_FLAG(int64_t, max_targets, 4096, "Maximum number of query rows (T) of a call.");
ABSL_FLAG(int64_t, max_orders, 1024, "Maximum number of random orders (R) of a LogDensity call.");
ABSL_FLAG(int64_t, max_values, 4 << 20, "Maximum number of values (B * T * R) of a call.");
ABSL_FLAG(bool, reflection, true,
          "Serve gRPC reflection, with which generic clients list the methods. It has no effect if "
          "the server authenticates callers.");
ABSL_FLAG(std::string, log_format, "text",
          "Format of the log on standard error, with one line per event: text or json.");
ABSL_FLAG(std::string, log_level, "info",
          "Lowest level of the events in the log: debug, info, warning or error.");
ABSL_FLAG(
    absl::Duration, slow_call, absl::Seconds(10),
    "The server logs calls that take longer as warnings, with slow=true. 0s: no such warnings.");
ABSL_FLAG(
    std::string, trace_endpoint, "",
    "HOST:PORT of a collector that accepts OTLP traces over unencrypted gRPC. Empty: no traces.");
ABSL_FLAG(double, trace_sample_rate, 0.01,
          "Fraction of the calls without a traceparent that the server traces, 0 to 1. A call with "
          "a traceparent is traced if the caller's trace is sampled.");
ABSL_FLAG(std::string, config, "",
          "YAML file that maps flag names to values. An environment variable CHORALE_<FLAG IN "
          "UPPER CASE> overrides the file, and the command line overrides both. Empty: no file.");
ABSL_FLAG(bool, print_config, false,
          "Print the effective configuration in the format of --config, and exit. Values that no "
          "source sets are printed as comments.");
ABSL_FLAG(
    bool, check_config, false,
    "Check whether the server can start: open the models, the backend and the files of "
    "certificates, tokens and tenants, plan the memory, print all errors, and exit. Status 0: the "
    "server can start; 1: only memory is missing that other processes use at the moment; 2: all "
    "other errors. The check changes nothing and can run next to a running server.");
ABSL_FLAG(bool, check, false,
          "Check whether the server at --listen_address is ready, and exit. Status 0: it is ready; "
          "1: it is not, and the reason is printed.");

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
  return absl::EndsWith(flag.Filename(), "server/options/flags.cc");
}

absl::CommandLineFlag* FindOurs(absl::string_view name) {
  absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
  return flag != nullptr && IsOurs(*flag) ? flag : nullptr;
}

// How to write a value of the flag; empty if that is obvious.
const char* Syntax(const absl::CommandLineFlag& flag) {
  if (flag.IsOfType<absl::Duration>()) return " Use a duration such as 500ms, 30s or 5m.";
  if (flag.IsOfType<int64_t>()) return " The value must be an integer.";
  if (flag.IsOfType<double>()) return " The value must be a number.";
  return "";
}

// `origin` names the source of the value.
absl::Status Set(absl::CommandLineFlag* flag, absl::string_view value, const std::string& origin) {
  if (absl::StartsWith(value, "~") || absl::StrContains(value, ",~")) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin, ": \"", value, "\" begins with ~, which only a shell expands: use the full path"));
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
           absl::StrCat("must be from ", range.low, " to ", range.high, ", not ", value));
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
           absl::StrCat("must be from 0s to 24h, not ", absl::FormatDuration(value)));
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
                 "must be set: --tls_certificate and --tls_key require each other");
  }
  if (!security.tls.client_ca.empty() && !tls) {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_tls_client_ca), "requires --tls_certificate");
  }
  if (!security.tls.client_ca.empty() && security.tenant_file.empty()) {
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_tls_client_ca),
                 "requires --tenant_file, which maps client certificates to tenants");
  }
  if (!tls && !absl::GetFlag(FLAGS_insecure) && !IsLoopbackAddress(server->listen_address)) {
    reader->Fail(
        absl::GetFlagReflectionHandle(FLAGS_listen_address),
        absl::StrCat(
            "is ", server->listen_address,
            ", which other machines can reach, but encryption is not configured: set "
            "--tls_certificate and --tls_key, or --insecure behind a proxy that terminates TLS"));
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
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_models), "must list at least one folder");
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
                 "must be HOST:PORT with a port from 1 to 65535, or empty");
  }
  server->trace_sample_rate = absl::GetFlag(FLAGS_trace_sample_rate);
  if (!(server->trace_sample_rate >= 0 && server->trace_sample_rate <= 1)) {  // NaN as well
    reader->Fail(absl::GetFlagReflectionHandle(FLAGS_trace_sample_rate),
                 absl::StrCat("must be from 0 to 1, not ", server->trace_sample_rate));
  }
  server->slow_call = absl::GetFlag(FLAGS_slow_call);
  if (server->slow_call < absl::ZeroDuration() || server->slow_call > absl::Hours(24)) {
    reader->Fail(
        absl::GetFlagReflectionHandle(FLAGS_slow_call),
        absl::StrCat("must be from 0s to 24h, not ", absl::FormatDuration(server->slow_call)));
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
      mistakes.Add(absl::StrCat("unknown flag --", parts[0], "; --help lists all flags"));
      // What follows may be its value.
      if (parts.size() == 1 && i + 1 < arguments.size() && arguments[i + 1][0] != '-') ++i;
      continue;
    }
    absl::string_view value = negated ? "false" : "true";
    if (parts.size() == 2) {
      value = parts[1];
    } else if (!flag->IsOfType<bool>()) {
      if (++i == arguments.size()) {
        mistakes.Add(absl::StrCat("--", flag->Name(), " requires a value"));
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
      "Exit status:\n"
      "  0  stopped by SIGTERM or SIGINT\n"
      "  1  failed start (a port, the GPU, the data folder, or memory that others use at the\n"
      "     moment), failed backend, no more connections can be accepted, memory stayed near\n"
      "     --memory_limit_mib, or forced exit after a shutdown that took too long. Restart the\n"
      "     server: registered contexts are kept\n"
      "  2  invalid flag or configuration, or an invalid file that they name. A restart has the\n"
      "     same result\n"
      "\n"
      "SIGHUP, or a change of the file of --config, reloads the configuration. The server applies\n"
      "the log level, slow_call, the limits of requests and the models without a restart, and "
      "logs\n"
      "the changed flags that require a restart. It also reloads the files of certificates, "
      "tokens\n"
      "and tenants, on SIGHUP and when they change.\n"
      "\n"
      "Durations are written as 500ms, 30s or 5m.\n\n";
  for (const auto& [name, flag] : OurFlags()) {
    absl::StrAppend(&text, "  --", name, " (default \"", flag->DefaultValue(), "\")\n      ",
                    flag->Help(), "\n");
  }
  return text;
}

}  // namespace chorale
