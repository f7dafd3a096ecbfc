// Small models with deterministic weights, and data for them.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_TEST_MODEL_H_
#define CHORALE_TESTS_ENGINE_BACKEND_TEST_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/feature_transform.h"
#include "engine/model/model.h"

namespace chorale {

struct TestModelOptions {
  std::string name = "test";
  std::string row_encoder = "feature_mean";
  int64_t d_model = 32;
  int64_t n_heads = 4;
  int64_t n_kv_heads = 4;
  int64_t n_layers = 2;
  int64_t d_ff = 48;
  int64_t num_components = 3;
  int64_t buffer_size = 8;
  Normalization normalize_x = Normalization::kNone;
  Normalization normalize_y = Normalization::kNone;
  uint64_t seed = 1;
};

// A model for which the GPU backend has a kernel of all layers.
inline TestModelOptions AllLayersModel(int64_t layers) {
  return {.d_model = 128, .n_heads = 2, .n_kv_heads = 2, .n_layers = layers, .d_ff = 136};
}

// Random weights of a size that keeps every stage well away from saturation. The same options give
// the same model, on every machine.
Model MakeTestModel(const TestModelOptions& options = {});

struct MixtureComponent {
  float mean = 0;
  float std = 1;  // above the model's std_min, at most std_max
  float weight = 1;
};

// A model whose every prediction is the given mixture, whatever context and buffer hold: the head's
// weights are zero, its biases are not.
Model MakeConstantModel(const std::vector<MixtureComponent>& mixture,
                        TestModelOptions options = {});

// Values in [-1, 1), the same for the same arguments. Every seventh cell is marked as missing, the
// last of several columns as categorical.
FeatureMatrix MakeFeatures(int64_t rows, int64_t features, uint64_t seed);
std::vector<float> MakeValues(int64_t n, uint64_t seed);

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_BACKEND_TEST_MODEL_H_
