// Shows the progress of a long call on standard error.
#ifndef CHORALE_CLIENT_CLI_PROGRESS_H_
#define CHORALE_CLIENT_CLI_PROGRESS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"

namespace chorale::client {

// Prints nothing in the first second. Then it updates a line on a terminal, or otherwise prints a
// line every ten seconds. Used by one thread.
class Progress {
 public:
  enum class Display { kNone, kLines, kTerminal };

  // `unit` describes the count, for example "rows uploaded"; `total` > 0. `clock` must outlive it.
  Progress(std::string unit, int64_t total, Display display, const Clock* clock = Clock::Real());
  // Clears the terminal's line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(int64_t done);

  // "120 of 300 rows uploaded (40 %), 60/s, 3s left".
  static std::string Line(const std::string& unit, int64_t done, int64_t total,
                          absl::Duration elapsed);

 private:
  const std::string unit_;
  const int64_t total_;
  const Display display_;
  const Clock* const clock_;
  const absl::Time start_;
  absl::Time next_print_;
  bool printed_ = false;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_PROGRESS_H_
