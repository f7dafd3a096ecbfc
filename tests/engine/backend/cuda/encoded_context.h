// The keys and values that an encoding leaves on a GPU.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_CUDA_ENCODED_CONTEXT_H_
#define CHORALE_TESTS_ENGINE_BACKEND_CUDA_ENCODED_CONTEXT_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/backend/cuda/context_layout.h"
#include "engine/backend/cuda/kernel_shape.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/runtime/runtime.h"
#include "tests/engine/backend/backend_driver.h"
#include "tests/engine/backend/reference_forward.h"

namespace chorale {

// K, V and log-weights of one head in one layer, as they are in memory.
struct HeadKeys {
  std::vector<std::vector<float>> k, v;  // [keys][Dh]
  std::vector<float> log_weights;        // natural
};

// An encoded context in host memory.
class EncodedContext {
 public:
  EncodedContext(BackendDriver& driver, const ResidentContext& context)
      : config_(context.model->config()),
        shape_(config_, Properties()),
        layout_(shape_, context.shape),
        keys_(context.shape.keys()),
        reduced_(context.shape.reduced()) {
    const PoolRange host = {.offset = 0, .bytes = context.kv.bytes};
    const auto save = driver.backend().NewContextCopy(context.kv, host, CopyDirection::kToHost);
    driver.Run(save.get());
    const char* const memory = driver.backend().HostContextMemory(host);
    bytes_.assign(memory, memory + host.bytes);
  }

  const ModelConfig& config() const { return config_; }
  const std::string& bytes() const { return bytes_; }

  HeadKeys Head(int64_t layer, int64_t head) {
    const cuda::LayerKeys of_layer = layout_.Layer(bytes_.data(), layer);
    HeadKeys result;
    for (int64_t key = 0; key < keys_; ++key) {
      using namespace kernels::cuda;  // NOLINT(google-build-using-namespace)
      const uint16_t* const block =
          of_layer.kv +
          ContextKeyBlockAt(0, head, key / kKeyBlockKeys, keys_, shape_.kv_heads, shape_.head_dim);
      const auto in_block = static_cast<int>(key % kKeyBlockKeys);
      std::vector<float> k, v;
      for (int d = 0; d < static_cast<int>(config_.head_dim()); ++d) {
        k.push_back(FromBf16(block[KeyBlockKeyAt(in_block, d, shape_.head_dim)]));
        v.push_back(FromBf16(block[KeyBlockValueAt(in_block, d, shape_.head_dim)]));
      }
      result.k.push_back(k);
      result.v.push_back(v);
      if (!reduced_) continue;
      result.log_weights.push_back(of_layer.log_weights[head * ContextWeights(keys_) + key] *
                                   std::log(2.0f));
    }
    return result;
  }

  // All keys for the float64 model.
  reference::KeyValues Reference() {
    reference::KeyValues all;
    for (int64_t layer = 0; layer < config_.n_layers; ++layer) {
      reference::Rows keys(keys_), values(keys_), log_weights(keys_);
      for (int64_t head = 0; head < config_.n_kv_heads; ++head) {
        const HeadKeys of_head = Head(layer, head);
        for (int64_t key = 0; key < keys_; ++key) {
          keys[key].insert(keys[key].end(), of_head.k[key].begin(), of_head.k[key].end());
          values[key].insert(values[key].end(), of_head.v[key].begin(), of_head.v[key].end());
          log_weights[key].push_back(of_head.log_weights[key]);
        }
      }
      all.keys.push_back(keys);
      all.values.push_back(values);
      all.log_weights.push_back(log_weights);
    }
    return all;
  }

 private:
  static kernels::cuda::DeviceProperties Properties() {
    kernels::cuda::DeviceProperties properties;
    kernels::cuda::OpenDevice(&properties);
    return properties;
  }

  const ModelConfig config_;
  const cuda::KernelShape shape_;
  const cuda::ContextLayout layout_;
  const int64_t keys_;
  const bool reduced_;
  std::string bytes_;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_BACKEND_CUDA_ENCODED_CONTEXT_H_
