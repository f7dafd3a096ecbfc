// Every knob of the server. Defaults are those of the flags (flags.cc), which say what they mean.
#ifndef CHORALE_SERVER_SERVER_OPTIONS_H_
#define CHORALE_SERVER_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/data/limits.h"
#include "server/telemetry/logging.h"

namespace chorale {

// The Limits::max_response_bytes whose responses fit into such messages. The difference is for the
// fields beside the numbers (seed, timings, lengths): some hundred bytes.
constexpr int64_t MaxResponseBytes(int64_t max_message_bytes) {
  return max_message_bytes - (1 << 10);
}

// Of the network side: read by Server.
struct ServerOptions {
  std::string listen_address = "127.0.0.1:50051";
  std::string metrics_address = "127.0.0.1:9464";  // empty: no metrics endpoint
  std::string port_file;                           // empty: none is written
  int64_t max_message_bytes = 4 << 20;
  int max_concurrent_streams = 100;  // of one connection
  int64_t registration_memory_bytes = 1LL << 30;
  int blocking_threads = 4;
  int64_t max_blocking_queue = 256;
  int reply_threads = 2;
  absl::Duration stalled_write_timeout = absl::Seconds(60);
  absl::Duration drain_timeout = absl::Seconds(30);
  absl::Duration retry_delay = absl::Seconds(1);
  absl::Duration health_period = absl::Seconds(1);  // between looks at the backend; no flag
  bool reflection = true;
  Limits limits;
};

enum class BackendChoice { kAuto, kCpu, kCuda };  // kAuto: a GPU where there is one

// Of the engine: read by BuildEngine.
struct EngineSetup {
  std::vector<std::string> models;  // folders, at least one; the first is the default
  std::string data_dir;
  BackendChoice backend = BackendChoice::kAuto;
  int threads = 0;                 // of the CPU backend; 0: one per processor
  int64_t context_pool_bytes = 0;  // 0, here and below: what the backend takes unasked
  int64_t buffer_pool_bytes = 0;
  int64_t encode_pool_bytes = 0;  // this and what follows: of a GPU
  int64_t weights_bytes = 0;
  int64_t workspace_bytes = 0;
  int64_t host_context_pool_bytes = 1LL << 30;  // 0: none
  int64_t max_queued = 256;
  absl::Duration max_queue_wait = absl::Seconds(30);
  absl::Duration retry_delay = absl::Seconds(1);
  Limits limits;
};

// Of the process: read by main.
struct ProgramOptions {
  ServerOptions server;
  EngineSetup engine;
  LogFormat log_format = LogFormat::kText;
  spdlog::level::level_enum log_level = spdlog::level::info;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SERVER_OPTIONS_H_
