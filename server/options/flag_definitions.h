// The flags of chorale-server, for the sources of this folder.
#ifndef CHORALE_SERVER_OPTIONS_FLAG_DEFINITIONS_H_
#define CHORALE_SERVER_OPTIONS_FLAG_DEFINITIONS_H_

#include <cstdint>
#include <string>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/declare.h"
#include "absl/time/time.h"

ABSL_DECLARE_FLAG(std::string, listen_address);
ABSL_DECLARE_FLAG(std::string, tls_certificate);
ABSL_DECLARE_FLAG(std::string, tls_key);
ABSL_DECLARE_FLAG(std::string, tls_client_ca);
ABSL_DECLARE_FLAG(std::string, token_file);
ABSL_DECLARE_FLAG(std::string, tenant_file);
ABSL_DECLARE_FLAG(bool, insecure);
ABSL_DECLARE_FLAG(std::string, metrics_address);
ABSL_DECLARE_FLAG(std::string, port_file);
ABSL_DECLARE_FLAG(std::string, models);
ABSL_DECLARE_FLAG(std::string, data_dir);
ABSL_DECLARE_FLAG(std::string, backend);
ABSL_DECLARE_FLAG(int64_t, threads);
ABSL_DECLARE_FLAG(int64_t, context_pool_mib);
ABSL_DECLARE_FLAG(int64_t, buffer_pool_mib);
ABSL_DECLARE_FLAG(int64_t, weights_pool_mib);
ABSL_DECLARE_FLAG(std::string, cublaslt);
ABSL_DECLARE_FLAG(double, gpu_memory_fraction);
ABSL_DECLARE_FLAG(int64_t, host_context_pool_mib);
ABSL_DECLARE_FLAG(int64_t, context_files_mib);
ABSL_DECLARE_FLAG(int64_t, max_appended_percent);
ABSL_DECLARE_FLAG(std::string, warm_on_start);
ABSL_DECLARE_FLAG(int64_t, max_queued);
ABSL_DECLARE_FLAG(absl::Duration, queue_wait);
ABSL_DECLARE_FLAG(absl::Duration, retry_delay);
ABSL_DECLARE_FLAG(absl::Duration, lame_duck);
ABSL_DECLARE_FLAG(absl::Duration, drain_timeout);
ABSL_DECLARE_FLAG(absl::Duration, stalled_write_timeout);
ABSL_DECLARE_FLAG(absl::Duration, unread_timeout);
ABSL_DECLARE_FLAG(int64_t, max_message_mib);
ABSL_DECLARE_FLAG(int64_t, max_concurrent_streams);
ABSL_DECLARE_FLAG(int64_t, max_connections);
ABSL_DECLARE_FLAG(int64_t, max_connections_per_peer);
ABSL_DECLARE_FLAG(absl::Duration, max_connection_age);
ABSL_DECLARE_FLAG(int64_t, registration_memory_mib);
ABSL_DECLARE_FLAG(int64_t, memory_limit_mib);
ABSL_DECLARE_FLAG(int64_t, max_context_rows);
ABSL_DECLARE_FLAG(int64_t, max_features);
ABSL_DECLARE_FLAG(int64_t, max_categories);
ABSL_DECLARE_FLAG(int64_t, max_dataset_mib);
ABSL_DECLARE_FLAG(int64_t, max_paths);
ABSL_DECLARE_FLAG(int64_t, max_query_rows);
ABSL_DECLARE_FLAG(int64_t, max_orders);
ABSL_DECLARE_FLAG(int64_t, max_values);
ABSL_DECLARE_FLAG(bool, reflection);
ABSL_DECLARE_FLAG(std::string, log_format);
ABSL_DECLARE_FLAG(std::string, log_level);
ABSL_DECLARE_FLAG(absl::Duration, slow_call);
ABSL_DECLARE_FLAG(std::string, trace_endpoint);
ABSL_DECLARE_FLAG(double, trace_sample_rate);
ABSL_DECLARE_FLAG(std::string, config);
ABSL_DECLARE_FLAG(bool, print_config);
ABSL_DECLARE_FLAG(bool, check_config);
ABSL_DECLARE_FLAG(bool, check);

namespace chorale {

// The flag as the source of its value: "--threads".
std::string CommandLineOrigin(const absl::CommandLineFlag& flag);

}  // namespace chorale

#endif  // CHORALE_SERVER_OPTIONS_FLAG_DEFINITIONS_H_
