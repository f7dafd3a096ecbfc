#include "tests/kernels/cuda/emulator/emulator.h"

#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define CHORALE_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHORALE_ADDRESS_SANITIZER
#endif
#endif
#ifdef CHORALE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace chorale::kernels::cuda::emulator {
namespace {

constexpr int kWarpThreads = 32;
constexpr size_t kStackBytes = 256 << 10;

// An asynchronous copy that has not arrived.
struct PendingCopy {
  void* to;
  const void* from;
  std::vector<char> bytes;  // of the source, when the copy was issued
};

// A barrier: threads pass when all of them have arrived.
struct Barrier {
  int members = 0;
  int arrived = 0;
  int64_t passed = 0;
};

// An mbarrier in shared memory. A phase completes when all members have arrived and all expected
// bytes are there; bytes arrive when the first thread waits for them.
struct Mbarrier {
  uint16_t members;
  uint16_t missing;
  uint32_t phase;
};
static_assert(sizeof(Mbarrier) == 8);

struct Warp {
  Barrier barrier;
  // Double-buffered: a lane may be one exchange ahead of a lane that still reads.
  alignas(16) char slots[2][kWarpThreads][kExchangeBytes];
};

// A fiber starts in a context of its own; later switches are jumps, which need no system call.
struct Thread {
  ucontext_t context;
  jmp_buf resume;
  bool started = false;
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  bool done = false;
  const Barrier* waits_for = nullptr;
  int64_t until_passed = 0;
  const Mbarrier* waits_for_phase = nullptr;
  uint32_t parity = 0;
  int64_t exchanges = 0;
  std::vector<std::vector<PendingCopy>> groups;  // committed
  std::vector<PendingCopy> copies;               // not yet committed
};

// Bulk copies of an mbarrier's current phase.
struct Bulk {
  int expected_bytes = 0;
  int bytes = 0;  // of the copies
  std::vector<PendingCopy> copies;
};

// The running block. Stacks are reused by the next one.
struct Block {
  jmp_buf scheduler;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  Barrier barrier;
  bool any = false;  // of WaitForAny
  std::map<int, Barrier> named;
  std::map<const Mbarrier*, Bulk> bulk;
  std::vector<float> shared;
  const std::function<void()>* body = nullptr;
  int running = 0;
};

Order chosen_order = Order::kFirstToLast;
Block block;
std::optional<Recording> recording;
std::vector<std::function<void()>> enqueued;  // enqueued on the stream

Thread& Running() { return block.threads[block.running]; }
Warp& RunningWarp() { return block.warps[block.running / kWarpThreads]; }

void Leave() {
  if (_setjmp(Running().resume) == 0) _longjmp(block.scheduler, 1);
}

void Enter() {
  (*block.body)();
  Running().done = true;
  _longjmp(block.scheduler, 1);
}

void Wait(Barrier& barrier) {
  const int64_t target = barrier.passed + 1;
  if (++barrier.arrived == barrier.members) {
    barrier.arrived = 0;
    ++barrier.passed;
    return;
  }
  Running().waits_for = &barrier;
  Running().until_passed = target;
  Leave();
}

// Whether all members have arrived, and copies of all expected bytes were issued.
bool IsComplete(const Mbarrier& barrier) {
  const Bulk& bulk = block.bulk[&barrier];
  return barrier.missing == 0 && bulk.bytes == bulk.expected_bytes;
}

bool IsOver(const Mbarrier& barrier, uint32_t parity) {
  return barrier.phase % 2 != parity || IsComplete(barrier);
}

bool CanRun(const Thread& thread) {
  if (thread.done) return false;
  if (thread.waits_for_phase != nullptr) return IsOver(*thread.waits_for_phase, thread.parity);
  return thread.waits_for == nullptr || thread.waits_for->passed >= thread.until_passed;
}

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "emulated block (%d, %d, %d): %s\n", blockIdx.x, blockIdx.y, blockIdx.z,
               what);
  std::abort();
}

