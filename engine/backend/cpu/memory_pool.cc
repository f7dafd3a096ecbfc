#include "engine/backend/cpu/memory_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/require.h"

namespace chorale::cpu {

absl::StatusOr<std::unique_ptr<MemoryPool>> MemoryPool::Create(absl::string_view name,
                                                               int64_t bytes) {
  if (bytes <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", bytes, " bytes; must be positive"));
  }
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    const int error = errno;
    return absl::ResourceExhaustedError(
        absl::StrCat(name, ": cannot reserve ", bytes,
                     " bytes of address space: ", std::generic_category().message(error)));
  }
  // Decode reads tens of megabytes per step. Huge pages of 2 MB avoid TLB misses; without them the
  // pool uses small pages.
  madvise(base, bytes, MADV_HUGEPAGE);
  return std::unique_ptr<MemoryPool>(new MemoryPool(static_cast<char*>(base), bytes));
}

MemoryPool::~MemoryPool() { munmap(base_, bytes_); }

float* MemoryPool::At(const PoolRange& range) const {
  Require(range.offset >= 0 && range.bytes >= 0 && range.offset <= bytes_ - range.bytes,
          "a pool range lies in its pool");
  Require(range.offset % kAlignment == 0, "a pool range is aligned to 64 bytes");
  return reinterpret_cast<float*>(base_ + range.offset);
}

void MemoryPool::Clear(const PoolRange& range) {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  char* const begin = reinterpret_cast<char*>(At(range));
  char* const end = begin + range.bytes;
  char* const first_page = base_ + (range.offset + page - 1) / page * page;
  char* const last_page = base_ + (range.offset + range.bytes) / page * page;
  // Fresh pages read as zero. madvise fails for locked memory.
  if (first_page >= last_page || madvise(first_page, last_page - first_page, MADV_DONTNEED) != 0) {
    std::memset(begin, 0, range.bytes);
    return;
  }
  std::memset(begin, 0, first_page - begin);
  std::memset(last_page, 0, end - last_page);
}

}  // namespace chorale::cpu
