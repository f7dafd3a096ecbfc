#include "engine/model/model_config.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;

constexpr char kConfig[] = R"({
  "model_type": "ar_tabpfn",
  "d_model": 128,
  "n_heads": 4,
  "n_layers": 12,
  "d_ff": 256,
  "num_components": 20,
  "buffer_size": 32,
  "num_features": 2,
  "std_min": 0.001,
  "std_max": 2.0,
  "layer_norm_eps": 1e-05
})";

// The config with one value replaced, or one key added when it was not there.
std::string With(const std::string& key, const std::string& value) {
  std::string json = kConfig;
  const size_t at = json.find("\"" + key + "\"");
  if (at == std::string::npos) return "{\"" + key + "\": " + value + "," + json.substr(1);
  const size_t begin = json.find(':', at) + 1;
  const size_t end = json.find_first_of(",\n", begin);
  return json.substr(0, begin) + value + json.substr(end);
}

void ExpectRefused(const std::string& json, const std::string& reason) {
  const absl::StatusOr<ModelConfig> config = ParseModelConfig(json);
  ASSERT_FALSE(config.ok()) << json;
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(config.status().message()), HasSubstr(reason));
}

TEST(ModelConfigTest, ReadsEveryFieldAndFillsInDefaults) {
  const absl::StatusOr<ModelConfig> config = ParseModelConfig(kConfig);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model_type, "ar_tabpfn");
  EXPECT_EQ(config->row_encoder, "feature_mean");
  EXPECT_EQ(config->d_model, 128);
  EXPECT_EQ(config->n_heads, 4);
  EXPECT_EQ(config->n_kv_heads, 4);
  EXPECT_EQ(config->n_layers, 12);
  EXPECT_EQ(config->d_ff, 256);
  EXPECT_EQ(config->num_components, 20);
  EXPECT_EQ(config->buffer_size, 32);
  EXPECT_EQ(config->num_features, 2);
  EXPECT_EQ(config->max_features, 0);
  EXPECT_EQ(config->std_min, 0.001f);
  EXPECT_EQ(config->std_max, 2.0f);
  EXPECT_EQ(config->layer_norm_eps, 1e-5f);
  EXPECT_EQ(config->normalize_x, Normalization::kNone);
  EXPECT_EQ(config->normalize_y, Normalization::kNone);
  EXPECT_EQ(config->season_column, SeasonColumn::kNone);
  EXPECT_EQ(config->head_dim(), 32);
  EXPECT_EQ(config->kv_width(), 128);
}

TEST(ModelConfigTest, ReadsOptionalFields) {
  EXPECT_EQ(ParseModelConfig(With("n_kv_heads", "2"))->kv_width(), 64);
  EXPECT_EQ(ParseModelConfig(With("max_features", "100"))->max_features, 100);
  EXPECT_EQ(ParseModelConfig(With("trained_rows", "4096"))->trained_rows, 4096);
  EXPECT_EQ(ParseModelConfig(With("trained_features", "50"))->trained_features, 50);
  EXPECT_EQ(ParseModelConfig(With("normalize_x", R"("zscore")"))->normalize_x,
            Normalization::kZScore);
  EXPECT_EQ(ParseModelConfig(With("normalize_y", R"("zscore")"))->normalize_y,
            Normalization::kZScore);
  EXPECT_EQ(ParseModelConfig(With("season_column", R"("phase")"))->season_column,
            SeasonColumn::kPhase);
  EXPECT_EQ(ParseModelConfig(With("season_column", R"("none")"))->season_column,
            SeasonColumn::kNone);
  EXPECT_EQ(ParseModelConfig(With("notice", R"("random")"))->notice, "random");
  EXPECT_EQ(ParseModelConfig(With("std_max", "2"))->std_max, 2.0f);
  EXPECT_EQ(ParseModelConfig(With("row_encoder", R"("feature_mean")"))->row_encoder,
            "feature_mean");
}

// The config with the row encoder cell_attention, less the key `without`, more `with`.
std::string CellConfig(const std::string& without = "", const std::string& with = "") {
  std::string json = std::string("{") + with;
  for (const char* key :
       {"max_features", "encoder_width", "encoder_heads", "encoder_induced_points",
        "encoder_row_layers", "encoder_pooled_tokens"}) {
    if (key != without) absl::StrAppend(&json, "\"", key, "\": 32, ");
  }
  absl::StrAppend(&json, R"("row_encoder": "cell_attention", )");
  return json + std::string(kConfig).substr(1);
}