PendingCopy IssueCopy(void* to, const void* from, int bytes) {
  const char* const source = static_cast<const char*>(from);
  return {to, from, {source, source + bytes}};
}

void Deliver(const std::vector<PendingCopy>& copies) {
  for (const auto& [to, from, bytes] : copies) {
    if (std::memcmp(from, bytes.data(), bytes.size()) != 0) Fail("a source changed under a copy");
    std::memcpy(to, bytes.data(), bytes.size());
  }
}

void EndPhase(Mbarrier& barrier) {
  Bulk& bulk = block.bulk[&barrier];
  Deliver(bulk.copies);
  bulk = {};
  ++barrier.phase;
  barrier.missing = barrier.members;
}

void Resume(int index) {
  block.running = index;
  block.threads[index].waits_for = nullptr;
  block.threads[index].waits_for_phase = nullptr;
  threadIdx = {index, 0, 0};
  if (_setjmp(block.scheduler) != 0) return;
  Thread& thread = block.threads[index];
  if (thread.started) _longjmp(thread.resume, 1);
  thread.started = true;
  setcontext(&thread.context);
}

// A fiber ends without returning from its functions; the address sanitizer would mistake the next
// fiber's variables for theirs.
void ForgetFrames(Thread& thread) {
#ifdef CHORALE_ADDRESS_SANITIZER
  ASAN_UNPOISON_MEMORY_REGION(thread.stack.get(), kStackBytes);
#endif
}

void Begin(int threads, int shared_bytes) {
  block.threads.resize(threads);
  block.warps = std::vector<Warp>((threads + kWarpThreads - 1) / kWarpThreads);
  for (size_t w = 0; w < block.warps.size(); ++w) {
    block.warps[w].barrier.members =
        std::min<int>(kWarpThreads, threads - static_cast<int>(w) * kWarpThreads);
  }
  block.barrier = {.members = threads};
  block.named.clear();
  block.bulk.clear();
  block.shared.assign((shared_bytes + sizeof(float) - 1) / sizeof(float),
                      std::numeric_limits<float>::quiet_NaN());
  for (Thread& thread : block.threads) {
    thread.done = false;
    thread.started = false;
    thread.waits_for = nullptr;
    thread.waits_for_phase = nullptr;
    thread.exchanges = 0;
    thread.groups.clear();
    thread.copies.clear();
    ForgetFrames(thread);
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = kStackBytes;
    thread.context.uc_link = nullptr;
    makecontext(&thread.context, &Enter, 0);
  }
}

// Runs a warp until its threads wait for other warps. Returns how many threads ended; no thread ran
// if `progress` is unchanged.
int RunWarp(int first, int threads, bool* progress) {
  int ended = 0;
  for (bool running = true; running;) {
    running = false;
    for (int i = 0; i < threads; ++i) {
      const int index = first + (chosen_order == Order::kFirstToLast ? i : threads - 1 - i);
      if (!CanRun(block.threads[index])) continue;
      running = true;
      *progress = true;
      Resume(index);
      if (block.threads[index].done) ++ended;
    }
  }
  return ended;
}

// One warp after the other, each up to a barrier of the block: a race between warps gives wrong
// results in one of the two orders.
void RunBlock(int threads, int shared_bytes) {
  Begin(threads, shared_bytes);
  const int warps = static_cast<int>(block.warps.size());
  for (int left = threads; left > 0;) {
    bool progress = false;
    for (int i = 0; i < warps; ++i) {
      const int warp = chosen_order == Order::kFirstToLast ? i : warps - 1 - i;
      left -= RunWarp(warp * kWarpThreads, block.warps[warp].barrier.members, &progress);
    }
    if (!progress) {
      std::fprintf(stderr, "%d of %d threads: ", left, threads);
      Fail("threads wait forever");
    }
  }
}

void RunGrid(Index3 grid, int threads, int shared_bytes, const std::function<void()>& thread) {
  block.body = &thread;
  gridDim = grid;
  for (int z = 0; z < grid.z; ++z) {
    for (int y = 0; y < grid.y; ++y) {
      for (int x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        RunBlock(threads, shared_bytes);
      }
    }
  }
}

}  // namespace

