// Logs to standard error, one line per event, as text or as JSON. Values that came from a client
// are quoted and escaped, so they cannot break a line or forge one.
#ifndef CHORALE_SERVER_TELEMETRY_LOGGING_H_
#define CHORALE_SERVER_TELEMETRY_LOGGING_H_

#include <spdlog/common.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace chorale {

enum class LogFormat { kText, kJson };

struct LogField {
  std::string key;
  std::variant<bool, int64_t, uint64_t, double, std::string> value;
};

// Sets up logging for the process, including spdlog's default logger and gRPC's own log. A
// dedicated thread writes the lines, so a full pipe never blocks a caller: the oldest queued lines
// are dropped instead. Call once, before other threads start.
void StartLogging(LogFormat format, spdlog::level::level_enum level);

// From now on logs events of this level and above. Thread-safe.
void SetLogLevel(spdlog::level::level_enum level);

// gRPC logs a warning for each connection whose handshake fails. Only the first few warnings per
// second from a place in its sources are logged. Logs the number of the others
// ("grpc_lines_suppressed"). Call once a second. Thread-safe.
void LogSumsOfGrpc();

// The number of lines that were dropped because they were logged faster than they could be written.
// Thread-safe.
int64_t LogLinesDropped();

// Writes the queued lines and stops the thread. Nothing may log afterwards. False if that took more
// than a few seconds, because the reader of the log is stuck: the process must then end by _exit().
[[nodiscard]] bool StopLogging();

// Thread-safe; does not block.
void LogEvent(spdlog::level::level_enum level, absl::string_view event,
              const std::vector<LogField>& fields = {});

// A time in the format of the log.
std::string LogTime(absl::Time time);

// The line that LogEvent writes; for text without time and level.
std::string FormatText(absl::string_view event, const std::vector<LogField>& fields);
std::string FormatJson(absl::string_view time, absl::string_view level, absl::string_view event,
                       const std::vector<LogField>& fields);

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_LOGGING_H_
