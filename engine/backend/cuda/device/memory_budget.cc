#include "engine/backend/cuda/device/memory_budget.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace chorale::cuda {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kMostSmall = 512 * kMiB;  // of a part that is not a pool of the engine's, unasked

int64_t WholeMiB(int64_t bytes) { return bytes / kMiB * kMiB; }

std::array<int64_t, 5> Parts(const MemoryBudget& budget) {
  return {budget.context_pool_bytes, budget.buffer_pool_bytes, budget.encode_pool_bytes,
          budget.weights_bytes, budget.workspace_bytes};
}

int64_t Sum(const MemoryBudget& budget) {
  int64_t sum = 0;
  for (const int64_t part : Parts(budget)) sum += part;
  return sum;
}

int64_t Smallest(const MemoryBudget& budget) {
  const std::array<int64_t, 5> parts = Parts(budget);
  return *std::min_element(parts.begin(), parts.end());
}

absl::Status TooMuch(const MemoryBudget& asked, int64_t free_bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the GPU has ", free_bytes / kMiB, " MiB free; asked for are ",
      asked.context_pool_bytes / kMiB, " MiB for contexts, ", asked.buffer_pool_bytes / kMiB,
      " for buffers, ", asked.encode_pool_bytes / kMiB, " for encoding, ",
      asked.weights_bytes / kMiB, " for weights and ", asked.workspace_bytes / kMiB,
      " of workspace, where 0 is a share of what is left"));
}

}  // namespace

absl::StatusOr<MemoryBudget> ShareOutMemory(const MemoryBudget& asked, int64_t free_bytes) {
  if (Smallest(asked) < 0) {
    return absl::InvalidArgumentError("no part of the GPU's memory can be negative");
  }
  if (asked.host_context_pool_bytes < 0) {
    return absl::InvalidArgumentError("the host's memory for contexts cannot be negative");
  }
  MemoryBudget budget = asked;
  for (int64_t* part :
       {&budget.encode_pool_bytes, &budget.weights_bytes, &budget.workspace_bytes}) {
    if (*part == 0) *part = std::min(kMostSmall, WholeMiB(free_bytes / 16));
  }
  const int64_t left = free_bytes - free_bytes / 16 - Sum(budget);
  if (budget.context_pool_bytes == 0 && budget.buffer_pool_bytes == 0) {
    budget.context_pool_bytes = WholeMiB(left / 3 * 2);
    budget.buffer_pool_bytes = WholeMiB(left / 3);
  } else if (budget.context_pool_bytes == 0) {
    budget.context_pool_bytes = WholeMiB(left);
  } else if (budget.buffer_pool_bytes == 0) {
    budget.buffer_pool_bytes = WholeMiB(left);
  }
  if (Smallest(budget) <= 0 || Sum(budget) > free_bytes) return TooMuch(asked, free_bytes);
  return budget;
}

}  // namespace chorale::cuda
