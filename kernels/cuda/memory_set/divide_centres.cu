#include <cassert>
#include <cmath>

#include "base/arena_layout.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/memory_set/counting_sort.cuh"
#include "kernels/cuda/memory_set/divide_centres.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kWarps = 32;
constexpr int kThreads = kWarps * kWarpSize;

// What a block works with: in shared memory, or in the scratch memory of its head.
struct Workspace {
  ArenaArray<double> values;      // [n]: w d^2 of the keys, in the order of the cells
  ArenaArray<double> potential;   // [C]
  ArenaArray<double> share;       // [C]; at last what of it is left
  ArenaArray<int32_t> given;      // [C] centres beside the first one; -1: the cell is open
  ArenaArray<int32_t> key_begin;  // [C + 1]
  ArenaArray<int32_t> left;       // [1] centres
  ArenaArray<int32_t> counters;   // [SortCounters(C)]
  int64_t bytes = 0;
};

Workspace WorkspaceOf(int64_t n, int64_t cells) {
  ArenaLayout arena(16);
  Workspace workspace;
  workspace.values = arena.Take<double>(n);
  workspace.potential = arena.Take<double>(cells);
  workspace.share = arena.Take<double>(cells);
  workspace.given = arena.Take<int32_t>(cells);
  workspace.key_begin = arena.Take<int32_t>(cells + 1);
  workspace.left = arena.Take<int32_t>(1);
  workspace.counters = arena.Take<int32_t>(SortCounters(cells));
  workspace.bytes = arena.bytes();
  return workspace;
}

struct DivideKernelParams {
  DivideCentresParams divide;
  Workspace workspace;
  bool in_shared;
};

// The cells of one head.
class HeadCells {
 public:
  __device__ __forceinline__ HeadCells(const DivideKernelParams& p, char* memory)
      : p_(p.divide),
        n_(p_.cells.keys.n),
        cells_(p_.cells.keys.groups),
        values_(p.workspace.values.At(memory)),
        potential_(p.workspace.potential.At(memory)),
        share_(p.workspace.share.At(memory)),
        given_(p.workspace.given.At(memory)),
        key_begin_(p.workspace.key_begin.At(memory)),
        left_(p.workspace.left.At(memory)),
        counters_(p.workspace.counters.At(memory)) {}

  __device__ __forceinline__ void Run() {
    Sort();
    AddPotentials();
    __syncthreads();
    if (WarpIndex() == 0) ShareCentres();
    __syncthreads();
    GiveRemainders();
    __syncthreads();
    if (WarpIndex() == 0) StoreCentres();
  }

 private:
  __device__ __forceinline__ int MostOf(int cell) const {
    return key_begin_[cell + 1] - key_begin_[cell] - 1;
  }

  // The keys of all cells.
  __device__ __forceinline__ void Sort() {
    const int64_t first = int64_t{blockIdx.y} * n_;
    const int32_t* const nearest = p_.nearest + first;
    int32_t* const member = p_.cells.keys.member + first;
    int32_t* const group_begin = p_.cells.keys.group_begin + int64_t{blockIdx.y} * (cells_ + 1);
    const auto begin = [&](int cell, int position) {
      key_begin_[cell] = position;
      group_begin[cell] = position;
    };
    if (ThreadIndex() == 0) begin(cells_, n_);
    CountingSort<kThreads>(counters_, n_, cells_)
        .Run([&](int key) { return LoadCg<int32_t>(nearest + key); }, begin,
             [&](int key, int position) {
               const auto square = LoadCg<float>(p_.distance + first + key);
               member[position] = key;
               values_[position] = LoadCg<double>(p_.weight + first + key) *
                                   static_cast<double>(square > 0 ? square : 0.0f);
             });
  }

  // In the order of the keys. All lanes of a warp add the same numbers.
  __device__ __forceinline__ void AddPotentials() {
    for (int cell = WarpIndex(); cell < cells_; cell += kWarps) {
      double sum = 0;
      const int end = key_begin_[cell + 1];
#pragma unroll 8
      for (int i = key_begin_[cell]; i < end; ++i) sum += values_[i];
      if (LaneIndex() == 0) potential_[cell] = sum;
    }
  }

  // Of the open cells, in their order.
  __device__ __forceinline__ double SumOfPotentials() const {
    double sum = 0;
#pragma unroll 4
    for (int cell = 0; cell < cells_; ++cell) {
      if (given_[cell] < 0) sum += potential_[cell];
    }
    return sum;
  }

