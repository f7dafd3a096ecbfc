#include <algorithm>
#include <cassert>
#include <cfloat>
#include <cmath>

#include "base/arena_layout.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/memory_set/counting_sort.cuh"
#include "kernels/cuda/memory_set/key_elements.cuh"
#include "kernels/cuda/memory_set/largest_priorities.cuh"
#include "kernels/cuda/memory_set/spread_in_cells.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/ops/step_draw.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kBlocksAtOnce = 2;  // on a multiprocessor
constexpr int kCentres = static_cast<int>(kCentresAtOnce);
constexpr int kWords = 4;  // of a Philox block: random numbers of so many groups
// Cells of this size have their state in shared memory even if only one block then fits on a
// multiprocessor.
constexpr int kSharedKeys = 384;
// Of a multiprocessor's shared memory, for each block.
constexpr int kReservedBytes = 1024;

using Largest = LargestPriorities<kThreads>;

// The state of a cell: in shared memory, or in scratch memory. Places number the keys of the cell.
struct CellState {
  ArenaArray<float> elements;    // [Dh / 4, places, 4]
  ArenaArray<double> weight;     // [places]
  ArenaArray<double> factors;    // [kWords, places]: -1 / log(1 - u) of some groups
  ArenaArray<int32_t> counters;  // in their place at the end: [SortCounters(places)]
  ArenaArray<float> distance;    // [places], squared, at most FLT_MAX; -1 of a centre
  ArenaArray<int32_t> nearest;   // [places], index of a centre in the cell
  ArenaArray<int32_t> member;    // [places]
  int64_t bytes = 0;
};

constexpr CellState CellStateOf(int64_t places, int head_dim) {
  ArenaLayout arena(16);
  CellState state;
  state.elements = arena.Take<float>(places * head_dim);
  state.weight = arena.Take<double>(places);
  state.factors = arena.Take<double>(kWords * places);
  state.counters = {state.factors.offset};
  state.distance = arena.Take<float>(places);
  state.nearest = arena.Take<int32_t>(places);
  state.member = arena.Take<int32_t>(places);
  state.bytes = arena.bytes();
  return state;
}
static_assert(SortCounters(1) * sizeof(int32_t) <= kWords * sizeof(double));

// Without padding, and the most padding of a cell.
constexpr int64_t BytesOfPlace(int head_dim) {
  return head_dim * sizeof(float) + (1 + kWords) * sizeof(double) + 3 * sizeof(int32_t);
}
constexpr int64_t kPaddingBytes = 6 * 16;

// Where the state of a cell begins in the scratch memory of its head, if `keys` precede it.
constexpr int64_t ScratchAt(int64_t keys, int64_t cells, int head_dim) {
  return RoundUp(keys * BytesOfPlace(head_dim), 16) + cells * kPaddingBytes;
}

constexpr int64_t kLargestBytes = RoundUp(sizeof(Largest::Shared), 16);

struct SpreadKernelParams {
  SpreadInCellsParams spread;
  int32_t shared_keys;
};

// One cell of one head.
class Cell {
 public:
  __device__ __forceinline__ Cell(const SpreadInCellsParams& p, int cell, char* shared)
      : p_(p),
        cell_(cell),
        head_(blockIdx.y),
        shared_(*reinterpret_cast<Largest::Shared*>(shared)) {
    const int cells = p.cells.keys.groups;
    const int64_t at = int64_t{head_} * (cells + 1) + cell;
    first_key_ = LoadCg<int32_t>(p.cells.keys.group_begin + at);
    keys_ = LoadCg<int32_t>(p.cells.keys.group_begin + at + 1) - first_key_;
    first_centre_ = LoadCg<int32_t>(p.cells.centre_begin + at);
    centres_ = LoadCg<int32_t>(p.cells.centre_begin + at + 1) - first_centre_;
    passes_ = (keys_ + kThreads - 1) / kThreads;
    warps_ = (keys_ + passes_ * kWarpSize - 1) / (passes_ * kWarpSize);
  }

  __device__ __forceinline__ int keys() const { return keys_; }

  __device__ __forceinline__ char* Scratch() const {
    const int cells = p_.cells.keys.groups;
    const int width = p_.shape.head_dim;
    return p_.scratch + head_ * ScratchAt(p_.keys.keys(), cells, width) +
           ScratchAt(first_key_, cell_, width);
  }

