#include "server/telemetry/logging.h"

#ifdef CHORALE_GPR_LOG
#include <grpc/support/log.h>
#else
#include <absl/log/globals.h>
#include <absl/log/initialize.h>
#include <absl/log/log_sink.h>
#include <absl/log/log_sink_registry.h>
#endif
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "server/telemetry/line_limit.h"

namespace chorale {
namespace {

using Level = spdlog::level::level_enum;

constexpr size_t kMaxQueuedLines = 8192;

// For the last lines, where the reader of the log is slow.
constexpr std::chrono::seconds kLastLinesPatience(2);

std::atomic<LogFormat> log_format{LogFormat::kText};

absl::string_view LevelName(Level level) {
  const spdlog::string_view_t name = spdlog::level::to_string_view(level);
  return absl::string_view(name.data(), name.size());
}

std::string Timestamp() { return LogTime(absl::Now()); }

// Formats lines that other code logs through spdlog's own functions.
class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& msg, spdlog::memory_buf_t& out) override {
    const std::string line =
        FormatJson(Timestamp(), LevelName(msg.level),
                   absl::string_view(msg.payload.data(), msg.payload.size()), {});
    out.append(line.data(), line.data() + line.size());
    out.push_back('\n');
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

// Bytes and characters that a terminal or a viewer may take for commands or for the end of a line.
bool IsUnsafe(absl::string_view value) {
  return !IsValidUtf8(value) || HasControlCharacter(value) ||
         absl::StrContains(value, "\xE2\x80\xA8") ||  // U+2028, line separator
         absl::StrContains(value, "\xE2\x80\xA9");    // U+2029, paragraph separator
}

// Formats the same lines as text.
class TextFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& msg, spdlog::memory_buf_t& out) override {
    const absl::string_view payload(msg.payload.data(), msg.payload.size());
    const std::string line =
        absl::StrCat(Timestamp(), " ", LevelName(msg.level), " ",
                     IsUnsafe(payload) ? absl::CEscape(payload) : std::string(payload), "\n");
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<TextFormatter>(); }
};

std::shared_ptr<spdlog::logger> MakeLogger(const std::string& name, spdlog::sink_ptr sink,
                                           Level level) {
  auto logger = std::make_shared<spdlog::async_logger>(
      name, std::move(sink), spdlog::thread_pool(), spdlog::async_overflow_policy::overrun_oldest);
  logger->set_level(level);
  logger->flush_on(spdlog::level::info);
  return logger;
}

std::shared_ptr<spdlog::logger>& EventLogger() {
  static std::shared_ptr<spdlog::logger> logger;
  return logger;
}

// Of a client that names the server by its address, as the container's own health check does: TLS
// has no names for those, and nothing is wrong.
bool IsAboutAddress(absl::string_view message) {
  return absl::StrContains(message, "No match found for server name");
}

// Of gRPC's warnings. Never destroyed: gRPC's threads may outlive the other statics.
LineLimit& GrpcLines() {
  static LineLimit& limit = *new LineLimit({"grpc_lines_suppressed", "source", "lines"});
  return limit;
}

// `line`: of gRPC's source file.
void LogLineOfGrpc(Level level, absl::string_view file, int line, std::string message) {
  if (level == spdlog::level::warn) {
    const absl::string_view name = file.substr(file.rfind('/') + 1);
    if (!GrpcLines().HasLine(absl::StrCat(name, ":", line), Clock::Real()->Now())) return;
  }
  LogEvent(level, "grpc", {{"message", std::move(message)}});
}

