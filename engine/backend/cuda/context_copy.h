// Copies contexts between the GPU and the host.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_CONTEXT_COPY_H_
#define CHORALE_ENGINE_BACKEND_CUDA_CONTEXT_COPY_H_

#include <algorithm>
#include <cstdint>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/launchable.h"

namespace chorale::cuda {

// A step takes less than a millisecond, so that decodes run between the steps of a large context.
//
// Thread contract: engine thread only.
class ContextCopy : public Work, public Launchable {
 public:
  ContextCopy(PoolRange kv, PoolRange host, CopyDirection direction)
      : kv_(kv), host_(host), direction_(direction) {}

  WorkKind kind() const override { return WorkKind::kCopy; }
  bool done() const override { return copied_ == kv_.bytes; }
  double next_step_flops() const override {
    return static_cast<double>(next_bytes()) * kFlopsOfByte;
  }
  int64_t steps_at_this_cost() const override {
    return std::max<int64_t>((kv_.bytes - copied_) / kStepBytes, done() ? 0 : 1);
  }
  void Run(int64_t max_steps, const LaunchWorkspace& launch) override {
    for (; max_steps > 0 && !done(); --max_steps) {
      const int64_t bytes = next_bytes();
      launch.device.CopyContext({kv_.offset + copied_, bytes}, {host_.offset + copied_, bytes},
                                direction_);
      copied_ += bytes;
    }
  }

 private:
  static constexpr int64_t kStepBytes = 32 << 20;
  // In a second, the bus transfers about 50 GB, and the kernels compute about 100 TFLOP.
  static constexpr double kFlopsOfByte = 2'000;

  int64_t next_bytes() const { return std::min(kStepBytes, kv_.bytes - copied_); }

  const PoolRange kv_;
  const PoolRange host_;
  const CopyDirection direction_;
  int64_t copied_ = 0;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_CONTEXT_COPY_H_
