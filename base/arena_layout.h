// Lays out arrays in one block of memory before the block is allocated: a range of a pool, a
// device's workspace, or a kernel's shared memory.
//
//   ArenaLayout arena(256);
//   const ArenaArray<float> x = arena.Take<float>(rows * width);
//   const ArenaArray<uint16_t> q = arena.Take<uint16_t>(rows * heads * head_dim);
//   char* memory = Allocate(arena.bytes());
//   x.At(memory)[i] = ...;
//
// A kernel may take an ArenaArray as a parameter: host and device compute the same addresses.
#ifndef CHORALE_BASE_ARENA_LAYOUT_H_
#define CHORALE_BASE_ARENA_LAYOUT_H_

#include <cstdint>

#include "base/integer_math.h"

namespace chorale {

// An array of T that begins `offset` bytes into the block. Offset is int32_t for shared memory,
// where a 64-bit offset would cost a kernel a register.
template <typename T, typename Offset = int64_t>
struct ArenaArray {
  Offset offset = 0;

  // REQUIRES: `memory` has the alignment of the arena.
  constexpr T* At(char* memory) const { return reinterpret_cast<T*>(memory + offset); }
  constexpr const T* At(const char* memory) const {
    return reinterpret_cast<const T*>(memory + offset);
  }
};

// Arrays are in the order of the calls of Take, each aligned to `alignment` bytes.
template <typename Offset = int64_t>
class BasicArenaLayout {
 public:
  // `alignment` is a power of two and at least alignof(T) for every T.
  constexpr explicit BasicArenaLayout(Offset alignment) : alignment_(alignment) {}

  // Appends an array of `count` elements.
  template <typename T>
  constexpr ArenaArray<T, Offset> Take(int64_t count) {
    const ArenaArray<T, Offset> array = {bytes_};
    bytes_ =
        static_cast<Offset>(RoundUp(bytes_ + count * static_cast<int64_t>(sizeof(T)), alignment_));
    return array;
  }

  // The size of all arrays, with padding.
  constexpr Offset bytes() const { return bytes_; }

 private:
  Offset alignment_;
  Offset bytes_ = 0;
};

using ArenaLayout = BasicArenaLayout<int64_t>;
using SmemArenaLayout = BasicArenaLayout<int32_t>;
template <typename T>
using SmemArray = ArenaArray<T, int32_t>;

}  // namespace chorale

#endif  // CHORALE_BASE_ARENA_LAYOUT_H_
