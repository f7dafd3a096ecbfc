#include "server/options/flag_definitions.h"

#include "absl/flags/flag.h"

ABSL_FLAG(
    std::string, listen_address, "127.0.0.1:50051",
    "Address and port for gRPC: HOST:PORT or unix:PATH. Port 0 selects a free port, which the log "
    "reports. The default accepts connections from this machine only. An address that other "
    "machines can reach, such as 0.0.0.0:50051, requires --tls_certificate or --insecure.");
ABSL_FLAG(std::string, tls_certificate, "",
          "PEM file with the server's certificate, followed by its intermediate certificates. The "
          "server reloads the file when it changes. TLS 1.2 or newer. Empty: no encryption.");
ABSL_FLAG(std::string, tls_key, "",
          "PEM file with the private key of --tls_certificate, without a passphrase. The server "
          "reloads the file when it changes.");
ABSL_FLAG(std::string, tls_client_ca, "",
          "PEM file with the certificate authorities whose client certificates the server accepts; "
          "--tenant_file maps these certificates to tenants. The server reloads the file when it "
          "changes. Empty: the server requests no client certificates.");
ABSL_FLAG(std::string, token_file, "",
          "File of bearer tokens, one per line: NAME SHA256 TENANT ROLE [EXPIRES]. `chorale token` "
          "generates a token and its line. The server reloads the file when it changes. Empty: no "
          "tokens.");
ABSL_FLAG(std::string, tenant_file, "",
          "YAML file of tenants: weights, quotas and client certificates. The server reloads the "
          "file when it changes. Empty: no quotas.");
ABSL_FLAG(bool, insecure, false,
          "Allow unencrypted connections on an address that other machines can reach. Use it only "
          "behind a proxy that terminates TLS, on a private network.");
ABSL_FLAG(std::string, metrics_address, "127.0.0.1:9464",
          "Address and port of the HTTP endpoint: /metrics for Prometheus, /healthz and /readyz "
          "for probes. Empty: no HTTP endpoint.");
ABSL_FLAG(std::string, port_file, "",
          "File to which the server writes its gRPC port once it admits calls. Empty: no file.");
ABSL_FLAG(std::string, models, "",
          "Model folders, or folders of model folders, separated by commas. The first model that "
          "can be served is the default model. Required.");
ABSL_FLAG(std::string, data_dir, "",
          "Data folder, which stores the registered contexts. The server creates it if it does not "
          "exist. Required.");
ABSL_FLAG(std::string, backend, "auto",
          "auto, cpu or cuda. cuda uses the first GPU in CUDA_VISIBLE_DEVICES. auto uses a GPU if "
          "there is one, and otherwise the CPU; the log then contains the reason.");
ABSL_FLAG(int64_t, threads, 0,
          "Threads of the CPU backend. 0: one per processor that the scheduling affinity and the "
          "cgroup's quota allow the process to use.");
ABSL_FLAG(int64_t, context_pool_mib, 0,
          "Size in MiB of the context pool, which holds the keys and values of resident contexts. "
          "On a GPU, the server allocates it at start; 0 means two thirds of the device memory "
          "that remains of --gpu_memory_fraction. On a CPU, the server allocates memory as it is "
          "used; 0 means 4096, or less if the process may use less than 8 GiB according to its "
          "cgroup, its resource limits and the machine's free memory. The log event machine "
          "reports the size and the limit that determined it.");
ABSL_FLAG(
    int64_t, buffer_pool_mib, 0,
    "Size in MiB of the buffer pool, which holds the paths of samples and densities in flight. It "
    "is allocated like the context pool. 0 means one third of the remaining device memory on a "
    "GPU, and on a CPU 1024, or less if the process may use less than 8 GiB.");
ABSL_FLAG(int64_t, weights_pool_mib, 0,
          "Size in MiB of the GPU memory for the weights of all models together. 0: a sixteenth of "
          "--gpu_memory_fraction, at most 512. A wide model with d_model 2048, d_ff 8192 and 12 "
          "layers has 1345 MiB of weights.");
