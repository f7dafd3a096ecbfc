#include "tests/engine/backend/golden_case.h"

#include <cmath>
#include <utility>

#include "absl/status/statusor.h"
#include "base/require.h"
#include "tests/engine/backend/path_arrays.h"
#include "tests/golden/source_folder.h"

namespace chorale {
namespace {

std::string Folder(const std::string& name) { return SourceFolder() + "/tests/golden/" + name; }

template <typename T>
T Loaded(absl::StatusOr<T> value) {
  Require(value.ok(), "the golden files can be read");
  return *std::move(value);
}

}  // namespace

void MixtureLists::Add(const MixtureSpan& mixture) {
  mean.insert(mean.end(), mixture.mean.begin(), mixture.mean.end());
  std.insert(std.end(), mixture.std.begin(), mixture.std.end());
  for (double log_weight : mixture.log_weight) weight.push_back(std::exp(log_weight));
}

GoldenCase::GoldenCase(const std::string& name)
    : model_(Loaded(LoadModel(Folder(name)))),
      expected_(Loaded(TensorFile::Open(Folder(name) + "/expected.safetensors"))),
      x_context_(Features("x_context")),
      y_context_(Floats("y_context")),
      x_target_(Features("x_target")),
      paths_(Loaded(expected_.Find("y_target")).shape[0]),
      y_target_(Transposed(Floats("y_target"), paths_, x_target_.rows)) {
  // All models wrap around their buffer's positions, which is worth testing.
  Require(query_rows() > model_.config.buffer_size,
          "there are more query rows than buffer positions");
}

std::vector<double> GoldenCase::Expected(const std::string& name) const {
  return ReadFloat64(Loaded(expected_.Find(name)));
}

// The inputs are float32 numbers, stored as float64.
std::vector<float> GoldenCase::Floats(const std::string& name) const {
  std::vector<float> values;
  for (double value : Expected(name)) {
    values.push_back(static_cast<float>(value));
    Require(static_cast<double>(values.back()) == value, "the inputs are float32");
  }
  return values;
}

FeatureMatrix GoldenCase::Features(const std::string& name) const {
  const TensorView view = Loaded(expected_.Find(name));
  return {.rows = view.shape[0], .features = view.shape[1], .x = Floats(name)};
}

TileSpec GoldenCase::Tile(std::shared_ptr<const ResidentContext> context,
                          std::shared_ptr<const EncodedRows> rows) const {
  TileSpec tile;
  tile.context = std::move(context);
  tile.query_rows = std::move(rows);
  tile.paths = paths_;
  tile.first_mixture = 0;
  return tile;
}

}  // namespace chorale
