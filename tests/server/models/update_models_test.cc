#include "server/models/update_models.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/fake_engine.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Model Named(const std::string& name, const std::string& content = "content") {
  Model model;
  model.name = name;
  model.digest = content;
  return model;
}

class UpdateModelsTest : public ::testing::Test {
 protected:
  UpdateModelsTest() { EXPECT_TRUE(engine_.AddModel(Named("a")).ok()); }

  absl::Status Update(const std::vector<Model>& models) { return UpdateModels(models, &engine_); }
  std::vector<std::string> Skipped() {
    std::vector<std::string> names;
    for (const SkippedModel& model : engine_.SkippedModels()) {
      names.push_back(model.name);
      EXPECT_EQ(model.reason, "Install the library.");
    }
    return names;
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const ModelInfo& info : engine_.Models()) names.push_back(info.name);
    return names;
  }

  FakeEngine engine_;
};

TEST_F(UpdateModelsTest, AddsSetsTheDefaultAndRemoves) {
  EXPECT_TRUE(Update({Named("a"), Named("b")}).ok());
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  EXPECT_TRUE(Update({Named("b"), Named("a")}).ok());
  EXPECT_THAT(Names(), ElementsAre("b", "a"));
  EXPECT_TRUE(Update({Named("a")}).ok());
  EXPECT_THAT(Names(), ElementsAre("a"));
  EXPECT_TRUE(Update({Named("c")}).ok());
  EXPECT_THAT(Names(), ElementsAre("c"));
  // After it was gone, a name can come back with other content.
  EXPECT_TRUE(Update({Named("a", "other"), Named("c")}).ok());
  EXPECT_EQ(engine_.Models()[0].digest, "other");
}

TEST_F(UpdateModelsTest, AnErrorChangesNothing) {
  const std::pair<std::vector<Model>, const char*> cases[] = {
      {{}, "the configuration contains no model"},
      {{Named("b"), Named("b")}, "two models have the name 'b'"},
      {{Named("b"), Named("a", "other")}, "the files of model 'a' have changed"},
      {{Named("b"), Named("too-large")}, "model 'too-large' cannot be served: no memory is left"},
      {{Named("wide"), Named("b"), Named("too-large")}, "'too-large' cannot be served"},
      {{Named("wide")}, "model 'wide' cannot be served: Install the library."},
  };
  for (const auto& [models, what] : cases) {
    EXPECT_THAT(std::string(Update(models).message()), HasSubstr(what));
    EXPECT_THAT(Names(), ElementsAre("a"));
    EXPECT_THAT(Skipped(), IsEmpty());
    EXPECT_EQ(engine_.Models()[0].digest, "content");
  }
}

TEST_F(UpdateModelsTest, WhatTheMachineLacksIsSkippedAndAllElseIsDone) {
  EXPECT_TRUE(Update({Named("wide"), Named("b")}).ok());
  EXPECT_THAT(Skipped(), ElementsAre("wide"));
  EXPECT_THAT(Names(), ElementsAre("b"));  // "a" was to go
  // One that is served may be all that is left.
  EXPECT_TRUE(Update({Named("wide"), Named("b")}).ok());
  EXPECT_THAT(Skipped(), ElementsAre("wide"));
  engine_.has_library = true;
  EXPECT_FALSE(Update({Named("wide"), Named("too-large")}).ok());
  EXPECT_THAT(Skipped(), ElementsAre("wide"));
  EXPECT_TRUE(Update({Named("wide"), Named("b")}).ok());
  EXPECT_THAT(Skipped(), IsEmpty());
  EXPECT_THAT(Names(), ElementsAre("wide", "b"));
  EXPECT_EQ(engine_.Models()[0].form, "wide");
}

}  // namespace
}  // namespace chorale
