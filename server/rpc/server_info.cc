#include "server/rpc/server_info.h"

#include "server/telemetry/build_info.h"

namespace chorale {
namespace {

void EncodeLimits(const ServiceEnvironment& environment, v1::ServerLimits* message) {
  const Limits& limits = environment.limits->Get();
  message->set_max_message_bytes(environment.max_message_bytes);
  message->set_max_concurrent_calls(environment.max_concurrent_calls);
  message->set_max_context_rows(limits.max_context_rows);
  message->set_max_features(limits.max_features);
  message->set_max_categories(limits.max_categories);
  message->set_max_name_bytes(limits.max_name_bytes);
  message->set_max_dataset_bytes(limits.max_dataset_bytes);
  message->set_max_query_rows(limits.max_query_rows);
  message->set_max_paths(limits.max_paths);
  message->set_max_random_orders(limits.max_orders);
  message->set_max_values(limits.max_values);
  message->set_max_quantiles(limits.max_quantiles);
}

void EncodeQuotas(const TenantQuotas& quotas, v1::TenantQuotas* message) {
  message->set_max_contexts(quotas.contexts);
  message->set_max_dataset_bytes(quotas.dataset_bytes);
  message->set_max_resident_bytes(quotas.resident_bytes);
  message->set_max_concurrent_calls(quotas.concurrent_calls);
  message->set_max_values_per_second(quotas.values_per_second);
}

}  // namespace

v1::ServerInfo DescribeServer(const ServiceEnvironment& environment, const TenantQuotas& quotas) {
  v1::ServerInfo info;
  info.set_version(BuildVersion());
  info.set_commit(BuildCommit());
  const BackendInfo backend = environment.engine->backend_info();
  info.set_backend(backend.backend);
  info.set_device(backend.device);
  EncodeLimits(environment, info.mutable_limits());
  EncodeQuotas(quotas, info.mutable_quotas());
  for (const v1::ServerInfo::Feature feature : environment.features) info.add_features(feature);
  if (environment.engine->memory_sets()) info.add_features(v1::ServerInfo::FEATURE_MEMORY_SETS);
  if (environment.engine->appends()) info.add_features(v1::ServerInfo::FEATURE_APPEND_ROWS);
  return info;
}

}  // namespace chorale
