// What was acknowledged survives kill -9 at any moment.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/eventually.h"
#include "tests/support/length.h"

namespace chorale::end_to_end {
namespace {

// The store's crash_test stops at every step of a write; this adds what only whole processes show.
int Kills() { return FullLength() ? 10 : 3; }

constexpr int kWriters = 2;

// The content of a context follows from its name alone: "run-writer-number". Every fifth is large
// and comes in many messages, so that a kill often lands within one.
Rows ContentOf(const std::string& id) {
  const uint64_t seed = std::hash<std::string>()(id);
  return RandomRows(seed % 5 == 0 ? 3000 : 20 + seed % 50, 3, seed);
}

v1::PredictRequest Question(const std::string& id) {
  v1::PredictRequest request = MakePredict(id, RandomRows(3, 3, 7));
  request.set_include_mixtures(true);
  return request;
}

// Names of contexts, and the digests that the server acknowledged them with. Thread-safe.
class Ledger {
 public:
  void Attempt(const std::string& id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    attempted_.insert(id);
  }
  void Acknowledge(const std::string& id, const std::string& digest) {
    const std::lock_guard<std::mutex> lock(mutex_);
    acknowledged_[id] = digest;
  }
  std::set<std::string> attempted() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return attempted_;
  }
  std::map<std::string, std::string> acknowledged() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return acknowledged_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> attempted_;
  std::map<std::string, std::string> acknowledged_;
};

// Registers one context after the other until the server is gone.
void RegisterUntilKilled(const std::string& address, const std::string& prefix, Ledger& ledger) {
  const ApiClient client(address);
  for (int number = 0;; ++number) {
    const std::string id = absl::StrCat(prefix, "-", number);
    ledger.Attempt(id);
    const auto reply = client.Register(id, ContentOf(id), "", /*chunk_rows=*/100);
    if (!reply.ok()) return;
    EXPECT_EQ(reply.value.context().name(), "contexts/" + id);
    ledger.Acknowledge(id, reply.value.context().digest());
  }
}

// Dataset files of contexts, without those in `lost`.
int64_t DatasetFiles(const std::string& folder) {
  int64_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + "/datasets")) {
    count += entry.path().extension() == ".dataset" ? 1 : 0;
  }
  return count;
}

// Remains of interrupted writes of datasets.
bool IncomingIsEmpty(const std::string& folder) {
  return std::filesystem::is_empty(folder + "/datasets/incoming");
}

class DurabilityTest : public ::testing::Test {
 protected:
  std::unique_ptr<ServerProcess> Start() const {
    return ServerProcess::Start({.models = {GoldenFolder("golden_tiny")},
                                 .data_dir = data_.path(),
                                 .flags = {"--threads=1"}});
  }

  // Every acknowledged context is there with its digest, and no context that was not attempted.
  void ExpectAllListed(const ApiClient& client, const Ledger& ledger) const {
    const auto listed = client.List();
    ASSERT_TRUE(listed.ok()) << listed.status.error_message();
    std::map<std::string, std::string> digests;
    std::set<std::string> distinct;
    for (const v1::Context& context : listed.value) {
      const std::string id = context.name().substr(std::string("contexts/").size());
      EXPECT_TRUE(digests.emplace(id, context.digest()).second) << id << " twice";
      distinct.insert(context.digest());
    }
    for (const auto& [id, digest] : ledger.acknowledged()) EXPECT_EQ(digests[id], digest) << id;
    const std::set<std::string> attempted = ledger.attempted();
    for (const auto& [id, digest] : digests) EXPECT_EQ(attempted.count(id), 1) << id;
    // Nothing else remains of contexts that were not acknowledged.
    EXPECT_EQ(DatasetFiles(data_.path()), static_cast<int64_t>(distinct.size()));
    EXPECT_TRUE(IncomingIsEmpty(data_.path()));
  }

  const TempFolder data_;
};

TEST_F(DurabilityTest, WhatWasAcknowledgedSurvivesKills) {
  // The expected answers come from a server that is never killed.
  const auto witness =
      ServerProcess::Start({.models = {GoldenFolder("golden_tiny")}, .flags = {"--threads=1"}});
  ASSERT_NE(witness, nullptr);
  const ApiClient truth(witness->address());
  std::mt19937_64 random(42);
  Ledger ledger;
  std::set<std::string> checked;
  std::unique_ptr<ServerProcess> server = Start();
  const int kills = Kills();
  for (int run = 0; run < kills; ++run) {
    SCOPED_TRACE(absl::StrCat("run ", run));
    ASSERT_NE(server, nullptr);
    const size_t acknowledged = ledger.acknowledged().size();
    std::vector<std::thread> writers;
    for (int writer = 0; writer < kWriters; ++writer) {
      writers.emplace_back([&, writer] {
        RegisterUntilKilled(server->address(), absl::StrCat("run", run, "-", writer), ledger);
      });
    }
    // Every other kill comes only when there is something to lose, however slow the machine.
    if (run % 2 == 0) {
      EXPECT_TRUE(Eventually([&] { return ledger.acknowledged().size() > acknowledged; }));
    }
    absl::SleepFor(absl::Milliseconds(20) + absl::Microseconds(random() % 100'000));
    server->Kill();
    for (std::thread& writer : writers) writer.join();

    server = Start();
    ASSERT_NE(server, nullptr);
    const ApiClient client(server->address());
    ExpectAllListed(client, ledger);
    for (const auto& [id, digest] : ledger.acknowledged()) {
      if (!checked.insert(id).second) continue;
      const auto registered = truth.Register(id, ContentOf(id));
      ASSERT_TRUE(registered.ok()) << registered.status.error_message();
      EXPECT_EQ(registered.value.context().digest(), digest) << id;
      const auto expected = truth.Predict(Question(id));
      const auto actual = client.Predict(Question(id));
      ASSERT_TRUE(expected.ok() && actual.ok()) << id << " " << actual.status.error_message();
      EXPECT_TRUE(SameBits(actual.value, expected.value)) << id;
    }
  }
  std::printf("  %zu contexts acknowledged of %zu attempted\n", ledger.acknowledged().size(),
              ledger.attempted().size());
  EXPECT_GE(ledger.acknowledged().size(), kills / 2);
  server->Terminate();
  EXPECT_TRUE(IncomingIsEmpty(data_.path()));
}

TEST_F(DurabilityTest, ASecondServerOnTheSameDataIsRefused) {
  const auto first = Start();
  ASSERT_NE(first, nullptr);
  const auto second =
      ServerProcess::Spawn({.models = {GoldenFolder("golden_tiny")}, .data_dir = data_.path()});
  EXPECT_NE(second->ExitCode(), 0);
  EXPECT_TRUE(absl::StrContains(second->log(), data_.path())) << second->log();
  EXPECT_EQ(Health(first->address()), "SERVING");
}

}  // namespace
}  // namespace chorale::end_to_end