TEST(ModelConfigTest, ReadsTheSizesOfCellAttention) {
  const absl::StatusOr<ModelConfig> config =
      ParseModelConfig(CellConfig("encoder_heads", R"("encoder_heads": 4, )"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->row_encoder, "cell_attention");
  EXPECT_EQ(config->max_features, 32);
  EXPECT_EQ(config->encoder_width, 32);
  EXPECT_EQ(config->encoder_heads, 4);
  EXPECT_EQ(config->encoder_induced_points, 32);
  EXPECT_EQ(config->encoder_row_layers, 32);
  EXPECT_EQ(config->encoder_pooled_tokens, 32);
}

TEST(ModelConfigTest, RefusesSizesOfCellAttentionThatDoNotFit) {
  for (const char* key : {"encoder_width", "encoder_heads", "encoder_induced_points",
                          "encoder_row_layers", "encoder_pooled_tokens"}) {
    ExpectRefused(CellConfig(key), absl::StrCat(key, ": missing"));
    ExpectRefused(CellConfig(key, absl::StrCat("\"", key, "\": 100000, ")),
                  absl::StrCat(key, ": 100000 is outside ["));
    ExpectRefused(With(key, "32"), absl::StrCat(key, ": unknown key"));  // of another encoder
  }
  ExpectRefused(CellConfig("max_features"), "max_features: ");
  ExpectRefused(CellConfig(), "encoder_heads: encoder_width / encoder_heads must be 8");
}

TEST(ModelConfigTest, RefusesMissingKeys) {
  for (const char* key : {"model_type", "d_model", "n_heads", "n_layers", "d_ff", "num_components",
                          "buffer_size", "num_features", "std_min", "std_max"}) {
    std::string json = kConfig;
    const size_t begin = json.find(absl::StrCat("\"", key, "\""));
    json.erase(begin, json.find('\n', begin) - begin);
    // The last key has a comma before it that is one too many now.
    json = absl::StrReplaceAll(json, {{",\n  \n}", "\n}"}});
    ExpectRefused(json, absl::StrCat(key, ": missing"));
  }
}

TEST(ModelConfigTest, RefusesUnknownAndDuplicateKeys) {
  ExpectRefused(With("d_modell", "128"), "d_modell: unknown key");
  ExpectRefused("{\"d_ff\": 256," + std::string(kConfig).substr(1), "d_ff: occurs twice");
}

TEST(ModelConfigTest, RefusesValuesOutOfBounds) {
  for (const char* key : {"d_model", "n_heads", "n_kv_heads", "n_layers", "d_ff", "num_components",
                          "buffer_size", "num_features"}) {
    for (const char* value : {"0", "-1", "1000000", "9223372036854775807"}) {
      ExpectRefused(With(key, value), absl::StrCat(key, ": ", value, " is outside ["));
    }
    ExpectRefused(With(key, "18446744073709551615"), absl::StrCat(key, ": unexpected a number"));
    ExpectRefused(With(key, "1.5"), absl::StrCat(key, ": must be an integer"));
    ExpectRefused(With(key, "\"4\""), absl::StrCat(key, ": must be an integer"));
  }
  for (const char* key : {"std_min", "std_max", "layer_norm_eps"}) {
    for (const char* value : {"0", "-1", "1e30"}) {
      ExpectRefused(With(key, value), absl::StrCat(key, ": "));
    }
    ExpectRefused(With(key, "NaN"), "not valid JSON");
    ExpectRefused(With(key, "1e999"), "not valid JSON");
    ExpectRefused(With(key, "true"), absl::StrCat(key, ": unexpected a boolean"));
    ExpectRefused(With(key, "null"), absl::StrCat(key, ": unexpected null"));
    ExpectRefused(With(key, "[1]"), absl::StrCat(key, ": unexpected a list"));
    ExpectRefused(With(key, "{}"), absl::StrCat(key, ": unexpected an object"));
    ExpectRefused(With(key, "\"1\""), absl::StrCat(key, ": must be a number"));
  }
}

TEST(ModelConfigTest, RefusesWhatDoesNotFitTogether) {
  ExpectRefused(With("model_type", R"("gpt")"), "model_type: 'gpt' is unknown; known: ar_tabpfn");
  ExpectRefused(With("row_encoder", R"("magic")"),
                "row_encoder: 'magic' is unknown; known: feature_mean, cell_attention");
  ExpectRefused(With("n_heads", "5"), "n_heads: 5 does not divide d_model 128");
  ExpectRefused(With("n_kv_heads", "3"), "n_kv_heads: 3 does not divide n_heads 4");
  ExpectRefused(With("n_kv_heads", "8"), "n_kv_heads: 8 does not divide n_heads 4");
  ExpectRefused(With("d_model", "160"), "d_model / n_heads is 40");
  ExpectRefused(With("max_features", "1"), "num_features: 2 is above max_features 1");
  ExpectRefused(With("normalize_x", R"("minmax")"), "normalize_x: 'minmax'");
  ExpectRefused(With("notice", "\"" + std::string(2000, 'x') + "\""), "notice: longer than 1024");
}

TEST(ModelConfigTest, RefusesWhatIsNotAnObject) {
  ExpectRefused("", "not valid JSON");
  ExpectRefused("5", "but an object is required");
  ExpectRefused("[]", "but an object is required");
  ExpectRefused(std::string(50'000, '['), "but an object is required");
  ExpectRefused(std::string(kConfig) + "x", "not valid JSON");
  ExpectRefused("\xff\xfe", "not valid JSON");
  ExpectRefused(std::string(70'000, ' '), "the limit is 65536");
}

TEST(ModelConfigTest, SurvivesEveryTruncation) {
  const std::string json = kConfig;
  for (size_t length = 0; length < json.size(); ++length) {
    EXPECT_FALSE(ParseModelConfig(json.substr(0, length)).ok()) << length;
  }
}

}  // namespace
}  // namespace chorale
