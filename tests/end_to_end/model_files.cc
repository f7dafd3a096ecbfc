#include "tests/end_to_end/model_files.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/golden/source_folder.h"
#include "tests/support/temp_folder.h"

namespace chorale::end_to_end {
namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;

void AddLayer(const ModelShape& s, int64_t layer, Shapes& shapes) {
  const std::string prefix = absl::StrCat("backbone.layers.", layer, ".");
  for (const char* attention : {"attn_features", "attn_rows"}) {
    for (const char* matrix : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
      shapes[absl::StrCat(prefix, attention, ".", matrix, ".weight")] = {s.d_model, s.d_model};
    }
  }
  for (const char* norm : {"norm1", "norm2", "norm3"}) {
    shapes[absl::StrCat(prefix, norm, ".weight")] = {s.d_model};
    shapes[absl::StrCat(prefix, norm, ".bias")] = {s.d_model};
  }
  shapes[prefix + "ff.0.weight"] = {s.d_ff, s.d_model};
  shapes[prefix + "ff.0.bias"] = {s.d_ff};
  shapes[prefix + "ff.2.weight"] = {s.d_model, s.d_ff};
  shapes[prefix + "ff.2.bias"] = {s.d_model};
}

Shapes AllShapes(const ModelShape& s) {
  Shapes shapes;
  for (int64_t layer = 0; layer < s.n_layers; ++layer) AddLayer(s, layer, shapes);
  shapes["ar_tokens"] = {s.buffer_size, s.d_model};
  shapes["backbone.norm.weight"] = {s.d_model};
  shapes["backbone.norm.bias"] = {s.d_model};
  shapes["embedder.marker_embed.weight"] = {3, s.d_model};
  for (const char* embed : {"x_embed", "y_embed"}) {
    shapes[absl::StrCat("embedder.", embed, ".weight")] = {s.d_model, 1};
    shapes[absl::StrCat("embedder.", embed, ".bias")] = {s.d_model};
  }
  shapes["head.head.0.weight"] = {s.d_ff, s.d_model};
  shapes["head.head.0.bias"] = {s.d_ff};
  shapes["head.head.2.weight"] = {3 * s.num_components, s.d_ff};
  shapes["head.head.2.bias"] = {3 * s.num_components};
  for (const char* bias : {"mean_bias", "std_bias", "weight_bias"}) {
    shapes[absl::StrCat("head.", bias)] = {s.num_components};
  }
  return shapes;
}

int64_t Elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

// Elements of the keys and values of one layer with room for n keys.
int64_t LayerElements(const ModelShape& s, int64_t n) {
  return s.d_model * ((n + 15) / 16 * 16 + n);
}

nlohmann::json ConfigJson(const ModelShape& s) {
  nlohmann::json config = {{"model_type", "ar_tabpfn"},
                           {"d_model", s.d_model},
                           {"n_heads", s.n_heads},
                           {"n_layers", s.n_layers},
                           {"d_ff", s.d_ff},
                           {"num_components", s.num_components},
                           {"buffer_size", s.buffer_size},
                           {"num_features", s.num_features},
                           {"std_min", s.std_min},
                           {"std_max", s.std_max},
                           {"layer_norm_eps", 1e-5}};
  if (s.z_score) {
    config["normalize_x"] = "zscore";
    config["normalize_y"] = "zscore";
  }
  return config;
}

}  // namespace

int64_t ContextBytes(const ModelShape& shape, int64_t rows) {
  return shape.n_layers * LayerElements(shape, rows) * 4;
}

int64_t BufferBytes(const ModelShape& shape, int64_t paths, int64_t query_rows) {
  return paths * shape.n_layers * LayerElements(shape, (query_rows + 15) / 16 * 16) * 4;
}

ModelFiles::ModelFiles(const ModelShape& shape) : shape_(shape) {
  for (auto& [name, extents] : AllShapes(shape)) {
    const int64_t elements = Elements(extents);
    tensors_[name] = TensorData{extents, std::vector<float>(elements, 0.0f)};
  }
}

TensorData& ModelFiles::operator[](const std::string& name) {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  ADD_FAILURE() << "no tensor is named " << name;
  return tensors_["ar_tokens"];
}

void ModelFiles::FillRandom(uint64_t seed, double gain) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  for (auto& [name, tensor] : tensors_) {
    const bool norm_weight = absl::StrContains(name, "norm") && absl::EndsWith(name, ".weight");
    const bool matrix = tensor.shape.size() == 2 && tensor.shape[1] > 1 && name != "ar_tokens" &&
                        !absl::StrContains(name, "marker");
    double scale = absl::StrContains(name, "norm") ? 0.1 : 0.5;
    if (matrix) scale = gain / std::sqrt(static_cast<double>(tensor.shape[1]));
    for (float& value : tensor.values) {
      value = static_cast<float>((norm_weight ? 1.0 : 0.0) + scale * normal(random));
    }
  }
}

void ModelFiles::SetMixture(const ExactMixture& mixture) {
  for (const char* name :
       {"head.head.0.weight", "head.head.0.bias", "head.head.2.weight", "head.head.2.bias"}) {
    std::fill((*this)[name].values.begin(), (*this)[name].values.end(), 0.0f);
  }
  for (int64_t j = 0; j < shape_.num_components; ++j) {
    (*this)["head.mean_bias"].values[j] = static_cast<float>(mixture.mean[j]);
    // The inverse of std = softplus(bias) + std_min.
    (*this)["head.std_bias"].values[j] =
        static_cast<float>(std::log(std::expm1(mixture.std[j] - shape_.std_min)));
    (*this)["head.weight_bias"].values[j] = static_cast<float>(std::log(mixture.weight[j]));
  }
}

void ModelFiles::Write(const std::string& folder) const {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors_) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()),
                tensor.values.size() * sizeof(float));
    header[name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string length_bytes(sizeof(length), '\0');
  std::memcpy(length_bytes.data(), &length, sizeof(length));  // the format is little-endian
  std::filesystem::create_directories(folder);
  WriteFile(folder + "/config.json", ConfigJson(shape_).dump(1));
  WriteFile(folder + "/model.safetensors", length_bytes + text + data);
}

std::string GoldenFolder(const std::string& name) {
  return SourceFolder() + "/tests/golden/" + name;
}

void CopyModel(const std::string& from, const std::string& to) {
  std::filesystem::create_directories(to);
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(from + "/" + file, to + "/" + file,
                               std::filesystem::copy_options::overwrite_existing);
  }
}

}  // namespace chorale::end_to_end
