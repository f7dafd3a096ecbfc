// What is logged, for tests.
#ifndef CHORALE_TESTS_SERVER_LOG_RECORDER_H_
#define CHORALE_TESTS_SERVER_LOG_RECORDER_H_

#include <spdlog/sinks/base_sink.h>

#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace chorale {

// Keeps "level text" of every line. Thread-safe.
class LogRecorder : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<std::string> lines() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& msg) override {
    const auto level = spdlog::level::to_string_view(msg.level);
    lines_.push_back(absl::StrCat(absl::string_view(level.data(), level.size()), " ",
                                  absl::string_view(msg.payload.data(), msg.payload.size())));
  }
  void flush_() override {}

 private:
  std::vector<std::string> lines_;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_SERVER_LOG_RECORDER_H_
