// Logs to standard error, one line per event: text for people, or JSON for machines. What a client
// sent never breaks a line: text values are quoted and escaped when they need it.
#ifndef CHORALE_SERVER_TELEMETRY_LOGGING_H_
#define CHORALE_SERVER_TELEMETRY_LOGGING_H_

#include <spdlog/common.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace chorale {

enum class LogFormat { kText, kJson };

struct LogField {
  std::string key;
  std::variant<int64_t, uint64_t, double, std::string> value;
};

// Sets up the process's logging, also for what others write through spdlog's default logger and for
// what gRPC itself logs. Lines are written by a thread of their own, so that a full pipe never
// blocks a caller: the oldest waiting lines are dropped instead. Call once, before other threads.
void StartLogging(LogFormat format, spdlog::level::level_enum level);

// Writes what waits and stops the thread. Nothing may log afterwards.
void StopLogging();

// Thread-safe; does not block.
void LogEvent(spdlog::level::level_enum level, absl::string_view event,
              const std::vector<LogField>& fields = {});

// The lines that LogEvent writes, without time and level (text) or without "time" (JSON).
std::string FormatText(absl::string_view event, const std::vector<LogField>& fields);
std::string FormatJson(absl::string_view time, absl::string_view level, absl::string_view event,
                       const std::vector<LogField>& fields);

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_LOGGING_H_
