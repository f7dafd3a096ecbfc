// A growable array of numbers that begins on a cache line.
#ifndef CHORALE_ENGINE_BACKEND_HOST_ALIGNED_BUFFER_H_
#define CHORALE_ENGINE_BACKEND_HOST_ALIGNED_BUFFER_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

namespace chorale {

// Owns its memory; movable. Thread contract: one thread at a time.
template <typename T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(int64_t size) { Reserve(size); }

  // Reserves memory for `size` elements. If the array grows, its previous content is lost and all
  // elements are zero. Never shrinks, so that repeated work of the same size allocates nothing.
  void Reserve(int64_t size) {
    if (size <= size_) return;
    data_.reset();
    data_.reset(static_cast<T*>(::operator new(size * sizeof(T), kAlignment)));
    size_ = size;
    std::fill_n(data_.get(), size, T{0});
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(T* data) const { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<T, Free> data_;
  int64_t size_ = 0;
};

using AlignedBuffer = AlignedArray<float>;

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_HOST_ALIGNED_BUFFER_H_