  __device__ __forceinline__ void Run(char* memory) {
    const CellState state = CellStateOf(keys_, p_.shape.head_dim);
    elements_ = state.elements.At(memory);
    weight_ = state.weight.At(memory);
    factors_ = state.factors.At(memory);
    distance_ = state.distance.At(memory);
    nearest_ = state.nearest.At(memory);
    member_ = state.member.At(memory);
    Gather();
    int index = 0;
    for (int first = 0; first < centres_; ++index) {
      const int size = first == 0 ? 1 : min(first, kCentres);
      const int count = min(size, centres_ - first);
      Draw(index, first, count);
      first += count;
    }
    // The counters take the place of the factors, which were read before the last selection.
    StoreGroups(state.counters.At(memory));
  }

 private:
  // The thread's i-th place. A warp takes neighbouring places, the first warps_ warps all of them.
  __device__ __forceinline__ int PlaceOf(int i) const {
    return (WarpIndex() * passes_ + i) * kWarpSize + LaneIndex();
  }

  __device__ __forceinline__ void Gather() {
    const int width = p_.shape.head_dim;
    const uint16_t* const kv =
        p_.keys.kv + ContextKeyBlockAt(/*layer=*/0, head_, /*key_block=*/0, p_.keys.places(),
                                       p_.shape.kv_heads, width);
    const int64_t of_head = int64_t{head_} * p_.keys.keys();
    for (int i = 0; i < passes_; ++i) {
      const int place = PlaceOf(i);
      if (place >= keys_) break;
      const auto key = LoadCg<int32_t>(p_.cells.keys.member + of_head + first_key_ + place);
      member_[place] = key;
      weight_[place] = LoadCg<double>(p_.weight + of_head + key);
      distance_[place] = INFINITY;
      nearest_[place] = 0;
#pragma unroll 4
      for (int d = 0; d < width; d += 8) {
        float own[8];
        LoadKeyElements(kv, p_.keys.PlaceOf(key), d, width, own);
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
          StoreAs<Floats4>(ElementsAt(d + j, place),
                           Floats4{{own[j], own[j + 1], own[j + 2], own[j + 3]}});
        }
      }
    }
  }

  // Elements d to d + 3 of a key.
  __device__ __forceinline__ float* ElementsAt(int d, int place) const {
    return elements_ + (d / 4 * keys_ + place) * 4;
  }

  // Draws the centres of group `index`, and lowers the distances of the keys to them.
  __device__ __forceinline__ void Draw(int index, int first, int count) {
    Largest largest(shared_);
    const int32_t coarse =
        LoadCg<int32_t>(p_.centres + int64_t{head_} * p_.cells.keys.groups + cell_);
    for (int i = 0; i < passes_; ++i) {
      const int place = PlaceOf(i);
      SpreadCandidate own;
      if (place < keys_) {
        own = {
            .priority = index > 0 ? Priority(place, index) : (member_[place] == coarse ? 1u : 0u),
            .key = place};
      }
      largest.Offer(own);
    }
    largest.Finish(warps_);
    int centres[kCentres];
#pragma unroll
    for (int c = 0; c < kCentres; ++c) {
      // Others than the first `count` are no nearer than the first of them.
      centres[c] = largest.Get(c < count ? c : 0).key;
    }
    for (int i = 0; i < passes_; ++i) {
      if (PlaceOf(i) < keys_) Approach(PlaceOf(i), first, centres);
    }
  }

  // 0 of a centre, which is not drawn again. REQUIRES: was called for the groups before.
  __device__ __forceinline__ uint64_t Priority(int place, int index) const {
    const float square = distance_[place];
    if (square < 0) return 0;
    if (index == 1 || index % kWords == 0) {
      const uint64_t path = (static_cast<uint64_t>(p_.first_stream + head_) << 32) |
                            static_cast<uint64_t>(index / kWords);
      const auto words = PhiloxBlock(p_.seed, path, static_cast<uint32_t>(member_[place]),
                                     RandomStream::kCellCentre);
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        const double rest = (0x1p32 - 0.5 - words.v[word]) * 0x1p-32;  // 1 - u, exact
        factors_[word * keys_ + place] = -1 / log(rest);
      }
    }
    return CandidatePriority(weight_[place], square, factors_[index % kWords * keys_ + place]);
  }

  __device__ __forceinline__ void Approach(int place, int first,
                                           const int (&centres)[kCentres]) const {
    float least = distance_[place];
    if (least < 0) return;  // a centre
    float squares[kCentres] = {};
#pragma unroll 2
    for (int d = 0; d < p_.shape.head_dim; d += 4) {
      const auto own = LoadAs<Floats4>(ElementsAt(d, place));
#pragma unroll
      for (int c = 0; c < kCentres; ++c) {
        const auto centre = LoadAs<Floats4>(ElementsAt(d, centres[c]));
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float difference = own.v[j] - centre.v[j];
          squares[c] = fmaf(difference, difference, squares[c]);
        }
      }
    }
    int nearest = nearest_[place];
