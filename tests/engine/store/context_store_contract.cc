#include "tests/engine/store/context_store_contract.h"

#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "gmock/gmock.h"
#include "tests/engine/store/make_record.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::StatusCode PutCode(ContextStore& store, const ContextRecord& record,
                         absl::string_view dataset) {
  return store.Put(record, dataset).status().code();
}

void ExpectPut(ContextStore& store, const ContextRecord& record, absl::string_view dataset,
               PutOutcome expected) {
  absl::StatusOr<PutOutcome> outcome = store.Put(record, dataset);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(*outcome, expected);
}

void ExpectSameRecord(const ContextRecord& a, const ContextRecord& b) {
  EXPECT_EQ(a.tenant, b.tenant);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.digest, b.digest);
  EXPECT_EQ(a.target, b.target);
  EXPECT_EQ(a.clipped_targets, b.clipped_targets);
  EXPECT_EQ(a.season_transform, b.season_transform);
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.dataset_bytes, b.dataset_bytes);
  EXPECT_EQ(EtagOf(a), EtagOf(b));  // also depends on the details, created and updated
  ASSERT_EQ(a.columns.size(), b.columns.size());
  for (size_t i = 0; i < a.columns.size(); ++i) {
    EXPECT_EQ(a.columns[i].name, b.columns[i].name);
    EXPECT_EQ(a.columns[i].type, b.columns[i].type);
    EXPECT_EQ(a.columns[i].categories, b.columns[i].categories);
    EXPECT_EQ(a.columns[i].missing, b.columns[i].missing);
    EXPECT_EQ(a.columns[i].outside_bulk, b.columns[i].outside_bulk);
    EXPECT_EQ(a.columns[i].left_out, b.columns[i].left_out);
    EXPECT_EQ(a.columns[i].season_steps, b.columns[i].season_steps);
    EXPECT_EQ(a.columns[i].meaning, b.columns[i].meaning);
  }
}

// Names on all pages of the tenant.
std::vector<std::string> ListAll(ContextStore& store, const std::string& tenant,
                                 int64_t page_size) {
  std::vector<std::string> names;
  std::string token;
  do {
    absl::StatusOr<ContextPage> page = store.List(tenant, {page_size}, token);
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) break;
    EXPECT_LE(static_cast<int64_t>(page->records.size()), page_size);
    for (const ContextRecord& record : page->records) names.push_back(record.name);
    token = page->next_page_token;
  } while (!token.empty());
  return names;
}

