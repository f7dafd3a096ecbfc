#include "client/cli/progress.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"

namespace chorale::client {
namespace {

constexpr absl::Duration kQuietStart = absl::Seconds(1);
constexpr absl::Duration kTerminalPeriod = absl::Milliseconds(200);
constexpr absl::Duration kLinePeriod = absl::Seconds(10);
constexpr char kClearLine[] = "\r\x1b[K";

}  // namespace

Progress::Progress(std::string unit, int64_t total, Display display, const Clock* clock)
    : unit_(std::move(unit)),
      total_(total),
      display_(display),
      clock_(clock),
      start_(clock->Now()),
      next_print_(start_ + kQuietStart) {}

Progress::~Progress() {
  if (printed_ && display_ == Display::kTerminal) std::fputs(kClearLine, stderr);
}

void Progress::Update(int64_t done) {
  if (display_ == Display::kNone) return;
  const absl::Time now = clock_->Now();
  if (now < next_print_) return;
  const bool terminal = display_ == Display::kTerminal;
  next_print_ = now + (terminal ? kTerminalPeriod : kLinePeriod);
  const std::string line = Line(unit_, done, total_, now - start_);
  std::fprintf(stderr, terminal ? "\r\x1b[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
  printed_ = true;
}

std::string Progress::Line(const std::string& unit, int64_t done, int64_t total,
                           absl::Duration elapsed) {
  const double seconds = std::max(absl::ToDoubleSeconds(elapsed), 1e-9);
  const double rate = static_cast<double>(done) / seconds;
  std::string line = absl::StrFormat("%d of %d %s (%d %%), %.3g/s", done, total, unit,
                                     done * 100 / std::max<int64_t>(total, 1), rate);
  if (done > 0 && done < total) {
    const double left = static_cast<double>(total - done) / rate;
    absl::StrAppendFormat(&line, ", %.0fs left", left);
  }
  return line;
}

}  // namespace chorale::client
