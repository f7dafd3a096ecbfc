#include "engine/model/model.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string Golden(const std::string& name) {
  return std::string(CHORALE_SOURCE_DIR) + "/tests/golden/" + name;
}

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void Spill(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// A copy of the tiny golden model that a test may damage.
class ModelTest : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = absl::StrCat(testing::TempDir(), "/model_test_", test->name());
    folder_ = root_ + "/tiny";
    std::filesystem::create_directories(folder_);
    config_ = Slurp(Golden("golden_tiny") + "/config.json");
    weights_ = Slurp(Golden("golden_tiny") + "/model.safetensors");
    Spill(folder_ + "/config.json", config_);
    Spill(folder_ + "/model.safetensors", weights_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // The weights with one text in the header replaced by another of the same length.
  std::string WithHeaderText(const std::string& from, const std::string& to) const {
    std::string bytes = weights_;
    const size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    EXPECT_EQ(from.size(), to.size());
    return bytes.replace(at, from.size(), to);
  }

  // The weights with element 0 of a tensor replaced.
  std::string WithFirstElement(const std::string& name, float value) const {
    std::string bytes = weights_;
    const absl::StatusOr<TensorFile> file =
        TensorFile::Parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    const ptrdiff_t at = file->Find(name)->data.data() - file->bytes().data();
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    return bytes;
  }

  void ExpectRefused(const std::string& reason) {
    const absl::StatusOr<Model> model = LoadModel(folder_);
    ASSERT_FALSE(model.ok()) << reason;
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(folder_));
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(reason));
  }

  std::string root_, folder_, config_, weights_;
};

TEST_F(ModelTest, LoadsTheGoldenModels) {
  const absl::StatusOr<Model> tiny = LoadModel(Golden("golden_tiny") + "/");
  ASSERT_TRUE(tiny.ok()) << tiny.status();
  EXPECT_EQ(tiny->name, "golden_tiny");
  EXPECT_THAT(tiny->layers, SizeIs(2));
  EXPECT_THAT(tiny->layers[1].w1, SizeIs(64 * 32));
  EXPECT_THAT(tiny->embedding.ar_tokens, SizeIs(8 * 32));
  EXPECT_THAT(tiny->head.w2, SizeIs(15 * 64));
  // All data of the file are float32. Unused: two layers' queries and keys of feature attention.
  EXPECT_EQ(tiny->parameters, (119'992 - 8 - 4'792) / 4 - 2 * 2 * 32 * 32);

  const absl::StatusOr<Model> base = LoadModel(Golden("golden_base"));
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_THAT(base->layers, SizeIs(12));
  EXPECT_NE(base->digest, tiny->digest);
}

TEST_F(ModelTest, TheCardOfTheDefaultModelTellsItsSize) {
  const std::string folder = absl::StrCat(CHORALE_SOURCE_DIR, "/models/default");
  const absl::StatusOr<Model> model = LoadModel(folder);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->parameters, 2'259'000);
  EXPECT_EQ(model->config.buffer_size, 64);
  const std::string card = Slurp(folder + "/README.md");
  EXPECT_THAT(card, HasSubstr("2.26 million parameters (2,259,000)"));
  EXPECT_THAT(card, HasSubstr("trained with up to 64"));
}

TEST_F(ModelTest, FoldsFeatureAttention) {
  const Model model = *LoadModel(folder_);
  const TensorFile file = *TensorFile::Open(folder_ + "/model.safetensors");
  const std::string layer = "backbone.layers.1.attn_features.";
  const std::vector<double> wo = ReadFloat64(*file.Find(layer + "out_proj.weight"));
  const std::vector<double> wv = ReadFloat64(*file.Find(layer + "v_proj.weight"));
  for (int i : {0, 5, 31}) {
    for (int j : {0, 5, 30}) {
      double expected = 0;
      for (int k = 0; k < 32; ++k) expected += wo[i * 32 + k] * wv[k * 32 + j];
      EXPECT_EQ(model.layers[1].feature[i * 32 + j], static_cast<float>(expected));
    }
  }
}

