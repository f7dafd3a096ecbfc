// A growable array of float32 that begins on a cache line.
#ifndef CHORALE_ENGINE_BACKENDS_ALIGNED_BUFFER_H_
#define CHORALE_ENGINE_BACKENDS_ALIGNED_BUFFER_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

namespace chorale {

// Owns its memory; movable. Thread contract: one thread at a time.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(int64_t size) { Reserve(size); }

  // Room for `size` elements. What was there before is lost if it has to grow; new elements are
  // zero. Never shrinks, so that work of a size seen before allocates nothing.
  void Reserve(int64_t size) {
    if (size <= size_) return;
    data_.reset();
    data_.reset(static_cast<float*>(::operator new(size * sizeof(float), kAlignment)));
    size_ = size;
    std::fill_n(data_.get(), size, 0.0f);
  }

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* data) const { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<float, Free> data_;
  int64_t size_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKENDS_ALIGNED_BUFFER_H_