  // Steps 1 and 2 of the definition, and the whole parts of step 3, by one warp.
  __device__ __forceinline__ void ShareCentres() {
    int left = p_.centre_count - cells_;
    for (int cell = LaneIndex(); cell < cells_; cell += kWarpSize) given_[cell] = -1;
    __syncwarp();
    while (FillCells(left)) {
    }
    int whole_parts = 0;
    for (int cell = LaneIndex(); cell < cells_; cell += kWarpSize) {
      double rest = -1;  // less than that of any cell that can get one more
      if (given_[cell] < 0) {
        const double whole = floor(share_[cell]);
        given_[cell] = static_cast<int32_t>(whole);
        whole_parts += given_[cell];
        if (given_[cell] < MostOf(cell)) rest = share_[cell] - whole;
      }
      share_[cell] = rest;
    }
    left -= SumOverLanes<kWarpSize>(whole_parts);
    if (LaneIndex() == 0) *left_ = left;
  }

  // Returns whether there were cells to fill. Subtracts from `left` what they got.
  __device__ __forceinline__ bool FillCells(int& left) {
    double sum = SumOfPotentials();
    if (!(sum > 0)) {
      __syncwarp();
      for (int cell = LaneIndex(); cell < cells_; cell += kWarpSize) {
        potential_[cell] = MostOf(cell) + 1;
      }
      __syncwarp();
      sum = SumOfPotentials();
    }
    __syncwarp();
    int filled = 0;
    int given = 0;
    for (int cell = LaneIndex(); cell < cells_; cell += kWarpSize) {
      if (given_[cell] >= 0) continue;
      share_[cell] = static_cast<double>(left) * potential_[cell] / sum;
      if (!(share_[cell] > MostOf(cell))) continue;
      given_[cell] = MostOf(cell);
      given += given_[cell];
      ++filled;
    }
    left -= SumOverLanes<kWarpSize>(given);
    __syncwarp();
    return SumOverLanes<kWarpSize>(filled) > 0;
  }

  // The rest of step 3.
  __device__ __forceinline__ void GiveRemainders() {
    const int left = *left_;
    for (int cell = ThreadIndex(); cell < cells_; cell += kThreads) {
      const double own = share_[cell];
      if (own < 0) continue;
      int before = 0;
      for (int other = 0; other < cells_; ++other) {
        const double rest = share_[other];
        before += rest > own || (rest == own && other < cell) ? 1 : 0;
      }
      if (before < left) ++given_[cell];
    }
  }

  __device__ __forceinline__ void StoreCentres() {
    for (int cell = LaneIndex(); cell < cells_; cell += kWarpSize) ++given_[cell];
    __syncwarp();
    const int32_t all = SumsBefore(given_, cells_);
    int32_t* const centre_begin = p_.cells.centre_begin + int64_t{blockIdx.y} * (cells_ + 1);
    for (int cell = LaneIndex(); cell < cells_; cell += kWarpSize) {
      centre_begin[cell] = given_[cell];
    }
    if (LaneIndex() == 0) centre_begin[cells_] = all;
  }

  const DivideCentresParams& p_;
  const int n_;
  const int cells_;
  double* const values_;
  double* const potential_;
  double* const share_;
  int32_t* const given_;
  int32_t* const key_begin_;
  int32_t* const left_;
  int32_t* const counters_;
};

// Grid: y K/V heads.
//
// -inf: there are no scores, and potentials are finite.
__global__ void __launch_bounds__(kThreads)
    DivideCentresKernel(const __grid_constant__ DivideKernelParams p) {
  GridDepLaunch();
  GridDepWait();
  if (p.in_shared) {
    HeadCells(p, DynamicSmem()).Run();
  } else {
    HeadCells(p, p.divide.scratch + int64_t{blockIdx.y} * p.workspace.bytes).Run();
  }
}

}  // namespace

int64_t DivideCentresScratch(int64_t n, int64_t cells, int64_t kv_heads) {
  return kv_heads * WorkspaceOf(n, cells).bytes;
}

ErrorCode LoadDivideCentresKernel(int shared_bytes) {
  return LoadKernel(&DivideCentresKernel, shared_bytes);
}

ErrorCode LaunchDivideCentres(const DivideCentresParams& params, Stream stream) {
  assert(ValidateDivideCentres(params).ok());
  const Workspace workspace = WorkspaceOf(params.cells.keys.n, params.cells.keys.groups);
  const bool in_shared = workspace.bytes <= params.shared_bytes;
  const LaunchShape shape = {
      .blocks_y = params.kv_heads,
      .threads = kThreads,
      .shared_bytes = in_shared ? static_cast<int>(workspace.bytes) : 0,
  };
  return Launch(&DivideCentresKernel, shape, stream,
                DivideKernelParams{params, workspace, in_shared});
}

}  // namespace chorale::kernels::cuda