ABSL_FLAG(std::string, cublaslt, "",
          "Path of libcublasLt 12.0 or newer, which wide models require on a GPU. A model is wide "
          "if its d_model exceeds 512, its d_ff exceeds 4096, or a part of it exceeds the device's "
          "shared memory. The server opens the library when it loads the first wide model. Without "
          "the library it skips wide models and serves the others. Empty: search the loader's "
          "path, then /usr/local/cuda/lib64.");
ABSL_FLAG(double, gpu_memory_fraction, 0.94,
          "Fraction of the GPU's free memory that the server allocates at start, for contexts, "
          "buffers, weights and workspace. More than 0, at most 1.");
ABSL_FLAG(
    int64_t, host_context_pool_mib, 1024,
    "Size in MiB of the pinned host memory for contexts that are evicted from a GPU, allocated at "
    "start. The server restores these contexts by a copy. 0: evicted contexts are encoded again. "
    "If the flag is not set, the size is smaller if the process may use less than 8 GiB.");
ABSL_FLAG(int64_t, context_files_mib, 0,
          "Disk space in MiB for encoded contexts, in the folder kv of --data_dir. After a restart "
          "or an eviction, the server reads the keys and values of a context instead of computing "
          "them again. The least recently used files are removed first. On a GPU this requires "
          "--host_context_pool_mib. 0: no files.");
ABSL_FLAG(int64_t, max_appended_percent, 25,
          "Rows that may be appended to a context, in percent of the rows before the first append, "
          "before the server encodes the context anew in the background. 0: after each append.");
ABSL_FLAG(std::string, warm_on_start, "",
          "Contexts to make resident before the server is ready, separated by commas: NAME or "
          "TENANT/NAME. The server pins them, so they are never evicted. * adds as many other "
          "contexts as fit, the most recently registered first, without pinning them. The server "
          "logs each context that it cannot make resident.");
ABSL_FLAG(int64_t, max_queued, 256,
          "Maximum number of calls that wait for admission (queue slots). The server rejects "
          "further calls, first those of clients with more than their share of the slots.");
ABSL_FLAG(absl::Duration, queue_wait, absl::Seconds(30),
          "Maximum wait for admission. The server then rejects the call.");
ABSL_FLAG(
    absl::Duration, retry_delay, absl::Seconds(1),
    "Retry delay that the server returns with a call that it rejects because a queue, a memory "
    "pool or the tenant's quota of concurrent calls is full.");
ABSL_FLAG(absl::Duration, lame_duck, absl::Seconds(5),
          "Time after SIGTERM during which the server reports that it is not ready but still "
          "accepts calls, so that load balancers stop sending calls. SIGINT ends this period; a "
          "repeated SIGTERM has no effect.");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(25),
          "Maximum time for calls in flight to finish, after SIGINT or the end of --lame_duck. The "
          "server then aborts the remaining calls: they return the values drawn so far and "
          "UNAVAILABLE. A second SIGINT aborts them immediately.");
ABSL_FLAG(absl::Duration, stalled_write_timeout, absl::Seconds(60),
          "Maximum time for a client to read one message, such as the whole response of Predict, "
          "or to send the next message. The server then cancels the call.");
ABSL_FLAG(absl::Duration, unread_timeout, absl::Seconds(60),
          "Maximum time for which a Sample call waits for a client that reads nothing. The server "
          "then ends the stream. The time is a few seconds if the client holds more than its share "
          "of --buffer_pool_mib and another client waits.");
ABSL_FLAG(int64_t, max_message_mib, 4, "Maximum size of a message in MiB, in each direction.");
ABSL_FLAG(int64_t, max_concurrent_streams, 100,
          "Maximum number of concurrent calls per connection.");
ABSL_FLAG(int64_t, max_connections, 4096,
          "Maximum number of open connections. The server closes further connections immediately. "
          "A connection needs two file descriptors; if the process may not open enough files, the "
          "server lowers this limit.");
