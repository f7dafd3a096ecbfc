// Which backend a server opens, and its errors and logs when it cannot open the requested one.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/server_process.h"

namespace chorale::end_to_end {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kOtherBuild[] = CHORALE_OTHER_BUILD_LIBRARY;
// Empty where the build has none.
constexpr char kCudaLibrary[] = CHORALE_CUDA_LIBRARY_OF_BUILD;
constexpr char kEmulatedLibrary[] = CHORALE_CUDA_EMULATED_LIBRARY;

ServerOptions Options(const std::string& backend, const std::string& library,
                      std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), {"--backend=" + backend, "--host_context_pool_mib=3"});
  return {.models = {GoldenFolder("golden_tiny")},
          .flags = std::move(flags),
          .environment = {"CHORALE_CUDA_LIBRARY=" + library}};
}

// Ends with the status, and the log has every one of `texts`.
void ExpectRefusal(const ServerOptions& options, const std::vector<std::string>& texts,
                   int status = 1) {
  const std::unique_ptr<ServerProcess> server = ServerProcess::Spawn(options);
  EXPECT_EQ(server->ExitCode(), status);
  for (const std::string& text : texts) EXPECT_THAT(server->log(), HasSubstr(text));
}

// Serves on the CPU, and the log says why.
void ExpectFallBack(const ServerOptions& options, const std::string& reason) {
  const std::unique_ptr<ServerProcess> server = ServerProcess::Start(options);
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(server->log(), AllOf(HasSubstr("no_gpu fallback=cpu"), HasSubstr(reason),
                                   HasSubstr("backend_opened backend=\"cpu")));
  EXPECT_TRUE(ApiClient(server->address()).Register("data", RandomRows(5, 3, 1)).ok());
  server->Terminate();
}

TEST(BackendChoiceTest, WithoutALibrary) {
  ExpectFallBack(Options("auto", "/nowhere/libchorale_cuda.so"),
                 "there is no /nowhere/libchorale_cuda.so");
  ExpectRefusal(Options("cuda", "/nowhere/libchorale_cuda.so"),
                {"--backend=cuda", "there is no /nowhere/libchorale_cuda.so"}, /*status=*/2);
}

// A fallback must not be silent.
TEST(BackendChoiceTest, ALibraryThatCannotBeOpenedIsRefused) {
  const TempFolder folder;
  WriteFile(folder / "damaged.so", "not a library");
  for (const char* backend : {"auto", "cuda"}) {
    ExpectRefusal(Options(backend, folder / "damaged.so"), {"cannot open", folder / "damaged.so"});
    ExpectRefusal(Options(backend, kOtherBuild), {kOtherBuild, "belongs to build another build"});
  }
}

TEST(BackendChoiceTest, WithoutADriver) {
  if (std::string(kCudaLibrary).empty()) GTEST_SKIP() << "built without CUDA";
  const auto probe = ServerProcess::Start(
      Options("auto", kCudaLibrary, {"--context_pool_mib=64", "--buffer_pool_mib=64"}));
  ASSERT_NE(probe, nullptr);
  if (probe->log().find("no_gpu") == std::string::npos) GTEST_SKIP() << "there is a GPU";
  ExpectRefusal(Options("cuda", kCudaLibrary), {"--backend=cuda: there is no GPU"});
}

TEST(BackendChoiceTest, WithoutADevice) {
  if (std::string(kEmulatedLibrary).empty()) GTEST_SKIP() << "built without the emulator";
  const TempFolder folder;
  WriteFile(folder / "absent", "");
  ServerOptions automatic = Options("auto", kEmulatedLibrary);
  automatic.environment.push_back("CHORALE_EMULATOR_ABSENT=" + folder / "absent");
  ExpectFallBack(automatic, "no device is there");
  ServerOptions cuda = Options("cuda", kEmulatedLibrary);
  cuda.environment = automatic.environment;
  ExpectRefusal(cuda, {"--backend=cuda", "no device is there"});
}

TEST(BackendChoiceTest, AnErrorOfTooLittleMemoryGivesTheNumbers) {
  if (std::string(kEmulatedLibrary).empty()) GTEST_SKIP() << "built without the emulator";
  for (const char* backend : {"auto", "cuda"}) {
    ExpectRefusal(Options(backend, kEmulatedLibrary, {"--context_pool_mib=5000"}),
                  {"has 1024 MiB free", "5000 MiB for contexts"});
  }
}

TEST(BackendChoiceTest, AutoTakesTheGpu) {
  if (std::string(kEmulatedLibrary).empty()) GTEST_SKIP() << "built without the emulator";
  const auto server = ServerProcess::Start(
      Options("auto", kEmulatedLibrary, {"--context_pool_mib=7", "--buffer_pool_mib=5"}));
  ASSERT_NE(server, nullptr);
  server->ExpectLog("serving backend=\"cuda emulator");
  EXPECT_THAT(server->log(),
              HasSubstr("context_pool_mib=7 buffer_pool_mib=5 host_context_pool_mib=3"));
  server->Terminate();
}

TEST(BackendChoiceTest, CpuAsksForNoLibrary) {
  const auto server = ServerProcess::Start(Options("cpu", kOtherBuild));
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(server->log(),
              HasSubstr("context_pool_mib=4096 buffer_pool_mib=1024 host_context_pool_mib=0"));
  server->Terminate();
}

}  // namespace
}  // namespace chorale::end_to_end
