#include "engine/store/failpoint.h"

#include <atomic>

namespace chorale {
namespace {

std::atomic<StoreFailpoint> current_failpoint = nullptr;

constexpr const char* kSteps[] = {
    "dataset_create",    "dataset_write",        "dataset_write_half", "dataset_fsync",
    "dataset_rename",    "dataset_folder_fsync", "dataset_durable",    "put_begin",
    "put_insert",        "put_commit",           "put_committed",      "delete_begin",
    "delete_commit",     "delete_committed",     "dataset_unlink",     "dataset_unlink_fsync",
    "delete_done",       "replace_begin",        "replace_insert",     "replace_commit",
    "replace_committed", "replace_done",
};

}  // namespace

void SetStoreFailpoint(StoreFailpoint failpoint) { current_failpoint = failpoint; }

int AtFailpoint(const char* step) {
  const StoreFailpoint failpoint = current_failpoint;
  return failpoint == nullptr ? 0 : failpoint(step);
}

absl::Span<const char* const> StoreFailpointSteps() { return kSteps; }

}  // namespace chorale
