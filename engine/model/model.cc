#include "engine/model/model.h"

#include <openssl/evp.h>

#include <array>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/model/tensor_file.h"
#include "engine/model/weight_reader.h"

namespace chorale {
namespace {

// SHA-256 over the length of config.json (8 bytes, little-endian), config.json, model.safetensors.
absl::StatusOr<std::string> Digest(absl::Span<const uint8_t> config,
                                   absl::Span<const uint8_t> weights) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(),
                                                                     &EVP_MD_CTX_free);
  std::array<uint8_t, 8> length;
  for (size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<uint8_t>(static_cast<uint64_t>(config.size()) >> (8 * i));
  }
  std::array<uint8_t, 32> digest;
  if (hash == nullptr || EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) != 1 ||
      EVP_DigestUpdate(hash.get(), length.data(), length.size()) != 1 ||
      EVP_DigestUpdate(hash.get(), config.data(), config.size()) != 1 ||
      EVP_DigestUpdate(hash.get(), weights.data(), weights.size()) != 1 ||
      EVP_DigestFinal_ex(hash.get(), digest.data(), nullptr) != 1) {
    return absl::InternalError("SHA-256 is not available in the cryptography library");
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

// The last component of the path.
absl::StatusOr<std::string> ModelName(absl::string_view folder) {
  while (absl::ConsumeSuffix(&folder, "/")) {
  }
  const size_t slash = folder.rfind('/');
  const absl::string_view name =
      slash == absl::string_view::npos ? folder : folder.substr(slash + 1);
  // A new error, because the status of ValidateName has the field of a request.
  if (absl::Status valid = ValidateName("the folder's name", name); !valid.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": ", valid.message()));
  }
  return std::string(name);
}

// P = Wo Wv, [width, width], accumulated in float64. The caller that applies P adds x.
std::vector<float> FoldFeatureAttention(const std::vector<float>& wo, const std::vector<float>& wv,
                                        int64_t width) {
  std::vector<float> folded(width * width);
  std::vector<double> row(width);
  for (int64_t i = 0; i < width; ++i) {
    std::fill(row.begin(), row.end(), 0.0);
    for (int64_t k = 0; k < width; ++k) {
      const double weight = wo[i * width + k];
      const float* wv_row = wv.data() + k * width;
      for (int64_t j = 0; j < width; ++j) row[j] += weight * wv_row[j];
    }
    for (int64_t j = 0; j < width; ++j) folded[i * width + j] = static_cast<float>(row[j]);
  }
  return folded;
}

// Each row has one feature token here, so feature attention is a softmax over a single key. It is 1
// for any query and key: the file contains their projections, but the model does not use them.
std::vector<float> TakeFeatureAttention(WeightReader& reader, const std::string& name,
                                        int64_t width) {
  reader.CheckUnused(name + ".q_proj.weight", {width, width});
  reader.CheckUnused(name + ".k_proj.weight", {width, width});
  const std::vector<float> wv = reader.Take(name + ".v_proj.weight", {width, width});
  const std::vector<float> wo = reader.Take(name + ".out_proj.weight", {width, width});
  if (!reader.ok()) return {};
  return FoldFeatureAttention(wo, wv, width);
}

LayerWeights TakeLayer(WeightReader& reader, const ModelConfig& config, int64_t index) {
  const int64_t d = config.d_model;
  const int64_t kv = config.kv_width();
  const int64_t ff = config.d_ff;
  const std::string name = absl::StrCat("backbone.layers.", index);
  LayerWeights layer;
  layer.feature = TakeFeatureAttention(reader, name + ".attn_features", d);
  layer.norm1 = TakeNorm(reader, name + ".norm1", d);
  layer.wq = reader.Take(name + ".attn_rows.q_proj.weight", {d, d});
  layer.wk = reader.Take(name + ".attn_rows.k_proj.weight", {kv, d});
  layer.wv = reader.Take(name + ".attn_rows.v_proj.weight", {kv, d});
  layer.wo = reader.Take(name + ".attn_rows.out_proj.weight", {d, d});
  layer.norm2 = TakeNorm(reader, name + ".norm2", d);
  layer.w1 = reader.Take(name + ".ff.0.weight", {ff, d});
  layer.b1 = reader.Take(name + ".ff.0.bias", {ff});
  layer.w2 = reader.Take(name + ".ff.2.weight", {d, ff});
  layer.b2 = reader.Take(name + ".ff.2.bias", {d});
  layer.norm3 = TakeNorm(reader, name + ".norm3", d);
  return layer;
}

