// A golden model with its inputs and the numbers that another implementation computed in float64.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_GOLDEN_CASE_H_
#define CHORALE_TESTS_ENGINE_BACKEND_GOLDEN_CASE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/data/feature_transform.h"
#include "engine/model/model.h"
#include "engine/model/tensor_file.h"

namespace chorale {

// Everything that mixtures say, in the layout of the expected tensors.
struct MixtureLists {
  std::vector<double> mean;
  std::vector<double> std;
  std::vector<double> weight;

  void Add(const MixtureSpan& mixture);
};

class GoldenCase {
 public:
  // A folder of tests/golden, for example "golden_tiny". Failures end the process.
  explicit GoldenCase(const std::string& name);

  const Model& model() const { return model_; }
  const FeatureMatrix& x_context() const { return x_context_; }
  const std::vector<float>& y_context() const { return y_context_; }
  const FeatureMatrix& x_target() const { return x_target_; }
  const std::vector<float>& y_target() const { return y_target_; }  // [T, paths]
  int64_t paths() const { return paths_; }
  int64_t query_rows() const { return x_target_.rows; }

  std::vector<double> Expected(const std::string& name) const;

  // All paths, with their mixtures.
  TileSpec Tile(std::shared_ptr<const ResidentContext> context,
                std::shared_ptr<const EncodedRows> rows) const;

 private:
  std::vector<float> Floats(const std::string& name) const;
  FeatureMatrix Features(const std::string& name) const;

  const Model model_;
  const TensorFile expected_;
  const FeatureMatrix x_context_;
  const std::vector<float> y_context_;
  const FeatureMatrix x_target_;
  const int64_t paths_;
  const std::vector<float> y_target_;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_BACKEND_GOLDEN_CASE_H_
