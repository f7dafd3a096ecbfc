#include "server/models/load_models.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/models/model_folders.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LoadModelsTest : public ::testing::Test {
 protected:
  std::string MakeModel(const std::string& name, const std::string& config) {
    fs::create_directories(folder_ / name);
    std::ofstream(folder_ / (name + "/config.json")) << config;
    return folder_ / name;
  }
  static bool Never() { return false; }

  TempFolder folder_;
};

TEST_F(LoadModelsTest, AnEntryIsAModelOrAFolderOfModels) {
  const std::string b = MakeModel("all/b", "{}");
  const std::string a = MakeModel("all/a", "{}");
  MakeModel("all/.hidden", "{}");
  fs::create_directory(folder_ / "all/empty");
  const std::string one = MakeModel("one", "{}");
  EXPECT_THAT(FindModelFolders({one, folder_ / "all", "missing"}),
              ElementsAre(one, a, b, "missing"));
}

TEST_F(LoadModelsTest, ErrorsNameTheFolder) {
  const std::string bad = MakeModel("bad", "not JSON");
  const auto models = LoadModels({bad}, Never);
  ASSERT_FALSE(models.ok());
  EXPECT_THAT(std::string(models.status().message()), HasSubstr(bad));
}

// As of another server's layout, MODEL/VERSION/..., or of the wrong folder.
TEST_F(LoadModelsTest, AFolderWithoutModelsSaysWhatIsExpected) {
  MakeModel("deep/model/1", "{}");
  const auto models = LoadModels({folder_ / "deep"}, Never);
  EXPECT_THAT(
      std::string(models.status().message()),
      HasSubstr(
          "a model folder contains a config.json, and a folder of models contains model folders"));
}

TEST_F(LoadModelsTest, ItStopsBetweenTwoModels) {
  int asked = 0;
  const std::string bad = MakeModel("bad", "not JSON");
  EXPECT_EQ(LoadModels({bad, bad}, [&] { return ++asked == 1; }).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(asked, 1);
}

TEST_F(LoadModelsTest, TheVersionTellsWhetherAnythingChanged) {
  const std::string all = folder_ / "all";
  MakeModel("all/a", "{}");
  const std::string first = ModelsVersion({all});
  EXPECT_EQ(ModelsVersion({all}), first);
  MakeModel("all/b", "{}");
  const std::string second = ModelsVersion({all});
  EXPECT_NE(second, first);
  std::ofstream(folder_ / "all/b/model.safetensors") << "weights";
  const std::string third = ModelsVersion({all});
  EXPECT_NE(third, second);
  MakeModel("all/a", "{ }");
  EXPECT_NE(ModelsVersion({all}), third);
  fs::remove_all(folder_ / "all/b");
  EXPECT_NE(ModelsVersion({all}), third);
}

}  // namespace
}  // namespace chorale
