#include "engine/backend/cuda/device/memory_budget.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace chorale::cuda {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kMaxSmallShare = 512 * kMiB;  // for each of encoding, weights, workspace

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

absl::Status TooMuch(const MemoryBudget& asked, int64_t free_bytes, int64_t fraction_bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the GPU has ", free_bytes / kMiB, " MiB free; requested are ",
      asked.context_pool_bytes / kMiB, " MiB for contexts, ", asked.buffer_pool_bytes / kMiB,
      " for buffers, ", asked.encode_pool_bytes / kMiB, " for encoding, ",
      asked.weights_bytes / kMiB, " for weights and ", asked.workspace_bytes / kMiB,
      " for workspace, where 0 stands for a share of the remaining memory of ",
      fraction_bytes / kMiB, " MiB"));
}

}  // namespace

absl::StatusOr<MemoryBudget> ShareOutMemory(const MemoryBudget& asked, int64_t free_bytes) {
  if (Smallest(asked) < 0) {
    return absl::InvalidArgumentError("no part of the GPU memory may be negative");
  }
  if (asked.host_context_pool_bytes < 0) {
    return absl::InvalidArgumentError("the host memory for contexts must not be negative");
  }
  if (!(asked.memory_fraction > 0 && asked.memory_fraction <= 1)) {
    return absl::InvalidArgumentError(
        "the fraction of the GPU memory must be more than 0 and at most 1");
  }
  MemoryBudget budget = asked;
  const auto fraction_bytes =
      static_cast<int64_t>(asked.memory_fraction * static_cast<double>(free_bytes));
  for (int64_t* part :
       {&budget.encode_pool_bytes, &budget.weights_bytes, &budget.workspace_bytes}) {
    if (*part == 0) *part = std::min(kMaxSmallShare, WholeMiB(fraction_bytes / 16));
  }
  const int64_t left = fraction_bytes - Sum(budget);
  if (budget.context_pool_bytes == 0 && budget.buffer_pool_bytes == 0) {
    budget.context_pool_bytes = WholeMiB(left / 3 * 2);
    budget.buffer_pool_bytes = WholeMiB(left / 3);
  } else if (budget.context_pool_bytes == 0) {
    budget.context_pool_bytes = WholeMiB(left);
  } else if (budget.buffer_pool_bytes == 0) {
    budget.buffer_pool_bytes = WholeMiB(left);
  }
  if (Smallest(budget) <= 0 || Sum(budget) > free_bytes) {
    return TooMuch(asked, free_bytes, fraction_bytes);
  }
  return budget;
}

}  // namespace chorale::cuda
