#include "engine/model/model_config.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "kernels/ops/shared_context_attention.h"
#include "nlohmann/json.hpp"

namespace chorale {
namespace {

constexpr absl::string_view kArTabPfn = "ar_tabpfn";
constexpr absl::string_view kCellAttention = "cell_attention";
constexpr absl::string_view kRowEncoders[] = {"feature_mean", kCellAttention};

constexpr int64_t kMaxWidth = 16'384;  // D and Dff
constexpr int64_t kMaxHeads = 256;
constexpr int64_t kMaxLayers = 256;
constexpr int64_t kMaxComponents = 1'024;
constexpr int64_t kMaxBufferSize = 65'536;
constexpr int64_t kMaxFeatures = 65'536;
constexpr int64_t kMaxTrainedRows = int64_t{1} << 40;
constexpr int64_t kMaxEncoderWidth = 1'024;
constexpr int64_t kMaxEncoderTokens = 256;  // inducing points of a column, seed tokens of a row
constexpr size_t kMaxJsonBytes = 64 << 10;
constexpr size_t kMaxQuotedKeyBytes = 64;

using JsonValue = std::variant<int64_t, double, std::string>;
using FlatJson = std::map<std::string, JsonValue, std::less<>>;

absl::Status Invalid(absl::string_view key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", what));
}

// Accepts a single object of numbers and strings. Parses events, so that duplicate keys are
// detected and nesting is rejected at the first bracket.
class FlatHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  FlatJson Take() { return std::move(values_); }
  const std::string& error() const { return error_; }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool binary(binary_t&) override { return Unexpected("binary data"); }
  bool start_array(size_t) override { return Unexpected("a list"); }
  bool end_array() override { return Unexpected("the end of a list"); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(value); }
  bool end_object() override { return true; }

  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) return Unexpected("a number above 2^63");
    return Add(static_cast<int64_t>(value));
  }
  bool start_object(size_t) override {
    if (inside_) return Unexpected("an object");
    inside_ = true;
    return true;
  }
  bool key(string_t& value) override {
    key_ = value.substr(0, kMaxQuotedKeyBytes);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    error_ = absl::StrCat("not valid JSON near byte ", position);
    return false;
  }

 private:
  bool Unexpected(absl::string_view what) {
    error_ = inside_ ? absl::StrCat(key_, ": unexpected ", what)
                     : absl::StrCat(what, ", but an object is required");
    return false;
  }
  bool Add(JsonValue value) {
    if (!inside_) return Unexpected("a value");
    if (values_.emplace(key_, std::move(value)).second) return true;
    error_ = absl::StrCat(key_, ": occurs twice");
    return false;
  }

  bool inside_ = false;
  std::string key_;
  FlatJson values_;
  std::string error_;
};

enum class Presence { kRequired, kOptional };

// Takes fields from the object one by one and keeps the first error. A field that remains at the
// end is unknown; an absent optional field keeps its default.
class FieldReader {
 public:
  explicit FieldReader(FlatJson values) : values_(std::move(values)) {}

  void Integer(absl::string_view key, Presence presence, int64_t min, int64_t max, int64_t* field) {
    const JsonValue* value = Take(key, presence);
    if (value == nullptr) return;
    const int64_t* number = std::get_if<int64_t>(value);
    if (number == nullptr) return Fail(Invalid(key, "must be an integer"));
    if (*number < min || *number > max) {
      return Fail(Invalid(key, absl::StrCat(*number, " is outside [", min, ", ", max, "]")));
    }
    *field = *number;
  }

  void Real(absl::string_view key, Presence presence, double min, double max, float* field) {
    const JsonValue* value = Take(key, presence);
    if (value == nullptr) return;
    if (std::holds_alternative<std::string>(*value)) {
      return Fail(Invalid(key, "must be a number"));
    }
    const double number = std::holds_alternative<double>(*value)
                              ? std::get<double>(*value)
                              : static_cast<double>(std::get<int64_t>(*value));
    if (!(number >= min && number <= max)) {  // NaN is out of range, too
      return Fail(Invalid(key, absl::StrCat(number, " is outside [", min, ", ", max, "]")));
    }
    *field = static_cast<float>(number);
  }

  void Text(absl::string_view key, Presence presence, size_t max_bytes, std::string* field) {
    const JsonValue* value = Take(key, presence);
    if (value == nullptr) return;
    const std::string* text = std::get_if<std::string>(value);
    if (text == nullptr) return Fail(Invalid(key, "must be a string"));
    if (text->size() > max_bytes) {
      return Fail(Invalid(key, absl::StrCat("longer than ", max_bytes, " bytes")));
    }
    *field = *text;
  }

  void Normalize(absl::string_view key, Normalization* field) {
    std::string text = "none";
    Text(key, Presence::kOptional, 32, &text);
    if (text != "none" && text != "zscore") {
      return Fail(Invalid(key, absl::StrCat("'", text, "' must be 'none' or 'zscore'")));
    }
    *field = text == "none" ? Normalization::kNone : Normalization::kZScore;
  }

  void ReadSeasonColumn(absl::string_view key, SeasonColumn* field) {
    std::string text = "none";
    Text(key, Presence::kOptional, 32, &text);
    if (text != "none" && text != "phase") {
      return Fail(Invalid(key, absl::StrCat("'", text, "' must be 'none' or 'phase'")));
    }
    *field = text == "none" ? SeasonColumn::kNone : SeasonColumn::kPhase;
  }

  // Returns the first error, or an error for a key that was not taken.
  absl::Status Finish() const {
    RETURN_IF_ERROR(status_);
    for (const auto& [key, value] : values_) {
      if (!taken_.contains(key)) return Invalid(key, "unknown key");
    }
    return absl::OkStatus();
  }

