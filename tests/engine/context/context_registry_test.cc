#include "engine/context/context_registry.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace chorale {
namespace {

std::shared_ptr<RegisteredContext> Named(const std::string& tenant, const std::string& name) {
  auto context = std::make_shared<RegisteredContext>();
  context->record.tenant = tenant;
  context->record.name = name;
  return context;
}

TEST(ContextRegistryTest, FindsWhatIsHeldAndNothingElse) {
  ContextRegistry registry;
  auto context = Named("t", "c");
  registry.BeginLoad("t", "c");
  ASSERT_TRUE(registry.Publish(context));
  EXPECT_EQ(registry.Find("t", "c"), context);
  EXPECT_EQ(registry.Find("t", "d"), nullptr);
  EXPECT_EQ(registry.Find("u", "c"), nullptr);
  context.reset();
  EXPECT_EQ(registry.Find("t", "c"), nullptr);
}

TEST(ContextRegistryTest, InvalidationMarksAndForgets) {
  ContextRegistry registry;
  auto context = Named("t", "c");
  registry.BeginLoad("t", "c");
  ASSERT_TRUE(registry.Publish(context));
  registry.Invalidate("t", "c");
  EXPECT_TRUE(context->deleted);
  EXPECT_EQ(registry.Find("t", "c"), nullptr);
  registry.Invalidate("t", "c");
}

TEST(ContextRegistryTest, WhatWasInvalidatedWhileItWasLoadedIsNotPublished) {
  ContextRegistry registry;
  auto context = Named("t", "c");
  registry.BeginLoad("t", "c");
  registry.Invalidate("t", "c");
  EXPECT_FALSE(registry.Publish(context));
  EXPECT_EQ(registry.Find("t", "c"), nullptr);
  registry.BeginLoad("t", "c");
  registry.Invalidate("t", "other");
  EXPECT_TRUE(registry.Publish(context));
}

TEST(ContextRegistryTest, SweepsWhatIsGoneAndKeepsWhatIsNot) {
  ContextRegistry registry;
  auto kept = Named("t", "kept");
  registry.BeginLoad("t", "kept");
  ASSERT_TRUE(registry.Publish(kept));
  for (int i = 0; i < 1000; ++i) {
    auto gone = Named("t", std::to_string(i));
    registry.BeginLoad("t", std::to_string(i));
    ASSERT_TRUE(registry.Publish(gone));
  }
  EXPECT_EQ(registry.Find("t", "kept"), kept);
  EXPECT_EQ(registry.Find("t", "17"), nullptr);
}

// Takes 4 * rows bytes.
std::shared_ptr<RegisteredContext> Registered(const std::string& name, int64_t rows) {
  auto context = Named("t", name);
  context->data = std::make_unique<ContextData>();
  context->data->y.resize(rows);
  return context;
}

TEST(ContextRegistryTest, HoldsTheLatestRegistrationsThatFit) {
  ContextRegistry registry(100);
  for (const char* name : {"a", "b", "c"}) registry.AddRegistered(Registered(name, 10));
  EXPECT_EQ(registry.Find("t", "a"), nullptr);
  EXPECT_NE(registry.Find("t", "b"), nullptr);
  EXPECT_NE(registry.Find("t", "c"), nullptr);
  registry.AddRegistered(Registered("large", 26));
  EXPECT_EQ(registry.Find("t", "large"), nullptr);
  EXPECT_NE(registry.Find("t", "b"), nullptr);
  registry.AddRegistered(Registered("exact", 25));
  EXPECT_NE(registry.Find("t", "exact"), nullptr);
  EXPECT_EQ(registry.Find("t", "c"), nullptr);
}

TEST(ContextRegistryTest, AReleasedRegistrationLivesAsLongAsItsRequest) {
  ContextRegistry registry(100);
  registry.AddRegistered(Registered("a", 20));
  auto taken = registry.Find("t", "a");
  ASSERT_NE(taken, nullptr);
  registry.Release(*taken);
  registry.Release(*taken);
  EXPECT_EQ(registry.Find("t", "a"), taken);
  registry.AddRegistered(Registered("b", 25));  // its bytes are free again
  EXPECT_NE(registry.Find("t", "b"), nullptr);
  taken.reset();
  EXPECT_EQ(registry.Find("t", "a"), nullptr);
}

TEST(ContextRegistryTest, ADeletedRegistrationIsDropped) {
  ContextRegistry registry(100);
  registry.AddRegistered(Registered("a", 20));
  const std::weak_ptr<const RegisteredContext> old = registry.Find("t", "a");
  registry.Invalidate("t", "a");
  EXPECT_TRUE(old.expired());
  const auto fresh = Registered("a", 25);
  registry.AddRegistered(fresh);
  EXPECT_EQ(registry.Find("t", "a"), fresh);
  EXPECT_FALSE(fresh->deleted);
}

// One object for a registration, whether the loader or the registration comes first.
TEST(ContextRegistryTest, ALoadAndARegistrationGiveOneContext) {
  ContextRegistry registry(100);
  registry.BeginLoad("t", "a");
  const auto registered = Registered("a", 1);
  registry.AddRegistered(registered);
  EXPECT_FALSE(registry.Publish(Named("t", "a")));
  EXPECT_EQ(registry.Find("t", "a"), registered);

  const auto loaded = Named("t", "b");
  registry.BeginLoad("t", "b");
  ASSERT_TRUE(registry.Publish(loaded));
  registry.AddRegistered(Registered("b", 1));
  EXPECT_EQ(registry.Find("t", "b"), loaded);
}

}  // namespace
}  // namespace chorale
