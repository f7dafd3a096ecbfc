// The whole model in float64 on a GPU: reference_forward.h for sizes at which a CPU takes too long.
// Products are cuBLAS's, the rest is device_oracle_kernels.h, tokens and mixtures are made on the
// host. It shares neither kernels nor layouts with the backend. Row encoder: feature_mean.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_CUDA_DEVICE_ORACLE_H_
#define CHORALE_TESTS_ENGINE_BACKEND_CUDA_DEVICE_ORACLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/feature_transform.h"
#include "engine/model/model.h"
#include "tests/engine/backend/reference_forward.h"

namespace chorale::device_oracle {

// libcublas is opened at run time: some machines have it in a folder that only they know.
struct Cublas;
// NotFound where it is not there. `path` and `cublaslt_path` are files, or empty: the loader finds
// them. libcublas needs libcublasLt, which is therefore opened first.
absl::StatusOr<std::shared_ptr<const Cublas>> OpenCublas(const std::string& path,
                                                         const std::string& cublaslt_path);

// Failures of the device end the process.
//
// Thread contract: one thread.
class DeviceOracle {
 public:
  // REQUIRES: a device is open.
  DeviceOracle(const Model& model, std::shared_ptr<const Cublas> cublas);
  ~DeviceOracle();

  // Keeps the keys and values of this context, in place of another's.
  void EncodeContext(const FeatureMatrix& x, const std::vector<float>& y);

  // The mixture of every query row, each seeing the context alone. REQUIRES, as below: there is a
  // context.
  std::vector<reference::Mixture> Predict(const FeatureMatrix& query_rows);

  // The mixtures of paths, [paths, T]: position t of path p holds query row order[p T + t] (query
  // row t when order is empty) and value values[t paths + p].
  std::vector<reference::Mixture> TeacherForce(const FeatureMatrix& query_rows,
                                               const std::vector<int32_t>& order,
                                               const std::vector<float>& values, int64_t paths);

 private:
  class Pass;
  struct Weights;
  struct Layer;
  struct KeysAndValues;

  const Model model_;
  const std::shared_ptr<const Cublas> cublas_;
  void* handle_ = nullptr;  // cublasHandle_t
  std::unique_ptr<const Weights> weights_;
  std::vector<KeysAndValues> context_;  // [L]
  int64_t context_rows_ = 0;
};

}  // namespace chorale::device_oracle

#endif  // CHORALE_TESTS_ENGINE_BACKEND_CUDA_DEVICE_ORACLE_H_
