// What every ContextStore does, as tests that any implementation can be put through: compile
// context_store_contract.cc into its test program and instantiate ContextStoreContract there.
#ifndef CHORALE_TESTS_ENGINE_STORE_CONTEXT_STORE_CONTRACT_H_
#define CHORALE_TESTS_ENGINE_STORE_CONTEXT_STORE_CONTRACT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/store/context_store.h"
#include "gtest/gtest.h"

namespace chorale {

// Where the contexts of one test live; empty at first. Removes them at its end.
class StorePlace {
 public:
  virtual ~StorePlace() = default;
  // Called again after the store before was closed: the contexts are the same.
  virtual absl::StatusOr<std::unique_ptr<ContextStore>> Open() = 0;
};

struct StoreKind {
  std::string name;
  std::function<std::unique_ptr<StorePlace>()> make_place;
};

class ContextStoreContract : public testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    place_ = GetParam().make_place();
    Reopen();
  }

  void Reopen() {
    store_.reset();
    absl::StatusOr<std::unique_ptr<ContextStore>> store = place_->Open();
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  std::unique_ptr<StorePlace> place_;
  std::unique_ptr<ContextStore> store_;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_STORE_CONTEXT_STORE_CONTRACT_H_
