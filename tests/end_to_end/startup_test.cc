// A server that cannot serve names the file or the flag in its error and exits with a non-zero
// status: it does not crash, and does not run in part.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/server_process.h"

namespace chorale::end_to_end {
namespace {

using ::testing::HasSubstr;

// Expects that the server exits, with a message that contains `name`.
void ExpectRefusal(const ServerOptions& options, const std::string& name) {
  const std::unique_ptr<ServerProcess> server = ServerProcess::Spawn(options);
  EXPECT_NE(server->ExitCode(), 0) << server->log();
  EXPECT_THAT(server->log(), HasSubstr(name));
}

struct Damage {
  const char* what;
  const char* file;  // the one to damage
  std::function<std::string(std::string)> apply;
  const char* blamed = nullptr;  // the one that the message must name, when it is another
};

std::string Replaced(const std::string& text, const std::string& from, const std::string& to) {
  const std::string result = absl::StrReplaceAll(text, {{from, to}});
  EXPECT_NE(result, text) << "no " << from << " to replace";
  return result;
}

// Writes the header's length over the first eight bytes.
std::string WithHeaderLength(std::string file, uint64_t length) {
  std::memcpy(file.data(), &length, sizeof(length));
  return file;
}

std::vector<Damage> ModelDamages() {
  const char* weights = "model.safetensors";
  const char* config = "config.json";
  return {
      {"empty weights", weights, [](auto) { return std::string(); }},
      {"cut within the length", weights, [](auto f) { return f.substr(0, 5); }},
      {"cut within the header", weights, [](auto f) { return f.substr(0, 100); }},
      {"cut within the data", weights, [](auto f) { return f.substr(0, f.size() - 1000); }},
      {"bytes at the end", weights, [](auto f) { return f + "more"; }},
      {"huge header", weights, [](auto f) { return WithHeaderLength(f, ~uint64_t{0}); }},
      {"header of length zero", weights, [](auto f) { return WithHeaderLength(f, 0); }},
      {"not JSON", weights,
       [](auto f) {
         f[8] = '!';
         return f;
       }},
      {"unknown type", weights, [](auto f) { return Replaced(f, "\"F32\"", "\"X32\""); }},
      {"offsets beyond the end", weights,
       [](auto f) { return f.replace(f.find("data_offsets\":[0,"), 17, "data_offsets\":[9,"); }},
      {"a tensor renamed", weights, [](auto f) { return Replaced(f, "ar_tokens", "ar_tokenz"); }},
      {"empty configuration", config, [](auto) { return std::string(); }},
      {"not an object", config, [](auto) { return std::string("[1, 2]"); }},
      {"deeply nested", config, [](auto) { return std::string(100'000, '['); }},
      {"unknown key", config, [](auto f) { return Replaced(f, "\"n_heads\"", "\"n_headz\""); }},
      {"wrong shape", config,
       [](auto f) { return Replaced(f, "\"d_model\": 16", "\"d_model\": 32"); }, weights},
      {"negative extent", config,
       [](auto f) { return Replaced(f, "\"n_layers\": 1", "\"n_layers\": -1"); }},
      {"overflowing extent", config,
       [](auto f) { return Replaced(f, "\"d_ff\": 16", "\"d_ff\": 4611686018427387904"); }},
      {"unknown architecture", config,
       [](auto f) { return Replaced(f, "ar_tabpfn", "something_else"); }},
  };
}

TEST(StartupTest, DamagedModelFilesAreRefusedByName) {
  const TempFolder folder;
  ModelFiles model({});
  model.FillRandom(1, 1.0);
  for (const Damage& damage : ModelDamages()) {
    SCOPED_TRACE(damage.what);
    const std::string path = folder / "model";
    model.Write(path);
    const std::string file = path + "/" + damage.file;
    WriteFile(file, damage.apply(ReadFile(file)));
    ExpectRefusal({.models = {path}}, damage.blamed != nullptr ? damage.blamed : damage.file);
  }
  {
    SCOPED_TRACE("weights that are not numbers");
    ModelFiles infinite({});
    infinite["head.mean_bias"].values[0] = std::numeric_limits<float>::quiet_NaN();
    infinite.Write(folder / "model");
    ExpectRefusal({.models = {folder / "model"}}, "model.safetensors");
  }
  // The undamaged model does start: nothing above was refused for another reason.
  model.Write(folder / "model");
  const auto server = ServerProcess::Start({.models = {folder / "model"}});
  ASSERT_NE(server, nullptr);
  server->Terminate();
}

TEST(StartupTest, MissingFilesAreRefusedByName) {
  const TempFolder folder;
  ExpectRefusal({.models = {folder / "nowhere"}}, "nowhere");
  ModelFiles(ModelShape{}).Write(folder / "model");
  std::filesystem::remove(folder / "model/config.json");
  ExpectRefusal({.models = {folder / "model"}}, "config.json");
  ModelFiles(ModelShape{}).Write(folder / "model");
  std::filesystem::remove(folder / "model/model.safetensors");
  ExpectRefusal({.models = {folder / "model"}}, "model.safetensors");
  // A directory in the place of a file.
  std::filesystem::create_directory(folder / "model/model.safetensors");
  ExpectRefusal({.models = {folder / "model"}}, "model.safetensors");
}

class DatabaseTest : public ::testing::Test {
 protected:
  // A data folder with some contexts, written by a server that ended well: once for all tests.
  static void SetUpTestSuite() {
    written_ = std::make_unique<TempFolder>();
    const auto server = ServerProcess::Start(
        {.models = {GoldenFolder("golden_tiny")}, .data_dir = written_->path()});
    ASSERT_NE(server, nullptr);
    const ApiClient client(server->address());
    for (int i = 0; i < 30; ++i) {
      ASSERT_TRUE(client.Register(absl::StrCat("context-", i), RandomRows(20, 3, i)).ok());
    }
    server->Terminate();
  }
  static void TearDownTestSuite() { written_.reset(); }

  void SetUp() override {
    ASSERT_NE(written_, nullptr);
    std::filesystem::copy(written_->path(), data_.path(), std::filesystem::copy_options::recursive);
    content_ = ReadFile(database_);
    ASSERT_GT(content_.size(), 8192);
  }

  ServerOptions Options() const {
    return {.models = {GoldenFolder("golden_tiny")}, .data_dir = data_.path()};
  }

  // Puts other bytes in the place of the database, with no log beside it.
  void Replace(const std::string& content) const {
    std::filesystem::remove(database_ + "-wal");
    std::filesystem::remove(database_ + "-shm");
    WriteFile(database_, content);
  }

  static std::unique_ptr<TempFolder> written_;
  const TempFolder data_;
  const std::string database_ = data_ / "contexts.db";
  std::string content_;
};

std::unique_ptr<TempFolder> DatabaseTest::written_;

TEST_F(DatabaseTest, ADamagedDatabaseIsRefusedByName) {
  const auto scrambled = [&](size_t begin, size_t end) {
    std::string copy = content_;
    for (size_t i = begin; i < std::min(end, copy.size()); ++i) copy[i] ^= 0x5a;
    return copy;
  };
  const std::vector<std::pair<std::string, std::string>> variants = {
      {"not a database", std::string(10'000, 'x')},
      {"header scrambled", scrambled(0, 100)},
      {"first page scrambled", scrambled(100, 4096)},
      {"a later page scrambled", scrambled(4096, 8192)},
      {"cut to half", content_.substr(0, content_.size() / 2)},
      {"cut within the first page", content_.substr(0, 1000)},
  };
  for (const auto& [what, content] : variants) {
    SCOPED_TRACE(what);
    Replace(content);
    ExpectRefusal(Options(), "contexts.db");
  }
  Replace(content_);
  const auto server = ServerProcess::Start(Options());
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(ApiClient(server->address()).List().value.size(), 30);
  server->Terminate();
}

TEST_F(DatabaseTest, ADamagedDatasetFailsItsOwnContextOnly) {
  {
    const auto server = ServerProcess::Start(Options());
    ASSERT_NE(server, nullptr);
    ASSERT_TRUE(ApiClient(server->address()).Register("largest", RandomRows(500, 3, 1)).ok());
    server->Terminate();
  }
  std::filesystem::path victim;
  uintmax_t largest = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data_ / "datasets")) {
    if (!entry.is_regular_file() || entry.file_size() <= largest) continue;
    largest = entry.file_size();
    victim = entry.path();
  }
  ASSERT_GT(largest, 500 * 4 * 4);
  std::string content = ReadFile(victim);
  content[content.size() / 2] ^= 1;
  std::filesystem::permissions(victim, std::filesystem::perms::owner_write,
                               std::filesystem::perm_options::add);
  WriteFile(victim, content);

  const auto server = ServerProcess::Start(Options());
  ASSERT_NE(server, nullptr);
  const ApiClient client(server->address());
  const auto broken = client.Predict(MakePredict("largest", RandomRows(2, 3, 1)));
  EXPECT_EQ(broken.status.error_code(), grpc::StatusCode::DATA_LOSS)
      << broken.status.error_message();
  EXPECT_TRUE(client.Predict(MakePredict("context-4", RandomRows(2, 3, 1))).ok());
  EXPECT_EQ(Health(server->address()), "SERVING");
  server->Terminate();
}

TEST(StartupTest, ADataFolderThatIsAFileIsRefusedByName) {
  const TempFolder folder;
  WriteFile(folder / "occupied", "a file");
  ExpectRefusal({.models = {GoldenFolder("golden_tiny")}, .data_dir = folder / "occupied"},
                "occupied");
}

TEST(StartupTest, BadFlagsAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> flags = {
      {"--threads=-1", "threads"},
      {"--context_pool_mib=-5", "context_pool_mib"},
      {"--backend=gpu", "backend"},
      {"--buffer_pool_mib=many", "buffer_pool_mib"},
      {"--listen_address=nonsense", "nonsense"},
      {"--no_such_flag=1", "no_such_flag"},
  };
  for (const auto& [flag, name] : flags) {
    SCOPED_TRACE(flag);
    ExpectRefusal({.models = {GoldenFolder("golden_tiny")}, .flags = {flag}}, name);
  }
  ExpectRefusal({.models = {}}, "models");
}

}  // namespace
}  // namespace chorale::end_to_end
