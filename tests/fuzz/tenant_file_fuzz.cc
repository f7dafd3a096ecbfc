// Any text given as the file of tenants is either refused, with a reason that names the file, or
// gives a table that can be asked, with weights and quotas within their limits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "server/security/tenant_file.h"

namespace {

void Check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<chorale::TenantTable> table = chorale::TenantTable::Parse(text, "file");
  if (!table.ok()) {
    Check(absl::IsInvalidArgument(table.status()));
    Check(absl::StartsWith(table.status().message(), "file: "));
    return 0;
  }
  for (const char* const tenant : {"acme", "another"}) {
    const chorale::TenantPolicy& policy = table->PolicyOf(tenant);
    Check(policy.weight >= 1 && policy.weight <= 1000);
    Check(policy.quotas.contexts >= 0 && policy.quotas.dataset_bytes >= 0 &&
          policy.quotas.resident_bytes >= 0 && policy.quotas.concurrent_calls >= 0 &&
          policy.quotas.values_per_second >= 0);
  }
  Check(!table->Find({}).has_value());  // an empty certificate is nobody's
  return 0;
}