 private:
  const JsonValue* Take(absl::string_view key, Presence presence) {
    const auto it = values_.find(key);
    if (it != values_.end()) {
      taken_.insert(it->first);
      return &it->second;
    }
    if (presence == Presence::kRequired) Fail(Invalid(key, "missing"));
    return nullptr;
  }
  void Fail(absl::Status status) { status_.Update(status); }

  const FlatJson values_;
  std::set<std::string, std::less<>> taken_;
  absl::Status status_;
};

void ReadCellAttention(FieldReader& fields, ModelConfig* config) {
  constexpr Presence kRequired = Presence::kRequired;
  fields.Integer("encoder_width", kRequired, 8, kMaxEncoderWidth, &config->encoder_width);
  fields.Integer("encoder_heads", kRequired, 1, kMaxHeads, &config->encoder_heads);
  fields.Integer("encoder_induced_points", kRequired, 1, kMaxEncoderTokens,
                 &config->encoder_induced_points);
  fields.Integer("encoder_row_layers", kRequired, 0, kMaxLayers, &config->encoder_row_layers);
  fields.Integer("encoder_pooled_tokens", kRequired, 1, kMaxEncoderTokens,
                 &config->encoder_pooled_tokens);
}

absl::Status CheckCellAttention(const ModelConfig& config) {
  if (config.max_features == 0) {
    return Invalid("max_features", "cell_attention requires a value above 0");
  }
  if (config.encoder_width % config.encoder_heads != 0 ||
      !kernels::IsSupportedHeadDim(config.encoder_width / config.encoder_heads)) {
    return Invalid("encoder_heads", "encoder_width / encoder_heads must be 8, 16, 32, 64 or 128");
  }
  return absl::OkStatus();
}

// Constraints between fields.
absl::Status CheckTogether(const ModelConfig& config) {
  if (config.model_type != kArTabPfn) {
    return Invalid("model_type",
                   absl::StrCat("'", config.model_type, "' is unknown; known: ", kArTabPfn));
  }
  bool known = false;
  for (absl::string_view name : kRowEncoders) known |= config.row_encoder == name;
  if (!known) {
    return Invalid("row_encoder", absl::StrCat("'", config.row_encoder, "' is unknown; known: ",
                                               absl::StrJoin(kRowEncoders, ", ")));
  }
  if (config.d_model % config.n_heads != 0) {
    return Invalid("n_heads",
                   absl::StrCat(config.n_heads, " does not divide d_model ", config.d_model));
  }
  if (config.n_heads % config.n_kv_heads != 0) {
    return Invalid("n_kv_heads",
                   absl::StrCat(config.n_kv_heads, " does not divide n_heads ", config.n_heads));
  }
  if (!kernels::IsSupportedHeadDim(config.head_dim())) {
    return Invalid("d_model", absl::StrCat("d_model / n_heads is ", config.head_dim(),
                                           "; it must be 8, 16, 32, 64 or 128"));
  }
  if (config.max_features > 0 && config.num_features > config.max_features) {
    return Invalid("num_features", absl::StrCat(config.num_features, " is above max_features ",
                                                config.max_features));
  }
  return config.row_encoder == kCellAttention ? CheckCellAttention(config) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json) {
  if (json.size() > kMaxJsonBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the config has ", json.size(), " bytes; the limit is ", kMaxJsonBytes));
  }
  FlatHandler handler;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &handler)) {
    return absl::InvalidArgumentError(handler.error());
  }
  constexpr Presence kRequired = Presence::kRequired;
  constexpr Presence kOptional = Presence::kOptional;
  FieldReader fields(handler.Take());
  ModelConfig config;
  config.row_encoder = "feature_mean";
  fields.Text("model_type", kRequired, 64, &config.model_type);
  fields.Text("row_encoder", kOptional, 64, &config.row_encoder);
  fields.Integer("d_model", kRequired, 8, kMaxWidth, &config.d_model);
  fields.Integer("n_heads", kRequired, 1, kMaxHeads, &config.n_heads);
  config.n_kv_heads = config.n_heads;
  fields.Integer("n_kv_heads", kOptional, 1, kMaxHeads, &config.n_kv_heads);
  fields.Integer("n_layers", kRequired, 1, kMaxLayers, &config.n_layers);
  fields.Integer("d_ff", kRequired, 1, kMaxWidth, &config.d_ff);
  fields.Integer("num_components", kRequired, 1, kMaxComponents, &config.num_components);
  fields.Integer("buffer_size", kRequired, 1, kMaxBufferSize, &config.buffer_size);
  fields.Integer("num_features", kRequired, 1, kMaxFeatures, &config.num_features);
  fields.Integer("max_features", kOptional, 0, kMaxFeatures, &config.max_features);
  fields.Integer("trained_rows", kOptional, 0, kMaxTrainedRows, &config.trained_rows);
  fields.Integer("trained_features", kOptional, 0, kMaxFeatures, &config.trained_features);
  if (config.row_encoder == kCellAttention) ReadCellAttention(fields, &config);
  fields.Real("std_min", kRequired, 1e-6, 1e6, &config.std_min);
  fields.Real("std_max", kRequired, 1e-6, 1e6, &config.std_max);
  fields.Real("layer_norm_eps", kOptional, 1e-12, 1e-1, &config.layer_norm_eps);
  fields.Normalize("normalize_x", &config.normalize_x);
  fields.Normalize("normalize_y", &config.normalize_y);
  fields.ReadSeasonColumn("season_column", &config.season_column);
  fields.Text("notice", kOptional, 1'024, &config.notice);
  absl::Status status = fields.Finish();
  if (status.ok()) status = CheckTogether(config);
  RETURN_IF_ERROR(status);
  return config;
}

}  // namespace chorale
