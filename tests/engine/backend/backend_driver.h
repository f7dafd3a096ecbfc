// Drives a backend in a test as the engine would, with the simplest possible accounting.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_BACKEND_DRIVER_H_
#define CHORALE_TESTS_ENGINE_BACKEND_BACKEND_DRIVER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/backend.h"

namespace chorale {

// Hands out pool ranges one behind the other and never takes one back. Failures abort the test.
class BackendDriver {
 public:
  explicit BackendDriver(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  // The CPU backend with that many threads and small pools.
  static BackendDriver Cpu(int threads);

  Backend& backend() { return *backend_; }

  std::shared_ptr<const BackendModel> AddModel(const Model& model);
  PoolRange TakeContextRange(const ModelConfig& config, const ContextShape& shape);
  PoolRange TakeBufferRange(int64_t bytes);

  // Sets the ranges of the specification.
  std::unique_ptr<EncodeWork> NewEncode(EncodeSpec spec);
  std::unique_ptr<EncodeWork> NewEncode(std::shared_ptr<const BackendModel> model,
                                        const FeatureMatrix& features, const std::vector<float>& y,
                                        const MemorySet& memory = {}, uint64_t seed = 0);
  std::unique_ptr<RowsWork> NewRows(std::shared_ptr<const ResidentContext> context,
                                    const FeatureMatrix& features);
  std::unique_ptr<PredictWork> NewPredict(std::shared_ptr<const ResidentContext> context,
                                          std::shared_ptr<const EncodedRows> query_rows,
                                          int64_t first_row, int64_t rows);
  std::shared_ptr<const ResidentContext> Encode(EncodeSpec spec, int64_t steps_per_slice = 1);
  std::shared_ptr<const ResidentContext> Encode(std::shared_ptr<const BackendModel> model,
                                                const FeatureMatrix& features,
                                                const std::vector<float>& y,
                                                int64_t steps_per_slice = 1,
                                                const MemorySet& memory = {}, uint64_t seed = 0);
  std::shared_ptr<const EncodedRows> EncodeRows(std::shared_ptr<const ResidentContext> context,
                                                const FeatureMatrix& features);
  std::unique_ptr<DecodeWork> NewDecode(DecodeSpec spec);  // sets the range
  // Path p draws as path first_path + p.
  std::unique_ptr<DecodeWork> NewDecode(TileSpec tile, uint64_t seed, int64_t first_path,
                                        std::vector<float> forced_values);
  std::unique_ptr<DensityWork> NewDensity(TileSpec tile, std::vector<float> values);

  // Advances all of them together until all are done.
  void RunAll(absl::Span<Work* const> works, int64_t steps_per_slice);
  void Run(Work* work, int64_t steps_per_slice = 1'000) { RunAll({work}, steps_per_slice); }

 private:
  std::unique_ptr<Backend> backend_;
  int64_t context_bytes_ = 0;
  int64_t buffer_bytes_ = 0;
  int64_t encode_bytes_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_BACKEND_BACKEND_DRIVER_H_