void SetOrder(Order order) { chosen_order = order; }

void Do(std::function<void()> action) { enqueued.push_back(std::move(action)); }

void DoAll() {
  for (const std::function<void()>& action : std::exchange(enqueued, {})) action();
}

void Run(Index3 grid, int threads, int shared_bytes, const std::function<void()>& thread) {
  Launch([=] { RunGrid(grid, threads, shared_bytes, thread); });
}

void Launch(const std::function<void()>& action) {
  if (recording.has_value()) {
    recording->push_back([=] { Do(action); });
  } else {
    Do(action);
  }
}

void BeginRecording() { recording.emplace(); }

Recording EndRecording() { return *std::exchange(recording, std::nullopt); }

char* DynamicSmem() { return reinterpret_cast<char*>(block.shared.data()); }

void WaitForBlock() { Wait(block.barrier); }

bool WaitForAny(bool of_thread) {
  if (of_thread) block.any = true;
  WaitForBlock();
  const bool any = block.any;
  WaitForBlock();  // all threads have read it
  block.any = false;
  WaitForBlock();
  return any;
}

void NamedBarrierSync(int barrier, int threads) {
  Barrier& named = block.named[barrier];
  if (named.arrived == 0) named.members = threads;
  if (named.members != threads) Fail("threads wait at one barrier for different numbers of others");
  Wait(named);
}

void MbarrierInit(void* barrier, int members) {
  const auto count = static_cast<uint16_t>(members);
  *static_cast<Mbarrier*>(barrier) = {.members = count, .missing = count, .phase = 0};
}

void MbarrierArrive(void* barrier) {
  auto& to = *static_cast<Mbarrier*>(barrier);
  if (to.missing == 0) Fail("more arrive than a phase has members");
  --to.missing;
  if (to.missing == 0 && block.bulk[&to].expected_bytes == 0) EndPhase(to);
}

void CpAsyncBulk(void* to, const void* from, int bytes, void* barrier) {
  Bulk& bulk = block.bulk[static_cast<Mbarrier*>(barrier)];
  bulk.copies.push_back(IssueCopy(to, from, bytes));
  bulk.bytes += bytes;
  if (bulk.bytes > bulk.expected_bytes) Fail("more bytes come in bulk than are expected");
}

void MbarrierExpectTx(void* barrier, int bytes) {
  block.bulk[static_cast<Mbarrier*>(barrier)].expected_bytes += bytes;
}

void MbarrierWait(void* barrier, uint32_t parity) {
  auto& awaited = *static_cast<Mbarrier*>(barrier);
  if (!IsOver(awaited, parity)) {
    Running().waits_for_phase = &awaited;
    Running().parity = parity;
    Leave();
  }
  if (awaited.phase % 2 == parity) EndPhase(awaited);
}

int Lane() { return block.running % kWarpThreads; }

const char* Exchange(const void* value, int bytes) {
  Warp& warp = RunningWarp();
  auto& slots = warp.slots[Running().exchanges++ % 2];
  if (bytes > 0) std::memcpy(slots[Lane()], value, bytes);
  Wait(warp.barrier);
  return slots[0];
}

void RequireAligned(const void* pointer, size_t alignment) {
  if (reinterpret_cast<uintptr_t>(pointer) % alignment == 0) return;
  std::fprintf(stderr, "%p: ", pointer);
  Fail("misaligned");
}

void CpAsync(void* to, const void* from, int bytes) {
  Running().copies.push_back(IssueCopy(to, from, bytes));
}

void CpAsyncCommit() {
  Running().groups.push_back(std::move(Running().copies));
  Running().copies.clear();
}

void CpAsyncWait(int groups_left) {
  auto& groups = Running().groups;
  while (static_cast<int>(groups.size()) > groups_left) {
    Deliver(groups.front());
    groups.erase(groups.begin());
  }
}

}  // namespace chorale::kernels::cuda::emulator
