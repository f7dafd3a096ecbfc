#include "engine/backend/cuda_plugin/load_cuda_backend.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;

TEST(LoadCudaBackendTest, NotFoundWithoutALibrary) {
  const absl::Status status = cuda::LoadBackend("/nowhere/libchorale_cuda.so", {}).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/libchorale_cuda.so"));
}

TEST(LoadCudaBackendTest, NamesTheReasonItCannotBeOpened) {
  const std::string path = absl::StrCat(testing::TempDir(), "/not_a_library.so");
  std::ofstream(path) << "not a library";
  const absl::Status status = cuda::LoadBackend(path, {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

TEST(LoadCudaBackendTest, RefusesAnotherLibrary) {
  const absl::Status status = cuda::LoadBackend("/lib/x86_64-linux-gnu/libm.so.6", {}).status();
  if (absl::IsNotFound(status)) GTEST_SKIP() << "this system's libraries lie elsewhere";
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not a GPU backend"));
}

// The shared object of this build opens; without a GPU it says that there is none.
TEST(LoadCudaBackendTest, OpensTheOneOfThisBuild) {
  const std::string path = CHORALE_CUDA_LIBRARY_OF_BUILD;
  if (path.empty()) GTEST_SKIP() << "built without CUDA";
  const absl::StatusOr<std::unique_ptr<Backend>> backend =
      cuda::LoadBackend(path, {.memory = {.context_pool_bytes = 1 << 20,
                                          .buffer_pool_bytes = 1 << 20,
                                          .workspace_bytes = 1 << 20}});
  if (backend.ok()) {
    EXPECT_THAT((*backend)->description(), HasSubstr("cuda"));
  } else {
    EXPECT_TRUE(absl::IsUnavailable(backend.status())) << backend.status();
  }
}

}  // namespace
}  // namespace chorale