ABSL_FLAG(int64_t, max_connections_per_peer, 1024,
          "Maximum number of open connections from an IPv4 address or an IPv6 /64 network.");
ABSL_FLAG(absl::Duration, max_connection_age, absl::ZeroDuration(),
          "Age, plus or minus 10 %, at which a connection accepts no more calls, so that its "
          "client reconnects and discovers added servers. Calls in flight finish. 0s: no limit.");
ABSL_FLAG(int64_t, registration_memory_mib, 1024,
          "Memory in MiB for the datasets of all registrations in progress. If the flag is not "
          "set, the value is smaller if the process may use less than 8 GiB of memory.");
ABSL_FLAG(
    int64_t, memory_limit_mib, 0,
    "Memory limit of the process in MiB. Above 90 % of the limit, the server accepts no new "
    "connections and closes the connections that send most; if memory use stays at that level for "
    "ten seconds, the server drains and ends with status 1. Pools and --registration_memory_mib "
    "may use up to 80 % of the limit. If the flag is not set, or exceeds the cgroup's limit or the "
    "machine's memory, the cgroup's limit applies. Without a cgroup's limit, the limit is the "
    "memory in use when the server began to serve, plus the later growth of its pools and 512 MiB; "
    "near this limit the server closes connections but does not end. 0: no limit.");
ABSL_FLAG(int64_t, max_context_rows, 65536, "Maximum number of rows of a context.");
ABSL_FLAG(int64_t, max_features, 1024, "Maximum number of feature columns of a table.");
ABSL_FLAG(int64_t, max_categories, 4096, "Maximum number of distinct categories of a column.");
ABSL_FLAG(int64_t, max_dataset_mib, 256, "Maximum size of a dataset in MiB.");
ABSL_FLAG(int64_t, max_paths, 16384, "Maximum number of paths (B) of a call.");
ABSL_FLAG(int64_t, max_query_rows, 16384, "Maximum number of query rows (T) of a call.");
ABSL_FLAG(int64_t, max_orders, 1024, "Maximum number of random orders (R) of a LogDensity call.");
ABSL_FLAG(int64_t, max_values, 4 << 20, "Maximum number of values (B * T * R) of a call.");
ABSL_FLAG(bool, reflection, true,
          "Serve gRPC reflection, with which generic clients list the methods. It has no effect if "
          "the server authenticates callers.");
ABSL_FLAG(std::string, log_format, "text",
          "Format of the log on standard error, with one line per event: text or json.");
ABSL_FLAG(std::string, log_level, "info",
          "Lowest level of the events in the log: debug, info, warning or error.");
ABSL_FLAG(
    absl::Duration, slow_call, absl::Seconds(10),
    "The server logs calls that take longer as warnings, with slow=true. 0s: no such warnings.");
ABSL_FLAG(
    std::string, trace_endpoint, "",
    "HOST:PORT of a collector that accepts OTLP traces over unencrypted gRPC. Empty: no traces.");
ABSL_FLAG(double, trace_sample_rate, 0.01,
          "Fraction of the calls without a traceparent that the server traces, 0 to 1. A call with "
          "a traceparent is traced if the caller's trace is sampled.");
ABSL_FLAG(std::string, config, "",
          "YAML file that maps flag names to values. An environment variable CHORALE_<FLAG IN "
          "UPPER CASE> overrides the file, and the command line overrides both. Empty: no file.");
ABSL_FLAG(bool, print_config, false,
          "Print the effective configuration in the format of --config, and exit. Values that no "
          "source sets are printed as comments.");
ABSL_FLAG(
    bool, check_config, false,
    "Check whether the server can start: open the models, the backend and the files of "
    "certificates, tokens and tenants, plan the memory, print all errors, and exit. Status 0: the "
    "server can start; 1: only memory is missing that other processes use at the moment; 2: all "
    "other errors. The check changes nothing and can run next to a running server.");
ABSL_FLAG(bool, check, false,
          "Check whether the server at --listen_address is ready, and exit. Status 0: it is ready; "
          "1: it is not, and the reason is printed.");
