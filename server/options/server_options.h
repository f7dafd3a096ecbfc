// All options of the server. Most have a flag with the same default; flags.cc documents them.
#ifndef CHORALE_SERVER_OPTIONS_SERVER_OPTIONS_H_
#define CHORALE_SERVER_OPTIONS_SERVER_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "engine/api/stats.h"
#include "engine/data/limits.h"
#include "server/security/security_options.h"
#include "server/telemetry/logging.h"

namespace chorale {

// The Limits::max_response_bytes for a message size. The difference is for the fields other than
// the numbers: warnings (kMaxWarningBytes), digests, seed, timings, lengths.
constexpr int64_t MaxResponseBytes(int64_t max_message_bytes) {
  return max_message_bytes - (16 << 10);
}

// The address of a server.
struct ListenTarget {
  std::string address;  // host:port
  bool tls = false;
};

// The sizes of memory after a change of the limit that the server found at start.
struct MemoryShares {
  int64_t limit_bytes = 0;        // of the process's resident memory; 0: none
  bool own_memory_limit = false;  // if true: OwnMemoryLimit applies
  PoolSizes pools;
  int64_t registration_memory_bytes = 0;
  std::string warning;  // warning about too little memory; empty: none
};

// Options of Server: network and limits.
struct ServerOptions {
  std::string listen_address = "127.0.0.1:50051";
  std::string metrics_address = "127.0.0.1:9464";  // empty: no metrics endpoint
  std::string port_file;                           // empty: no file is written
  int64_t max_message_bytes = 4 << 20;
  int max_concurrent_streams = 100;  // per connection
  int64_t max_connections = 4096;
  int64_t max_connections_per_peer = 1024;
  int64_t memory_limit_bytes = 0;   // of the process's resident memory; 0: none
  bool memory_limit_found = false;  // from FitToMachine: pools that flags have set may exceed it
  bool own_memory_limit = false;    // OwnMemoryLimit applies if there is no other limit
  // Called once a second, on one thread: returns new sizes if the limit has changed since the last
  // call. `on_host`: whether contexts and buffers are in host memory; `weight_bytes`: the weights
  // of the served models. Null: the limit never changes.
  std::function<std::optional<MemoryShares>(bool on_host, int64_t weight_bytes)> find_memory_shares;
  int64_t registration_memory_bytes = 1LL << 30;
  absl::Duration stalled_write_timeout = absl::Seconds(60);
  absl::Duration lame_duck = absl::Seconds(5);
  absl::Duration drain_timeout = absl::Seconds(25);
  absl::Duration max_connection_age = absl::ZeroDuration();  // 0: none
  absl::Duration retry_delay = absl::Seconds(1);
  bool reflection = true;
  SecurityOptions security;
  std::string trace_endpoint;  // host:port of a collector, for OTLP over gRPC; empty: no traces
  double trace_sample_rate = 0.01;               // of the traces that begin here
  absl::Duration slow_call = absl::Seconds(10);  // a longer call is logged as a warning; 0: none
  Limits limits;
  // These have no flag; tests set them.
  int blocking_threads = 4;                         // for calls that block on the disk
  int64_t max_blocking_queue = 256;                 // calls that may wait for a blocking thread
  int64_t reply_memory_bytes = 256LL << 20;         // of unread responses
  absl::Duration health_period = absl::Seconds(1);  // between two health checks of the backend
  // Clients may send a ping at this interval, with or without calls; clients in Go ping every 10 s
  // at most, and some pings arrive earlier because of varying latency.
  absl::Duration min_ping_interval = absl::Seconds(5);
  const Clock* clock = Clock::Real();  // not owned
};

enum class BackendChoice { kAuto, kCpu, kCuda };  // kAuto: a GPU if there is one

// Options of BuildEngine.
struct EngineSetup {
  std::vector<std::string> models;  // folders, at least one; the first is the default
  std::string data_dir;
  BackendChoice backend = BackendChoice::kAuto;
  int threads = 0;                                // of the CPU backend; 0: one per processor
  int summary_threads = 1;                        // see EngineOptions::summary_threads
  int64_t context_pool_bytes = 0;                 // 0: the backend's default
  int64_t buffer_pool_bytes = 0;                  // 0: the backend's default
  int64_t cpu_context_pool_bytes = 4LL << 30;     // the default of the CPU backend
  int64_t cpu_buffer_pool_bytes = 1LL << 30;      // likewise
  int64_t weights_pool_bytes = 0;                 // GPU only; 0: the backend's default
  double gpu_memory_fraction = 0.94;              // of the GPU's free memory
  int64_t host_context_pool_bytes = 1LL << 30;    // GPU only; 0: none
  std::string cublaslt;                           // GPU only; empty: search the loader's path
  int64_t context_file_bytes = 0;                 // of encoded contexts on disk; 0: none
  int64_t max_appended_percent = 25;              // see EngineOptions::max_appended_share
  std::vector<std::string> warm_on_start;         // see WarmOnStart
  int64_t registered_tables_bytes = 256LL << 20;  // see EngineOptions::max_registered_bytes
  int64_t max_queued = 256;
  absl::Duration max_queue_wait = absl::Seconds(30);
  absl::Duration max_unread = absl::Seconds(60);
  absl::Duration retry_delay = absl::Seconds(1);
  Limits limits;
};

// Options of the process.
struct ProgramOptions {
  ServerOptions server;
  EngineSetup engine;
  LogFormat log_format = LogFormat::kText;
  spdlog::level::level_enum log_level = spdlog::level::info;
  std::set<std::string, std::less<>>
      given;  // flags that the command line or another source has set
};

}  // namespace chorale

#endif  // CHORALE_SERVER_OPTIONS_SERVER_OPTIONS_H_