TEST_P(ContextStoreContract, PutThenGetAndRead) {
  const std::string dataset =
      absl::StrCat(absl::string_view("\0 some bytes \xff\n", 15), std::string(100'000, 'x'));
  const ContextRecord record = MakeRecord("tenant", "housing", dataset);
  ExpectPut(*store_, record, dataset, PutOutcome::kCreated);
  for (int i = 0; i < 2; ++i) {
    absl::StatusOr<ContextRecord> got = store_->Get("tenant", "housing");
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectSameRecord(*got, record);
    EXPECT_EQ(store_->ReadDataset("tenant", "housing").value(), dataset);
    Reopen();
  }
}

TEST_P(ContextStoreContract, EmptyDatasetAndNoColumns) {
  ContextRecord record = MakeRecord("t", "empty", "");
  record.columns.clear();
  ExpectPut(*store_, record, "", PutOutcome::kCreated);
  EXPECT_EQ(store_->ReadDataset("t", "empty").value(), "");
  EXPECT_THAT(store_->Get("t", "empty")->columns, IsEmpty());
}

TEST_P(ContextStoreContract, SameContentAgainIsUnchanged) {
  const ContextRecord record = MakeRecord("t", "a", "one");
  ExpectPut(*store_, record, "one", PutOutcome::kCreated);
  ContextRecord later = record;
  later.created += absl::Hours(1);
  ExpectPut(*store_, later, "one", PutOutcome::kUnchanged);
  EXPECT_EQ(store_->Get("t", "a")->created, record.created);
  Reopen();
  ExpectPut(*store_, later, "one", PutOutcome::kUnchanged);
}

TEST_P(ContextStoreContract, TakenNames) {
  ExpectPut(*store_, MakeRecord("t", "a", "one"), "one", PutOutcome::kCreated);
  EXPECT_EQ(PutCode(*store_, MakeRecord("t", "a", "two"), "two"), absl::StatusCode::kAlreadyExists);
  ContextRecord other_model = MakeRecord("t", "a", "one");
  other_model.model = "another-model";
  EXPECT_EQ(PutCode(*store_, other_model, "one"), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->ReadDataset("t", "a").value(), "one");
  EXPECT_EQ(store_->Get("t", "a")->model, "some-model");
}

TEST_P(ContextStoreContract, RefusesWhatDoesNotFitTogether) {
  ContextRecord record = MakeRecord("t", "a", "one");
  EXPECT_EQ(ErrorField(store_->Put(record, "two").status()), "digest");
  record.dataset_bytes = 4;
  EXPECT_EQ(ErrorField(store_->Put(record, "one").status()), "dataset_bytes");
  for (const char* name : {"", "..", "../x", "a/b", "A", "a b"}) {
    EXPECT_EQ(ErrorField(store_->Put(MakeRecord("t", name, "one"), "one").status()), "context_id");
  }
  EXPECT_THAT(ListAll(*store_, "t", 10), IsEmpty());
}

TEST_P(ContextStoreContract, ForeignAndMissingContextsAnswerAlike) {
  ExpectPut(*store_, MakeRecord("t", "a", "one"), "one", PutOutcome::kCreated);
  for (const char* name : {"b", "", "..", "../LOCK"}) {
    EXPECT_EQ(store_->Get("t", name).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(store_->ReadDataset("t", name).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(store_->Delete("t", name).code(), absl::StatusCode::kNotFound);
  }
  const absl::Status foreign = store_->Get("other", "a").status();
  EXPECT_EQ(foreign.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->ReadDataset("other", "a").status(), foreign);
  EXPECT_EQ(store_->Delete("other", "a"), foreign);
  ASSERT_TRUE(store_->Delete("t", "a").ok());
  EXPECT_EQ(store_->Get("t", "a").status(), foreign);
  EXPECT_EQ(store_->Delete("t", "a"), foreign);
}

TEST_P(ContextStoreContract, TenantsAreIndependent) {
  const std::vector<std::string> tenants = {"",
                                            "a",
                                            "b",
                                            "../..",
                                            std::string("a\0", 2),
                                            std::string("a\0b", 3),
                                            "\u00e9",
                                            std::string(5000, 'x')};
  for (const std::string& tenant : tenants) {
    ExpectPut(*store_, MakeRecord(tenant, "same", "content"), "content", PutOutcome::kCreated);
  }
  for (const std::string& tenant : tenants) {
    EXPECT_THAT(ListAll(*store_, tenant, 10), ElementsAre("same"));
    ASSERT_TRUE(store_->Delete(tenant, "same").ok());
    EXPECT_THAT(ListAll(*store_, tenant, 10), IsEmpty());
    for (const std::string& later : tenants) {
      if (&later <= &tenant) continue;
      EXPECT_EQ(store_->ReadDataset(later, "same").value(), "content");
    }
  }
}

TEST_P(ContextStoreContract, DeletingOneNameLeavesTheOthersWithThatContent) {
  ExpectPut(*store_, MakeRecord("t", "a", "one"), "one", PutOutcome::kCreated);
  ExpectPut(*store_, MakeRecord("t", "b", "one"), "one", PutOutcome::kCreated);
  ASSERT_TRUE(store_->Delete("t", "a").ok());
  EXPECT_EQ(store_->ReadDataset("t", "b").value(), "one");
  ExpectPut(*store_, MakeRecord("t", "a", "two"), "two", PutOutcome::kCreated);
  Reopen();
  EXPECT_EQ(store_->ReadDataset("t", "a").value(), "two");
  EXPECT_EQ(store_->ReadDataset("t", "b").value(), "one");
}

TEST_P(ContextStoreContract, TotalsCountSharedContentOnce) {
  EXPECT_EQ(store_->Totals()->contexts, 0);
  EXPECT_EQ(store_->Totals()->dataset_bytes, 0);
  ExpectPut(*store_, MakeRecord("t", "a", "one"), "one", PutOutcome::kCreated);
  ExpectPut(*store_, MakeRecord("t", "b", "one"), "one", PutOutcome::kCreated);
  ExpectPut(*store_, MakeRecord("u", "a", "three"), "three", PutOutcome::kCreated);
  EXPECT_EQ(store_->Totals()->contexts, 3);
  EXPECT_EQ(store_->Totals()->dataset_bytes, 3 + 5);
  EXPECT_GT(store_->Totals()->disk_free_bytes, 0);
  ASSERT_TRUE(store_->Delete("t", "a").ok());
  EXPECT_EQ(store_->Totals()->dataset_bytes, 3 + 5);
  ASSERT_TRUE(store_->Delete("t", "b").ok());
  EXPECT_EQ(store_->Totals()->contexts, 1);
  EXPECT_EQ(store_->Totals()->dataset_bytes, 5);
  ASSERT_TRUE(store_->Close().ok());
  EXPECT_EQ(store_->Totals().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(ContextStoreContract, PagesCoverEverythingOnceInOrder) {
  std::set<std::string> names = {"a", "a.", "a-b", "a_b", "0", "z", std::string(63, 'q')};
  for (int i = 0; i < 6; ++i) names.insert(absl::StrCat("c", i));
  for (const std::string& name : names) {
    ExpectPut(*store_, MakeRecord("t", name, "x"), "x", PutOutcome::kCreated);
  }
  ExpectPut(*store_, MakeRecord("other", "b", "x"), "x", PutOutcome::kCreated);
  for (const int64_t page_size : {1, 2, 3, 12, 13, 14, 1000}) {
    EXPECT_THAT(ListAll(*store_, "t", page_size), testing::ElementsAreArray(names)) << page_size;
  }
}

TEST_P(ContextStoreContract, PagesEndAtTheirBytes) {
  // Some 100 bytes a column; "d" alone is larger than a page.
  std::vector<std::string> names;
  for (const auto& [name, columns] : std::vector<std::pair<std::string, int>>{
           {"a", 100}, {"b", 100}, {"c", 100}, {"d", 1000}, {"e", 100}, {"f", 1}, {"g", 1}}) {
    ContextRecord record = MakeRecord("t", name, "x");
    record.columns.assign(columns, record.columns[0]);
    ExpectPut(*store_, record, "x", PutOutcome::kCreated);
    names.push_back(name);
  }
  const auto pages = [&](int64_t bytes) {
    std::vector<std::string> pages;
    std::string token;
    do {
      absl::StatusOr<ContextPage> page = store_->List("t", {1000, bytes}, token);
      if (!page.ok()) return std::vector<std::string>{page.status().ToString()};
      pages.emplace_back();
      for (const ContextRecord& record : page->records) pages.back() += record.name;
      token = page->next_page_token;
    } while (!token.empty());
    return pages;
  };
  EXPECT_THAT(pages(1), testing::ElementsAreArray(names));
  EXPECT_THAT(pages(30'000), testing::ElementsAre("ab", "c", "d", "efg"));
  EXPECT_THAT(pages(1 << 20), testing::ElementsAre("abcdefg"));
}

TEST_P(ContextStoreContract, TheNewestOfAllTenantsComeFirst) {
  int64_t second = 100;
  for (const auto& [tenant, name] : std::vector<std::pair<std::string, std::string>>{
           {"t", "b"}, {"u", "b"}, {"t", "c"}, {"t", "a"}}) {
    ContextRecord record = MakeRecord(tenant, name, "x");
    record.rows = second;
    record.created = absl::FromUnixSeconds(second++);
    ExpectPut(*store_, record, "x", PutOutcome::kCreated);
  }
  const auto newest = store_->ListNewest(3);
  ASSERT_TRUE(newest.ok()) << newest.status();
  std::vector<std::string> listed;
  for (const ContextSummary& one : *newest) {
    listed.push_back(absl::StrCat(one.tenant, "/", one.name, " ", one.model, " ", one.shape.rows));
  }
  const std::string model = MakeRecord("t", "a", "x").model;
  EXPECT_THAT(listed,
              ElementsAre(absl::StrCat("t/a ", model, " 103"), absl::StrCat("t/c ", model, " 102"),
                          absl::StrCat("u/b ", model, " 101")));
}

TEST_P(ContextStoreContract, PagesWhileTheListingChanges) {
  for (const char* name : {"a", "b", "c", "d"}) {
    ExpectPut(*store_, MakeRecord("t", name, "x"), "x", PutOutcome::kCreated);
  }
  const std::string token = store_->List("t", {2}, "")->next_page_token;
  ASSERT_TRUE(store_->Delete("t", "b").ok());  // the one that the token names
  ASSERT_TRUE(store_->Delete("t", "c").ok());
  ExpectPut(*store_, MakeRecord("t", "bb", "x"), "x", PutOutcome::kCreated);
  Reopen();
  absl::StatusOr<ContextPage> page = store_->List("t", {2}, token);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->records.size(), 2u);
  EXPECT_EQ(page->records[0].name, "bb");
  EXPECT_EQ(page->records[1].name, "d");
  EXPECT_EQ(page->next_page_token, "");
}

TEST_P(ContextStoreContract, BadPages) {
  for (const char* name : {"a", "b"}) {
    ExpectPut(*store_, MakeRecord("t", name, "x"), "x", PutOutcome::kCreated);
  }
  for (const int64_t page_size : {-1, 0, 1001}) {
    EXPECT_EQ(ErrorField(store_->List("t", {page_size}, "").status()), "page_size");
  }
  const std::string token = store_->List("t", {1}, "")->next_page_token;
  ASSERT_FALSE(token.empty());
  EXPECT_TRUE(store_->List("t", {1}, token).ok());
  EXPECT_EQ(ErrorField(store_->List("other", {1}, token).status()), "page_token");
  for (const std::string& bad : {std::string("x"), std::string("a"), std::string("!!"),
                                 std::string(1 << 20, 'A'), std::string("\0", 1), token + "A",
                                 token + "=", token.substr(1), token.substr(0, token.size() - 1)}) {
    EXPECT_EQ(ErrorField(store_->List("t", {1}, bad).status()), "page_token") << bad.substr(0, 80);
  }
  for (size_t i = 0; i < token.size(); ++i) {
    std::string bad = token;
    bad[i] = bad[i] == 'A' ? 'B' : 'A';
    EXPECT_EQ(ErrorField(store_->List("t", {1}, bad).status()), "page_token") << bad;
  }
}

TEST_P(ContextStoreContract, ClosedStoresRefuse) {
  const ContextRecord record = MakeRecord("t", "a", "one");
  ExpectPut(*store_, record, "one", PutOutcome::kCreated);
  EXPECT_TRUE(store_->Close().ok());
  EXPECT_TRUE(store_->Close().ok());
  constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;
  EXPECT_EQ(PutCode(*store_, record, "one"), kRefused);
  EXPECT_EQ(store_->Get("t", "a").status().code(), kRefused);
  EXPECT_EQ(store_->ReadDataset("t", "a").status().code(), kRefused);
  EXPECT_EQ(store_->List("t", {1}, "").status().code(), kRefused);
  EXPECT_EQ(store_->Delete("t", "a").code(), kRefused);
}

// How many of 8 concurrent Puts of one name ended in which way.
struct Tally {
  std::atomic<int> created = 0;
  std::atomic<int> unchanged = 0;
  std::atomic<int> taken = 0;
};

void PutFromManyThreads(ContextStore& store, const std::string& name, bool same_content,
                        Tally& tally) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const std::string dataset = same_content ? "same" : absl::StrCat("content ", i);
      absl::StatusOr<PutOutcome> outcome = store.Put(MakeRecord("t", name, dataset), dataset);
      if (outcome.ok()) {
        ++(*outcome == PutOutcome::kCreated ? tally.created : tally.unchanged);
      } else if (outcome.status().code() == absl::StatusCode::kAlreadyExists) {
        ++tally.taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(ContextStoreContract, ConcurrentPutsOfOneNameCreateItOnce) {
  for (int round = 0; round < 5; ++round) {
    Tally same;
    PutFromManyThreads(*store_, absl::StrCat("same", round), true, same);
    EXPECT_EQ(same.created, 1);
    EXPECT_EQ(same.unchanged, 7);
    Tally different;
    PutFromManyThreads(*store_, absl::StrCat("different", round), false, different);
    EXPECT_EQ(different.created, 1);
    EXPECT_EQ(different.taken, 7);
  }
}

// Everybody puts, reads and deletes the same few names with the same few contents. Whatever can be
// read is whole, and no delete removes a dataset that another name uses.
TEST_P(ContextStoreContract, ConcurrentChurn) {
  const std::vector<std::string> contents = {std::string(20'000, 'a'), std::string(20'000, 'b')};
  std::atomic<int> surprises = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      const auto check = [&](const absl::Status& status) {
        if (!status.ok() && status.code() != absl::StatusCode::kNotFound &&
            status.code() != absl::StatusCode::kAlreadyExists) {
          ++surprises;
          ADD_FAILURE() << status;
        }
      };
      for (int i = 0; i < 60; ++i) {
        const std::string name = absl::StrCat("n", random() % 3);
        const std::string& content = contents[random() % 2];
        switch (random() % 4) {
          case 0:
          case 1:
            check(store_->Put(MakeRecord("t", name, content), content).status());
            break;
          case 2:
            check(store_->Delete("t", name));
            break;
          default: {
            absl::StatusOr<std::string> dataset = store_->ReadDataset("t", name);
            check(dataset.status());
            if (dataset.ok()) {
              EXPECT_TRUE(*dataset == contents[0] || *dataset == contents[1]);
            }
            check(store_->List("t", {10}, "").status());
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(surprises, 0);
  Reopen();
  for (const std::string& name : ListAll(*store_, "t", 10)) {
    EXPECT_TRUE(store_->ReadDataset("t", name).ok());
  }
}

TEST_P(ContextStoreContract, CloseWaitsForCallsInProgress) {
  const std::string dataset(1 << 20, 'x');
  std::atomic<int> created = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        absl::StatusOr<PutOutcome> outcome =
            store_->Put(MakeRecord("t", absl::StrCat("n", t, "-", i), dataset), dataset);
        if (!outcome.ok()) {
          EXPECT_EQ(outcome.status().code(), absl::StatusCode::kFailedPrecondition);
          return;
        }
        ++created;
      }
    });
  }
  while (created == 0) std::this_thread::yield();
  EXPECT_TRUE(store_->Close().ok());
  for (std::thread& thread : threads) thread.join();
  Reopen();
  EXPECT_EQ(ListAll(*store_, "t", 1000).size(), static_cast<size_t>(created));
}

}  // namespace
}  // namespace chorale
