// Divides one block of memory among arrays, before there is any memory: the layout of a range of a
// pool, of a device's workspace, or of a kernel's shared memory.
//
//   ArenaLayout arena(256);
//   const ArenaArray<float> x = arena.Take<float>(rows * width);
//   const ArenaArray<uint16_t> q = arena.Take<uint16_t>(rows * heads * head_dim);
//   char* memory = Allocate(arena.bytes());
//   x.At(memory)[i] = ...;
//
// Plain values that a kernel may take as parameters: host and device compute the same addresses.
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

  // REQUIRES: `memory` is aligned as the arena is.
  constexpr T* At(char* memory) const { return reinterpret_cast<T*>(memory + offset); }
  constexpr const T* At(const char* memory) const {
    return reinterpret_cast<const T*>(memory + offset);
  }
};

// Arrays lie in the order in which they are taken, each aligned to `alignment` bytes.
template <typename Offset = int64_t>
class BasicArenaLayout {
 public:
  // `alignment` is a power of two, and at least that of every T.
  constexpr explicit BasicArenaLayout(Offset alignment) : alignment_(alignment) {}

  // An array of `count` elements behind the arrays taken before.
  template <typename T>
  constexpr ArenaArray<T, Offset> Take(int64_t count) {
    const ArenaArray<T, Offset> array = {bytes_};
    bytes_ =
        static_cast<Offset>(RoundUp(bytes_ + count * static_cast<int64_t>(sizeof(T)), alignment_));
    return array;
  }

  // Of everything taken, padding included.
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
