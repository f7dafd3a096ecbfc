// A store in a folder of its own, for tests.
#ifndef CHORALE_TESTS_ENGINE_STORE_STORE_FIXTURE_H_
#define CHORALE_TESTS_ENGINE_STORE_STORE_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/store/context_store.h"
#include "gtest/gtest.h"
#include "tests/engine/store/make_record.h"
#include "tests/support/temp_folder.h"

namespace chorale {

class StoreFixture : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }

  // Closes the store, if it is open, and opens it again.
  void Open() {
    store_.reset();
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder_.path());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  absl::Status Put(const std::string& name, const std::string& dataset,
                   const std::string& tenant = "t") {
    return store_->Put(MakeRecord(tenant, name, dataset), dataset).status();
  }

  TempFolder folder_;
  std::unique_ptr<ContextStore> store_;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_STORE_STORE_FIXTURE_H_