TEST_F(ModelTest, DigestCoversBothFiles) {
  const std::string digest = LoadModel(folder_)->digest;
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(LoadModel(folder_)->digest, digest);
  Spill(folder_ + "/config.json", config_ + " ");
  const std::string other_config = LoadModel(folder_)->digest;
  EXPECT_NE(other_config, digest);
  Spill(folder_ + "/config.json", config_);
  Spill(folder_ + "/model.safetensors", WithFirstElement("ar_tokens", 0.5f));
  EXPECT_NE(LoadModel(folder_)->digest, digest);
}

TEST_F(ModelTest, NamesWhatIsMissing) {
  EXPECT_EQ(LoadModel(root_ + "/absent").status().code(), absl::StatusCode::kNotFound);
  std::filesystem::remove(folder_ + "/model.safetensors");
  const absl::Status status = LoadModel(folder_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/model.safetensors"));
}

TEST_F(ModelTest, RefusesBadFolderNames) {
  for (const char* name : {"Tiny", "-tiny", "ti ny", ".", ".."}) {
    const absl::Status status = LoadModel(root_ + "/" + name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("folder's name")) << name;
  }
  EXPECT_THAT(std::string(LoadModel("").status().message()), HasSubstr("folder's name"));
  EXPECT_THAT(std::string(LoadModel(std::string(64, 'a')).status().message()),
              HasSubstr("folder's name"));
}

TEST_F(ModelTest, RefusesTensorsOfAnotherModel) {
  Spill(folder_ + "/model.safetensors", WithHeaderText("\"ar_tokens\"", "\"ar_tokenz\""));
  ExpectRefused("'ar_tokens' is missing");
  Spill(folder_ + "/model.safetensors", WithHeaderText("[8,32]", "[32,8]"));
  ExpectRefused("'ar_tokens': shape [32, 8] where [8, 32] must be");
  Spill(folder_ + "/model.safetensors", weights_);
  Spill(folder_ + "/config.json", absl::StrCat(R"({"n_kv_heads": 2,)", config_.substr(1)));
  ExpectRefused("k_proj.weight': shape [32, 32] where [16, 32] must be");
}

// With one layer fewer in the configuration, the file holds unexpected tensors.
TEST_F(ModelTest, RefusesUnexpectedTensors) {
  std::string config = config_;
  const size_t at = config.find("\"n_layers\": 2");
  ASSERT_NE(at, std::string::npos);
  Spill(folder_ + "/config.json", config.replace(at, 13, "\"n_layers\": 1"));
  ExpectRefused("'backbone.layers.1.attn_features.k_proj.weight' does not belong");
}

TEST_F(ModelTest, RefusesWeightsThatAreNotFinite) {
  Spill(folder_ + "/model.safetensors",
        WithFirstElement("head.head.2.bias", std::numeric_limits<float>::quiet_NaN()));
  ExpectRefused("'head.head.2.bias': element 0 is not finite");
  Spill(folder_ + "/model.safetensors",
        WithFirstElement("backbone.layers.0.attn_features.q_proj.weight",
                         std::numeric_limits<float>::infinity()));
  ExpectRefused("q_proj.weight': element 0 is not finite");
}

TEST_F(ModelTest, SurvivesTruncation) {
  for (size_t length = 0; length < weights_.size();
       length += length < 6'000 ? 97 : weights_.size() / 50) {
    Spill(folder_ + "/model.safetensors", weights_.substr(0, length));
    EXPECT_EQ(LoadModel(folder_).status().code(), absl::StatusCode::kInvalidArgument) << length;
  }
}

// A flipped bit of the header is refused, or does not change its meaning.
TEST_F(ModelTest, SurvivesBitFlips) {
  const size_t header_end = 8 + 4'792;
  for (size_t i = 0; i < weights_.size(); i += i < header_end ? 41 : 9'973) {
    std::string bytes = weights_;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << (i % 8)));
    Spill(folder_ + "/model.safetensors", bytes);
    const absl::StatusOr<Model> model = LoadModel(folder_);
    if (!model.ok()) {
      EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << i;
      continue;
    }
    EXPECT_THAT(model->layers, SizeIs(2)) << i;
  }
}

}  // namespace
}  // namespace chorale
