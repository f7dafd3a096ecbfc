#include "server/reload.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/models/model_folders.h"
#include "server/telemetry/logging.h"
#include "spdlog/spdlog.h"
#include "tests/server/log_recorder.h"
#include "tests/server/server_fixture.h"

namespace chorale {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ReloadTest : public ServerFixture {
 protected:
  ReloadTest() { spdlog::default_logger_raw()->set_level(spdlog::level::info); }
  ~ReloadTest() override {
    spdlog::default_logger_raw()->set_level(spdlog::level::info);
    std::filesystem::remove(file_);
  }

  // A server that runs with this file.
  void Run(const std::string& text, const std::vector<std::string>& models = {"m"}) {
    Write(text);
    absl::StatusOr<Configuration> configuration = LoadConfiguration(sources_);
    ASSERT_TRUE(configuration.ok()) << configuration.status();
    engine_->models = {{"m", {}, "m's digest"}};
    options_.limits = configuration->options.server.limits;
    engine_->on_predict = [](const PredictRequest&) { return PredictResult(); };
    StartServer();
    OpenServer();
    reloader_ = std::make_unique<Reloader>(sources_, *configuration, ModelsVersion(models),
                                           LoadFakes(), CheckTheFiles, server_.get());
  }
  void Write(const std::string& text) {
    std::ofstream(file_) << "models: [" << models_ << "]\ndata_dir: d\n" << text;
  }
  // Models named as their entries are; none can be loaded from "broken".
  Reloader::LoadModels LoadFakes() {
    return [this](const std::vector<std::string>& entries) -> absl::StatusOr<std::vector<Model>> {
      ++loads_;
      std::vector<Model> models;
      for (const std::string& entry : entries) {
        if (entry == "broken") return absl::NotFoundError("broken/config.json is not there");
        models.emplace_back();
        models.back().name = entry;
        models.back().digest = absl::StrCat(entry, "'s digest");
      }
      return models;
    };
  }
  std::vector<std::string> Models() {
    std::vector<std::string> names;
    for (const ModelInfo& info : engine_->Models()) names.push_back(info.name);
    return names;
  }
  static StartCheck CheckTheFiles(const ProgramOptions& options) {
    return CheckFiles(options, FindResources());
  }
  void Reload(const std::string& text) {
    Write(text);
    reloader_->Reload();
  }

  // The outcome of a call with two query rows.
  grpc::Status Predict() {
    v1::PredictResponse response;
    return stub_->Predict(NewContext().get(), PredictMessage(), &response);
  }
  double Reloads(const std::string& result) {
    for (const auto& family : server_->metrics()->registry()->Collect()) {
      if (family.name != "chorale_config_reloads_total") continue;
      for (const auto& metric : family.metric) {
        if (metric.label[0].value == result) return metric.counter.value;
      }
    }
    return -1;
  }

  const absl::FlagSaver saver_;
  std::string models_ = "m";
  int loads_ = 0;
  const std::string file_ = std::filesystem::path(::testing::TempDir()) /
                            absl::StrCat("chorale-reload-", getpid(), ".yaml");
  const ConfigurationSources sources_{{absl::StrCat("--config=", file_)}, {}};
  std::unique_ptr<Reloader> reloader_;
};

TEST_F(ReloadTest, LimitsAndLogLevelAreTakenOver) {
  Run("max_query_rows: 1000\n");
  EXPECT_TRUE(Predict().ok());
  Reload("max_query_rows: 1\nmax_paths: 5\nlog_level: error\n");
  const grpc::Status refused = Predict();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldOf(refused), "rows");
  EXPECT_EQ(engine_->limits().max_paths, 5);
  EXPECT_EQ(engine_->limits().max_query_rows, 1);
  EXPECT_EQ(spdlog::default_logger_raw()->level(), spdlog::level::err);
  Reload("");
  EXPECT_TRUE(Predict().ok());
  EXPECT_EQ(engine_->limits().max_paths, Limits().max_paths);
  EXPECT_EQ(spdlog::default_logger_raw()->level(), spdlog::level::info);
  EXPECT_EQ(Reloads("ok"), 2);
  EXPECT_EQ(Reloads("error"), 0);
}

TEST_F(ReloadTest, ModelsComeAndGo) {
  Run("");
  models_ = "n, m";
  Reload("");
  EXPECT_THAT(Models(), ElementsAre("n", "m"));
  models_ = "n";
  Reload("");
  EXPECT_THAT(Models(), ElementsAre("n"));
  EXPECT_EQ(Reloads("ok"), 2);
}

TEST_F(ReloadTest, ModelsAreReadOnlyIfOneOfThemHasChanged) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / absl::StrCat("models-", getpid());
  fs::create_directory(folder);
  models_ = folder.string();
  std::ofstream(folder / "config.json") << "{}";
  Run("", {models_});
  engine_->models = {{models_, {}, absl::StrCat(models_, "'s digest")}};
  Reload("max_query_rows: 1\n");
  EXPECT_EQ(loads_, 0);
  EXPECT_EQ(engine_->limits().max_query_rows, 1);
  std::ofstream(folder / "model.safetensors") << "changed";
  Reload("max_query_rows: 1\n");
  EXPECT_EQ(loads_, 1);
  Reload("max_query_rows: 2\n");
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(Reloads("ok"), 3);
  fs::remove_all(folder);
}