HeadWeights TakeHead(WeightReader& reader, const ModelConfig& config) {
  const int64_t d = config.d_model;
  const int64_t ff = config.d_ff;
  const int64_t m = config.num_components;
  HeadWeights head;
  head.norm = TakeNorm(reader, "backbone.norm", d);
  head.w1 = reader.Take("head.head.0.weight", {ff, d});
  head.b1 = reader.Take("head.head.0.bias", {ff});
  head.w2 = reader.Take("head.head.2.weight", {3 * m, ff});
  head.b2 = reader.Take("head.head.2.bias", {3 * m});
  head.mean_bias = reader.Take("head.mean_bias", {m});
  head.std_bias = reader.Take("head.std_bias", {m});
  head.weight_bias = reader.Take("head.weight_bias", {m});
  return head;
}

EmbeddingWeights TakeEmbedding(WeightReader& reader, const ModelConfig& config) {
  const int64_t d = config.d_model;
  EmbeddingWeights embedding;
  embedding.y_weight = reader.Take("embedder.y_embed.weight", {d, 1});
  embedding.y_bias = reader.Take("embedder.y_embed.bias", {d});
  embedding.marker = reader.Take("embedder.marker_embed.weight", {3, d});
  embedding.ar_tokens = reader.Take("ar_tokens", {config.buffer_size, d});
  return embedding;
}

absl::Status TakeWeights(TensorFile& file, Model* model) {
  const ModelConfig& config = model->config;
  WeightReader reader(file);
  model->embedding = TakeEmbedding(reader, config);
  if (config.row_encoder == "cell_attention") {
    model->row_encoder = TakeCellAttention(reader, config);
  } else {
    model->row_encoder = TakeFeatureMean(reader, config);
  }
  for (int64_t l = 0; l < config.n_layers && reader.ok(); ++l) {
    model->layers.push_back(TakeLayer(reader, config, l));
  }
  model->head = TakeHead(reader, config);
  model->parameters = reader.parameters();
  return reader.Finish();
}

}  // namespace

absl::StatusOr<Model> LoadModel(const std::string& folder) {
  Model model;
  ASSIGN_OR_RETURN(std::string name, ModelName(folder));
  model.name = std::move(name);

  const std::string config_path = absl::StrCat(folder, "/config.json");
  ASSIGN_OR_RETURN(FileBytes config_file, FileBytes::Read(config_path));
  const absl::Span<const uint8_t> config_bytes = config_file.bytes();
  absl::StatusOr<ModelConfig> config = ParseModelConfig(
      absl::string_view(reinterpret_cast<const char*>(config_bytes.data()), config_bytes.size()));
  if (!config.ok()) {
    return absl::Status(config.status().code(),
                        absl::StrCat(config_path, ": ", config.status().message()));
  }
  model.config = *std::move(config);

  ASSIGN_OR_RETURN(TensorFile weights,
                   TensorFile::Open(absl::StrCat(folder, "/model.safetensors")));
  // Before TakeWeights, which releases the bytes of each tensor.
  ASSIGN_OR_RETURN(std::string digest, Digest(config_bytes, weights.bytes()));
  model.digest = std::move(digest);
  const absl::Status taken = TakeWeights(weights, &model);
  RETURN_IF_ERROR(taken);
  return model;
}

}  // namespace chorale
