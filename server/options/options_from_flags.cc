// Reads the flags into options.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/loopback.h"
#include "base/status_macros.h"
#include "engine/backend/cpu/backend.h"
#include "server/options/flag_definitions.h"
#include "server/options/flags.h"

namespace chorale {
namespace {

constexpr int64_t kMiB = 1 << 20;

// Tables kept for their first request take at most this part of --memory_limit_mib.
constexpr int64_t kRegisteredTablesShare = 8;

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

// A single client gets half of the memory for unread responses (ReplyMemory), which must suffice
// for a response of the maximum size: otherwise it would be rejected each time.
constexpr int64_t kLeastReplies = 2;

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

  template <typename T>
  void Choice(const absl::Flag<std::string>& flag,
              const std::vector<std::pair<std::string, T>>& choices, T* out) {
    const std::string value = absl::GetFlag(flag);
    std::vector<std::string> names;
    for (const auto& [name, choice] : choices) {
      if (name == value) {
        *out = choice;
        return;
      }
      names.push_back(name);
    }
    Fail(absl::GetFlagReflectionHandle(flag),
         absl::StrCat("must be one of ", absl::StrJoin(names, ", "), ", not '", value, "'"));
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
  reader->Integer(FLAGS_max_query_rows, {1, 1 << 20}, &limits->max_query_rows);
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
  reader->Choice<BackendChoice>(FLAGS_backend,
                                {{"auto", BackendChoice::kAuto},
                                 {"cpu", BackendChoice::kCpu},
                                 {"cuda", BackendChoice::kCuda}},
                                &engine->backend);
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
  reader->Integer(FLAGS_max_appended_percent, {0, 1 << 20}, &engine->max_appended_percent);
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
  reader->Choice<LogFormat>(FLAGS_log_format,
                            {{"text", LogFormat::kText}, {"json", LogFormat::kJson}},
                            &options->log_format);
  reader->Choice<spdlog::level::level_enum>(FLAGS_log_level,
                                            {{"debug", spdlog::level::debug},
                                             {"info", spdlog::level::info},
                                             {"warning", spdlog::level::warn},
                                             {"error", spdlog::level::err}},
                                            &options->log_level);
}

}  // namespace

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
  options.server.reply_memory_bytes =
      std::max(options.server.reply_memory_bytes, kLeastReplies * options.server.max_message_bytes);
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

}  // namespace chorale