TEST_F(ReloadTest, AModelForWhichTheMachineLacksSomethingIsTriedAgainEachTime) {
  Run("");
  models_ = "wide, m, n";
  Reload("max_query_rows: 1\n");
  EXPECT_THAT(Models(), ElementsAre("m", "n"));
  EXPECT_EQ(engine_->limits().max_query_rows, 1);
  Reload("max_query_rows: 1\n");
  EXPECT_EQ(loads_, 2);
  engine_->has_library = true;
  Reload("max_query_rows: 1\n");
  EXPECT_THAT(Models(), ElementsAre("wide", "m", "n"));
  Reload("max_query_rows: 2\n");
  EXPECT_EQ(loads_, 3);
  EXPECT_EQ(Reloads("ok"), 4);
}

TEST_F(ReloadTest, AModelThatWasSkippedAtTheStartIsTriedAgain) {
  models_ = "wide, m";
  engine_->SetSkippedModels({{"wide", "Install the library."}});
  Run("", {"wide", "m"});
  Reload("");
  EXPECT_THAT(Models(), ElementsAre("m"));
  engine_->has_library = true;
  Reload("");
  EXPECT_THAT(Models(), ElementsAre("wide", "m"));
  EXPECT_EQ(loads_, 2);
}

// They are looked at again each time.
TEST_F(ReloadTest, AModelThatCannotBeServedChangesNothing) {
  Run("");
  for (const char* models : {"n, broken", "n, too-large, m", "n, n"}) {
    models_ = models;
    Reload("max_query_rows: 1\n");
    EXPECT_THAT(Models(), ElementsAre("m"));
    EXPECT_TRUE(Predict().ok());
  }
  EXPECT_EQ(Reloads("error"), 3);
}

TEST_F(ReloadTest, AWrongFileChangesNothing) {
  Run("max_query_rows: 1000\n");
  for (const char* text :
       {"max_query_rows: 1\nmax_paths: none\n", "max_query_rows: 1\nno_such_flag: 1\n",
        "max_query_rows: 1\nmax_paths: 0\n", "max_query_rows: 1\nmax_query_rows: 1\n",
        "max_query_rows: [\n"}) {
    Reload(text);
    EXPECT_TRUE(Predict().ok()) << text;
  }
  EXPECT_EQ(Reloads("ok"), 0);
  EXPECT_EQ(Reloads("error"), 5);
}

// Until the files are taken over, however long that takes.
TEST_F(ReloadTest, TheMetricsSayThatAFileIsRefused) {
  const auto successful = [this] {
    for (const auto& family : server_->metrics()->registry()->Collect()) {
      if (family.name == "chorale_config_last_reload_successful") {
        return family.metric[0].gauge.value;
      }
    }
    return -1.0;
  };
  Run("");
  EXPECT_EQ(successful(), 1);
  Reload("max_paths: none\n");
  EXPECT_EQ(successful(), 0);
  Reload("max_paths: 5\n");
  EXPECT_EQ(successful(), 1);
}

TEST_F(ReloadTest, SaysWhatWouldNotStart) {
  Run("");
  const auto log = std::make_shared<LogRecorder>();
  spdlog::default_logger_raw()->sinks().push_back(log);
  Reload("max_query_rows: 3\n");
  EXPECT_THAT(log->lines(), ElementsAre("info reloaded changed=max_query_rows"));
  Reload("max_query_rows: 4\ntoken_file: /nowhere/tokens\nport_file: /nowhere/else/port\n");
  EXPECT_EQ(Reloads("error"), 0);
  spdlog::default_logger_raw()->sinks().pop_back();
  EXPECT_THAT(log->lines().back(),
              AllOf(HasSubstr("reloaded changed=max_query_rows restart_required="),
                    HasSubstr("start_errors=\"/nowhere/tokens: cannot be read: No such file or "
                              "directory; --port_file: cannot write to /nowhere/else: ")));
}

TEST_F(ReloadTest, TheEnvironmentAndTheCommandLineStillHavePrecedence) {
  Run("max_query_rows: 1000\n");
  ConfigurationSources sources = sources_;
  sources.environment = {"CHORALE_MAX_QUERY_ROWS=1000"};
  reloader_ = std::make_unique<Reloader>(sources, LoadConfiguration(sources).value(), "",
                                         LoadFakes(), CheckTheFiles, server_.get());
  Reload("max_query_rows: 1\n");
  EXPECT_TRUE(Predict().ok());
}

// The engine must not make answers that do not fit into a message.
TEST_F(ReloadTest, TheSizeOfAMessageStays) {
  Run("");
  Reload("max_message_mib: 64\n");
  EXPECT_EQ(engine_->limits().max_response_bytes, Limits().max_response_bytes);
}

// Every flag is either in the list or needs a restart; the list names flags that exist.
TEST_F(ReloadTest, TheListHasFlagsOnly) {
  Run("");
  const Configuration configuration = LoadConfiguration(sources_).value();
  int reloadable = 0;
  for (const auto& [flag, value] : configuration.values) reloadable += IsReloadable(flag) ? 1 : 0;
  EXPECT_EQ(reloadable, 11);
  for (const char* flag : {"threads", "max_message_mib", "listen_address", "data_dir"}) {
    EXPECT_FALSE(IsReloadable(flag)) << flag;
  }
}

}  // namespace
}  // namespace chorale