// gRPC's INFO lines are details about sockets: they become DEBUG.
#ifdef CHORALE_GPR_LOG
void LogFromGrpc(gpr_log_func_args* args) {
  Level level = spdlog::level::trace;
  if (args->severity == GPR_LOG_SEVERITY_ERROR) level = spdlog::level::warn;
  if (args->severity == GPR_LOG_SEVERITY_INFO || IsAboutAddress(args->message)) {
    level = spdlog::level::debug;
  }
  LogLineOfGrpc(level, args->file, args->line, args->message);
}
void StartLogOfGrpc() { gpr_set_log_function(LogFromGrpc); }
void StopLogOfGrpc() {
  gpr_set_log_function([](gpr_log_func_args*) {});
}
void SetLogLevelOfGrpc(Level level) {
  gpr_set_log_verbosity(level <= spdlog::level::debug ? GPR_LOG_SEVERITY_INFO
                                                      : GPR_LOG_SEVERITY_ERROR);
}
#else  // a gRPC that logs through Abseil, and so does its Protobuf
class LogOfAbseil : public absl::LogSink {
 public:
  void Send(const absl::LogEntry& entry) override {
    const bool warns =
        entry.log_severity() >= absl::LogSeverity::kError && !IsAboutAddress(entry.text_message());
    const Level level = warns ? spdlog::level::warn : spdlog::level::debug;
    LogLineOfGrpc(level, entry.source_filename(), entry.source_line(),
                  std::string(entry.text_message()));
  }
};
LogOfAbseil& TheLogOfAbseil() {
  static LogOfAbseil sink;
  return sink;
}
void StartLogOfGrpc() {
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfinity);
  absl::AddLogSink(&TheLogOfAbseil());
  absl::InitializeLog();
}
void StopLogOfGrpc() { absl::RemoveLogSink(&TheLogOfAbseil()); }
void SetLogLevelOfGrpc(Level /*level*/) {}  // LogEvent drops what is below the level
#endif

bool NeedsQuotes(absl::string_view value) {
  if (value.empty()) return true;
  for (char c : value) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c)) || c == '"' || c == '=') return true;
  }
  return false;
}

struct TextOf {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(uint64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const { return absl::StrCat(value); }
  std::string operator()(const std::string& value) const {
    if (!NeedsQuotes(value)) return value;
    return absl::StrCat("\"", IsUnsafe(value) ? absl::CEscape(value) : absl::Utf8SafeCEscape(value),
                        "\"");
  }
};

}  // namespace

std::string LogTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

std::string FormatText(absl::string_view event, const std::vector<LogField>& fields) {
  std::string line(event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=", std::visit(TextOf(), field.value));
  }
  return line;
}

std::string FormatJson(absl::string_view time, absl::string_view level, absl::string_view event,
                       const std::vector<LogField>& fields) {
  nlohmann::ordered_json line;
  line["time"] = std::string(time);
  line["level"] = std::string(level);
  line["event"] = std::string(event);
  for (const LogField& field : fields) {
    std::visit([&](const auto& value) { line[field.key] = value; }, field.value);
  }
  // Invalid UTF-8 is replaced, so that the line is always valid JSON; all that is not ASCII is
  // escaped, so that no viewer takes a character for the end of the line.
  return line.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

void StartLogging(LogFormat format, Level level) {
  log_format = format;
  spdlog::init_thread_pool(kMaxQueuedLines, 1);
  auto plain = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto events = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  if (format == LogFormat::kJson) {
    plain->set_formatter(std::make_unique<JsonFormatter>());
    events->set_pattern("%v");  // LogEvent makes the whole line
  } else {
    plain->set_formatter(std::make_unique<TextFormatter>());
    events->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        "%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc));
  }
  spdlog::set_default_logger(MakeLogger("", plain, level));
  EventLogger() = MakeLogger("events", events, level);
  StartLogOfGrpc();
  SetLogLevel(level);
}

void SetLogLevel(Level level) {
  spdlog::default_logger_raw()->set_level(level);
  if (EventLogger()) EventLogger()->set_level(level);
  SetLogLevelOfGrpc(level);
}

void LogSumsOfGrpc() { GrpcLines().LogSums(Clock::Real()->Now()); }

int64_t LogLinesDropped() {
  const auto pool = spdlog::thread_pool();
  return pool == nullptr ? 0 : static_cast<int64_t>(pool->overrun_counter());
}

bool StopLogging() {
  StopLogOfGrpc();
  // The thread that writes may wait for a reader for ever, and this library for the thread.
  std::promise<void> stopped;
  std::future<void> done = stopped.get_future();
  std::thread([stopped = std::move(stopped)]() mutable {
    EventLogger().reset();
    spdlog::shutdown();
    stopped.set_value();
  }).detach();
  return done.wait_for(kLastLinesPatience) == std::future_status::ready;
}

void LogEvent(Level level, absl::string_view event, const std::vector<LogField>& fields) {
  // Without StartLogging, as in tests, events go to spdlog's default logger.
  spdlog::logger* logger = EventLogger() ? EventLogger().get() : spdlog::default_logger_raw();
  if (logger == nullptr || !logger->should_log(level)) return;
  const std::string line = log_format == LogFormat::kJson
                               ? FormatJson(Timestamp(), LevelName(level), event, fields)
                               : FormatText(event, fields);
  logger->log(level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace chorale
