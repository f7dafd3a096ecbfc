// Models that the fused kernels of a GPU cannot hold, on an emulated one: with a library for their
// products, the server serves them like others; without one it leaves them out and serves the rest.
// The libraries are stand-ins: one that computes, and one that says that it is too old.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/eventually.h"
#include "tests/support/length.h"

namespace chorale::end_to_end {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// Empty where the build has none.
constexpr char kEmulatedLibrary[] = CHORALE_CUDA_EMULATED_LIBRARY;
constexpr char kStandIn[] = CHORALE_STAND_IN_CUBLASLT;
constexpr char kTooOld[] = CHORALE_OLD_CUBLASLT;

class WideModelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(kEmulatedLibrary).empty() || std::string(kStandIn).empty()) {
      GTEST_SKIP() << "built without the emulator";
    }
    ModelFiles model({.d_model = 32, .d_ff = 4'160});  // wide by its hidden units, and small
    model.FillRandom(3, 1.0);
    model.Write(wide_);
  }

  // A small part of the GPU's memory: the emulator clears all of it, and the larger the workspace,
  // the more sizes of products are planned.
  ServerOptions Options(const std::vector<std::string>& models, const std::string& cublaslt) const {
    return {.models = models,
            .data_dir = folder_ / "data",
            .flags = {"--backend=cuda", "--context_pool_mib=8", "--buffer_pool_mib=16",
                      "--host_context_pool_mib=4", "--gpu_memory_fraction=0.1",
                      "--weights_pool_mib=16", absl::StrCat("--cublaslt=", cublaslt)},
            .environment = {absl::StrCat("CHORALE_CUDA_LIBRARY=", kEmulatedLibrary)}};
  }
  void Start(const std::vector<std::string>& models, const std::string& cublaslt) {
    Stop();
    server_ = ServerProcess::Start(Options(models, cublaslt));
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
  }
  void Stop() {
    client_.reset();
    if (server_ != nullptr) server_->Terminate();
    server_.reset();
  }
  void TearDown() override { Stop(); }

  // Of each model its id, its form, and a star for the default; by name.
  std::vector<std::string> Listed() const {
    grpc::ClientContext context;
    v1::ListModelsResponse response;
    const grpc::Status status = client_->stub().ListModels(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<std::string> lines;
    for (const v1::Model& model : response.models()) {
      lines.push_back(
          absl::StrCat(model.name(), " ", model.form(), model.is_default() ? " *" : ""));
    }
    return lines;
  }
  PrometheusPage Page() const { return PrometheusPage::Fetch(server_->metrics_address()); }
  grpc::Status Register(const std::string& context, const std::string& model) const {
    return client_->Register(context, RandomRows(20, 3, 1), model).status;
  }
  // Of three paths of four targets.
  Samples Draw(const std::string& context, uint64_t seed) const {
    v1::SampleRequest request = MakeSample(context, RandomRows(4, 3, 2), 3, seed);
    request.set_include_log_densities(true);
    Samples samples = ApiClient(server_->address()).Sample(request);
    EXPECT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;
    return samples;
  }
  // The lines of the log that have one of these.
  std::vector<std::string> LinesWith(const std::vector<std::string>& texts) const {
    std::vector<std::string> lines = absl::StrSplit(server_->log(), '\n');
    std::erase_if(lines, [&](const std::string& line) {
      return std::none_of(texts.begin(), texts.end(),
                          [&](const std::string& text) { return absl::StrContains(line, text); });
    });
    return lines;
  }
  int64_t Count(const std::string& text) const {
    return static_cast<int64_t>(LinesWith({text}).size());
  }
  // Without the wide model all else works.
  void ExpectTheOtherServed() const {
    EXPECT_THAT(Listed(), ElementsAre("models/golden_tiny fused *"));
    EXPECT_EQ(Register("wide", "models/wide").error_code(), grpc::StatusCode::NOT_FOUND);
    const grpc::Status registered = Register("narrow", "");
    EXPECT_TRUE(registered.ok()) << registered.error_message();
    Draw("narrow", 5);
    const PrometheusPage page = Page();
    EXPECT_TRUE(page.Has("chorale_model_info", "model=\"golden_tiny\""));
    EXPECT_EQ(page.Value("chorale_model_skipped", "model=\"wide\""), 1);
    EXPECT_EQ(page.Value("chorale_model_skipped"), 1);  // no other
  }

  const TempFolder folder_;
  const std::string narrow_ = GoldenFolder("golden_tiny");
  const std::string wide_ = folder_ / "wide";
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(WideModelsTest, AreServedBesideOthersAndRepeatTheirBits) {
  Start({narrow_, wide_}, kStandIn);
  ASSERT_NE(client_, nullptr);
  EXPECT_THAT(Listed(), ElementsAre("models/golden_tiny fused *", "models/wide unfused"));
  EXPECT_TRUE(Eventually([&] { return Count(" serving ") == 1; }));
  // A model is said to be loaded once it is known to be served, by the backend that was opened.
  EXPECT_THAT(LinesWith({"backend_opened", "model_loaded", "model_skipped", " serving "}),
              ElementsAre(HasSubstr("backend_opened"),
                          AllOf(HasSubstr("model=golden_tiny"), EndsWith(" form=fused")),
                          AllOf(HasSubstr("model=wide"), EndsWith(" form=unfused")),
                          HasSubstr(" serving ")));
  ASSERT_TRUE(Register("narrow", "").ok());
  ASSERT_TRUE(Register("wide", "models/wide").ok());
  const Samples alone = Draw("wide", 7);
  const Samples narrow = Draw("narrow", 7);
  EXPECT_FALSE(SameBits(Draw("wide", 8), alone));

  // While others draw from both models.
  std::vector<std::thread> others;
  for (int i = 0; i < (FullLength() ? 12 : 2); ++i) {
    others.emplace_back([&, i] { Draw(i % 2 == 0 ? "wide" : "narrow", 100 + i); });
  }
  EXPECT_EQ(Difference(Draw("wide", 7), alone), "");
  EXPECT_EQ(Difference(Draw("narrow", 7), narrow), "");
  for (std::thread& other : others) other.join();

  Start({narrow_, wide_}, kStandIn);
  ASSERT_NE(client_, nullptr);
  EXPECT_EQ(Difference(Draw("wide", 7), alone), "");
  EXPECT_EQ(Difference(Draw("narrow", 7), narrow), "");
}

TEST_F(WideModelsTest, AreLeftOutWithoutALibraryThatServes) {
  WriteFile(folder_ / "damaged.so", "not a library");
  const std::pair<std::string, std::string> cases[] = {
      {"/nowhere/libcublasLt.so.13", "/nowhere/libcublasLt.so.13"},
      {folder_ / "damaged.so", folder_ / "damaged.so"},
      {kTooOld, "or newer"},
  };
  for (const auto& [library, reason] : cases) {
    SCOPED_TRACE(library);
    Start({narrow_, wide_}, library);
    ASSERT_NE(client_, nullptr);
    EXPECT_THAT(server_->log(),
                AllOf(HasSubstr(" error model_skipped model=wide reason="), HasSubstr(reason)));
    EXPECT_EQ(Count("model_loaded model=wide"), 0);
    ExpectTheOtherServed();
  }
}

TEST_F(WideModelsTest, AreServedByAReloadOnceTheLibraryIsThere) {
  const std::string library = folder_ / "libcublasLt.so.13";
  Start({wide_, narrow_}, library);
  ASSERT_NE(client_, nullptr);
  ExpectTheOtherServed();  // which is the default meanwhile
  server_->Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return Count("info reloaded") == 1; })) << server_->log();
  EXPECT_EQ(Count("model_skipped model=wide"), 2);
  EXPECT_EQ(Page().Value("chorale_model_skipped", "model=\"wide\""), 1);
  const Samples narrow = Draw("narrow", 7);

  fs::copy_file(kStandIn, library);
  server_->Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return Count("info reloaded") == 2; })) << server_->log();
  EXPECT_THAT(Listed(), ElementsAre("models/golden_tiny fused", "models/wide unfused *"));
  EXPECT_FALSE(Page().Has("chorale_model_skipped"));
  ASSERT_TRUE(Register("wide", "").ok());
  const Samples drawn = Draw("wide", 7);
  EXPECT_EQ(Difference(Draw("wide", 7), drawn), "");
  EXPECT_EQ(Difference(Draw("narrow", 7), narrow), "");
}

// What the library itself brings into the process, where this machine has it: it is opened,
// although the emulator computes.
TEST_F(WideModelsTest, TheMetricsAnswerBesideTheRealLibrary) {
  Start({narrow_, wide_}, "");
  ASSERT_NE(client_, nullptr);
  if (Count("model_skipped model=wide") == 1) GTEST_SKIP() << "there is no cuBLASLt";
  for (const char* name : {"golden_tiny", "wide"}) {
    EXPECT_TRUE(Page().Has("chorale_model_info", absl::StrCat("model=\"", name, "\"")));
  }
}

TEST_F(WideModelsTest, AServerWithoutAnyModelDoesNotStart) {
  const auto server = ServerProcess::Spawn(Options({wide_}, "/nowhere/libcublasLt.so.13"));
  EXPECT_EQ(server->ExitCode(), 1);
  EXPECT_THAT(server->log(),
              AllOf(HasSubstr("start_failed reason=\"model "), HasSubstr(" cannot be served: "),
                    HasSubstr("/nowhere/libcublasLt.so.13")));
}

}  // namespace
}  // namespace chorale::end_to_end
