// Model folders (config.json and model.safetensors) with weights of the test's choosing.
#ifndef CHORALE_TESTS_END_TO_END_MODEL_FILES_H_
#define CHORALE_TESTS_END_TO_END_MODEL_FILES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/end_to_end/statistics.h"

namespace chorale::end_to_end {

struct ModelShape {
  int64_t d_model = 16;
  int64_t n_heads = 2;
  int64_t n_layers = 1;
  int64_t d_ff = 16;
  int64_t num_components = 2;
  int64_t buffer_size = 64;
  int64_t num_features = 1;
  double std_min = 0.001;
  double std_max = 2.0;
  bool z_score = false;  // normalize_x and normalize_y
};

// Bytes of keys and values of a context, and of the buffers of `paths` paths with `query_rows`
// positions, as the layout of the cache says: 16 keys to a panel, and whole panels for buffers.
int64_t ContextBytes(const ModelShape& shape, int64_t rows);
int64_t BufferBytes(const ModelShape& shape, int64_t paths, int64_t query_rows);

struct TensorData {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// An ar_tabpfn model under construction: every tensor is there, and zero to begin with.
class ModelFiles {
 public:
  explicit ModelFiles(const ModelShape& shape);

  const ModelShape& shape() const { return shape_; }
  // The tensor of that name, as in the file; a failure is added when there is none.
  TensorData& operator[](const std::string& name);

  // Draws all weights: matrices with standard deviation gain / sqrt(inputs), layer norms near the
  // identity, embeddings and biases of order one.
  void FillRandom(uint64_t seed, double gain);

  // Makes the head's biases say this mixture, and its matrices nothing: with all else zero every
  // target of every path has exactly this distribution, up to float32.
  void SetMixture(const ExactMixture& mixture);

  // Writes the folder, which is made if there is none.
  void Write(const std::string& folder) const;

 private:
  ModelShape shape_;
  std::map<std::string, TensorData> tensors_;
};

// A folder of tests/golden.
std::string GoldenFolder(const std::string& name);

// Copies the two files of a model to another folder.
void CopyModel(const std::string& from, const std::string& to);

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_MODEL_FILES_H_