#pragma unroll
    for (int c = 0; c < kCentres; ++c) {
      const float square = squares[c] < FLT_MAX ? squares[c] : FLT_MAX;  // also of NaN
      if (square < least) {
        least = square;
        nearest = first + c;
      }
    }
#pragma unroll
    for (int c = kCentres - 1; c >= 0; --c) {
      if (centres[c] != place) continue;
      least = -1;
      nearest = first + c;
    }
    distance_[place] = least;
    nearest_[place] = nearest;
  }

  __device__ __forceinline__ void StoreGroups(int32_t* counters) const {
    const int n = p_.keys.keys();
    int32_t* const member = p_.groups.member + int64_t{head_} * n + first_key_;
    int32_t* const group_begin =
        p_.groups.group_begin + int64_t{head_} * (p_.groups.groups + 1) + first_centre_;
    CountingSort<kThreads>(counters, keys_, centres_)
        .Run([&](int place) { return nearest_[place]; },
             [&](int centre, int position) { group_begin[centre] = first_key_ + position; },
             [&](int place, int position) { member[position] = member_[place]; });
    if (ThreadIndex() == 0 && cell_ + 1 == p_.cells.keys.groups) group_begin[centres_] = n;
  }

  const SpreadInCellsParams& p_;
  const int cell_;
  const int head_;
  Largest::Shared& shared_;
  int first_key_;  // of the cell, among the keys of all cells
  int keys_;
  int first_centre_;  // among those of the head
  int centres_;
  int passes_;
  int warps_;
  // The state. Except the elements, before the groups are stored, only the thread that takes a
  // place accesses it.
  float* elements_ = nullptr;
  double* weight_ = nullptr;
  double* factors_ = nullptr;
  float* distance_ = nullptr;
  int32_t* nearest_ = nullptr;
  int32_t* member_ = nullptr;
};

// Grid: x some cells, y K/V heads.
//
// +inf: the distance to no centre; the coarse centre comes first, and then there is one.
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    SpreadInCellsKernel(const __grid_constant__ SpreadKernelParams params) {
  GridDepLaunch();
  GridDepWait();
  const SpreadInCellsParams& p = params.spread;
  Cell cell(p, p.first_cell + static_cast<int>(blockIdx.x), DynamicSmem());
  if (cell.keys() <= params.shared_keys) {
    cell.Run(DynamicSmem() + kLargestBytes);
  } else {
    cell.Run(cell.Scratch());
  }
}

}  // namespace

int64_t SpreadInCellsScratch(int64_t n, int64_t cells, const ModelShape& shape) {
  return shape.kv_heads * ScratchAt(n, cells, shape.head_dim);
}

int SpreadSharedKeys(int head_dim, int shared_bytes) {
  const auto keys_in = [&](int64_t bytes) {
    const int64_t of_places = bytes - kLargestBytes - kPaddingBytes;
    return std::max<int64_t>(of_places, 0) / BytesOfPlace(head_dim);
  };
  const int64_t at_once = keys_in((shared_bytes + kReservedBytes) / kBlocksAtOnce - kReservedBytes);
  return static_cast<int>(std::min(keys_in(shared_bytes), std::max<int64_t>(at_once, kSharedKeys)));
}

ErrorCode LoadSpreadInCellsKernel(int shared_bytes) {
  return LoadKernel(&SpreadInCellsKernel, shared_bytes);
}

ErrorCode LaunchSpreadInCells(const SpreadInCellsParams& params, Stream stream) {
  assert(ValidateSpreadInCells(params).ok());
  const int width = params.shape.head_dim;
  const int keys = SpreadSharedKeys(width, params.shared_bytes);
  const LaunchShape shape = {
      .blocks_x = params.end_cell - params.first_cell,
      .blocks_y = params.shape.kv_heads,
      .threads = kThreads,
      .shared_bytes = static_cast<int>(kLargestBytes + CellStateOf(keys, width).bytes),
  };
  return Launch(&SpreadInCellsKernel, shape, stream, SpreadKernelParams{params, keys});
}

}  // namespace chorale::kernels::cuda
